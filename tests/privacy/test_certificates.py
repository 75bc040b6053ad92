"""Certificates of erasures: what they say, and how anyone verifies them."""

import base64
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pypdf import PdfReader

from tests.world.clients import Api, erase, person, request_erasure
from tests.world.staff import change_url, read_page
from verification.privacy.certificates import WORDS, certificate_pdf
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure, SigningKey

PAGE = Path(settings.BASE_DIR, "docs", "client", "privacy.md").read_text()
NUMBER = "12345678"


@pytest.fixture
def certificate(api: Api) -> dict[str, str]:
    """The answer of the API about the erasure of a person with one report."""
    report_id = api.create({**person(), "reference": "loan-1"})["id"]
    api.work()
    erasure = erase(api, report_id)
    return api.get(f"/erasures/{erasure.pk}/certificate").json()


def test_certificate_says_what_was_erased_and_names_nobody(
    api: Api, certificate: dict[str, str]
):
    facts = json.loads(certificate["certificate"])

    assert facts["requestedBy"] == "the client"
    assert facts["workspace"] == str(api.workspace.pk)
    assert facts["reports"] == [api.get("/reports").json()["content"][0]["id"]]
    assert facts["erased"]["findings"] == 3
    assert facts["erased"]["reports"] == 1
    for personal in ("Wanjiku", "Kamau", NUMBER, "loan-1", "Loan application"):
        assert personal not in certificate["certificate"]


def test_certificate_is_verified_as_the_page_says(
    certificate: dict[str, str], tmp_path: Path
):
    """Run the commands of the page; its `curl` is a file that was downloaded."""
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(certificate))
    key = Client().get(certificate["keyUrl"].partition("//")[2].partition("/")[2])
    if key.status_code != 200:
        key = Client().get("/" + certificate["keyUrl"].split("/", 3)[3])
    (tmp_path / "key.pem").write_bytes(key.content)
    (tmp_path / "certificate.json").write_text(certificate["certificate"])
    (tmp_path / "certificate.sig").write_bytes(
        base64.b64decode(certificate["signature"])
    )
    (command,) = re.findall(r"^openssl pkeyutl .*$", PAGE, re.MULTILINE)

    good = run(command, tmp_path)
    (tmp_path / "certificate.json").write_text(certificate["certificate"] + " ")
    changed = run(command, tmp_path)

    assert (good.returncode, good.stdout) == (0, "Signature Verified Successfully\n")
    assert changed.returncode != 0


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command.split(), cwd=folder, capture_output=True, text=True, check=False
    )


def test_former_keys_stay_published(certificate: dict[str, str], settings):
    settings.SIGNING_KEY = b"another key of exactly 32 bytes."

    keys = Client().get("/.well-known/signing-keys.pem").content.decode()

    assert keys.count("BEGIN PUBLIC KEY") == 2
    former = SigningKey.objects.get(pk=certificate["key"])
    assert keys.endswith(former.pem)
    url = f"/.well-known/signing-keys/{former.pk}.pem"
    assert Client().get(url).content.decode() == former.pem


def test_unknown_key_is_not_found(db: None):
    url = "/.well-known/signing-keys/0000000000000000.pem"
    assert Client().get(url).status_code == 404


def test_key_is_published_before_the_first_certificate(db: None):
    keys = Client().get("/.well-known/signing-keys.pem")

    assert keys["Content-Type"] == "application/x-pem-file"
    assert keys.content.startswith(b"-----BEGIN PUBLIC KEY-----")


def test_certificate_comes_at_the_end(api: Api):
    made = request_erasure(api, api.create(person())["id"])

    for path in ("certificate", "certificate.pdf"):
        answer = api.get(f"/erasures/{made['id']}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "erasure-not-ended")


def test_certificate_is_served_as_a_document(api: Api):
    erasure = erase(api, api.create(person())["id"])

    served = api.get(f"/erasures/{erasure.pk}/certificate.pdf")

    document = b"".join(served) if served.streaming else served.content
    assert document.startswith(b"%PDF-1.7")
    assert b"pdfuaid" in document
    assert served["Content-Type"] == "application/pdf"
    assert erasure.number in served["Content-Disposition"]


def test_pdf_names_each_kind_in_its_language_and_groups_digits(api: Api):
    erasure = erase(api, api.create(person())["id"])
    # Certificates stay, with the words of their day.
    kinds = [*WORDS.values(), "receipts and telephones of payers"]
    counted = dict.fromkeys(kinds, 1_234_567)
    facts = json.loads(erasure.certificate) | {"erased": counted}
    erasure.certificate = json.dumps(facts)

    text = _text_of(certificate_pdf(erasure, "sw"))

    assert text.count("1,234,567") == len(counted)
    listed = text.partition("Kilichofutwa")[2].partition("Kinachobaki")[0]
    assert [word for word in counted if word in listed] == []
    assert "Nambari za ripoti" in text


def _text_of(document: bytes) -> str:
    pages = PdfReader(io.BytesIO(document)).pages
    return " ".join(page.extract_text() for page in pages)


def test_staff_take_the_certificate_as_a_document(api: Api, staff: Client):
    made = request_erasure(api, api.create(person())["id"])
    erasure = Erasure.objects.get(pk=made["id"])
    document = f"{change_url(erasure).removesuffix('change/')}certificate.pdf"
    assert document not in read_page(staff, change_url(erasure))
    assert staff.get(document).status_code == 404

    erase_person(made["id"])

    assert document in read_page(staff, change_url(erasure))
    answer = staff.get(document)
    (page,) = PdfReader(io.BytesIO(answer.content)).pages
    assert erasure.number in page.extract_text()
    assert answer["Content-Disposition"].endswith(f'"{erasure.number}.pdf"')
    # It needs the permission.
    User.objects.get(username="grace").user_permissions.clear()
    assert staff.get(document).status_code in {403, 404}
    assert Client().get(document).status_code == 302
