"""The form by which a subject calls a finding wrong, and the page of its state."""

import io
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from pypdf import PdfReader

from tests.files.samples import pdf, picture
from tests.hosted.conftest import asking, with_new_browser
from tests.hosted.test_subject_data import data_page, grant
from tests.world.clients import Api, create_lender, person
from tests.world.corrections import MISTYPED, REASON, RIGHT, reviewer
from tests.world.members import create_member
from tests.world.subject import Visitor, visible_text
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind
from verification.checks.models import CheckResult
from verification.files import inspection
from verification.files.storage import read_content
from verification.golive.applications import ActingUser
from verification.hosted import subject_rights
from verification.privacy.corrections import (
    Statement,
    confirm,
    open_correction,
    rerun,
    take,
)
from verification.privacy.models import Correction
from verification.privacy.personal_data import erase_reports
from verification.values.clock import now
from workspaces import rate_limits
from workspaces.models import Workspace

SAID = {"what": "The name is not mine.", "why": "Two digits\nwere swapped."}


@pytest.fixture(scope="module")
def checked(module_transaction: None) -> Visitor:
    """A subject who consented to a check, which found another name."""
    api = Api(create_lender(), "sandbox")
    ask = asking(api)
    visitor: Visitor = ask(subject={"idNumber": MISTYPED}, checksRequested=["IDENTITY"])
    visitor.agree()
    api.work()
    return visitor


@pytest.fixture
def workspace(checked: Visitor, db: None) -> Workspace:
    return Workspace.objects.get()


@pytest.fixture
def subject(db: None, checked: Visitor) -> Visitor:
    """The subject at the page of the finding, with a browser of this test."""
    visitor = with_new_browser(checked)
    visitor.prove("data/")
    return visitor


def form_of(visitor: Visitor) -> str:
    """Return the rest of the form's address."""
    return f"wrong/{CheckResult.objects.get(report=visitor.report_id).pk}"


def send(visitor: Visitor, *files: tuple[str, bytes, str], **said: str) -> Any:
    uploads = [SimpleUploadedFile(*file) for file in files]
    return visitor.post(form_of(visitor), **(SAID | said), documents=uploads)


def test_subject_disputes_a_finding_with_documents(subject: Visitor, api: Api):
    assert f'href="{form_of(subject)}"' in subject.text()

    answer = send(
        subject,
        ("id.pdf", pdf(), "application/pdf"),
        ("id.jpg", picture(), "image/jpeg"),
    )

    assert answer.status_code == 303
    correction = Correction.objects.get()
    assert correction.statement == SAID | {"language": "en"}
    names = [d.name for d in correction.documents.order_by("id")]
    assert names == ["id.pdf", "id.jpg"]
    assert read_content(correction.documents.order_by("id").first()) == pdf()
    page = subject.browser.get(answer["Location"]).content.decode()
    assert "Received, not looked into yet" in page
    assert correction.request.number in page
    page = subject.text()
    assert "It is being looked into." in page
    assert "wrong/" not in page


def test_slow_writer_keeps_the_statement_though_the_pages_close(subject: Visitor):
    where = form_of(subject)

    with time_machine.travel(now() + timedelta(hours=23)):
        invalid = subject.post(where, **SAID | {"what": ""})
        sent = subject.post(where, **SAID)
        assert subject.get(where).status_code == 403
        assert subject.get().status_code == 403
        late = subject.post("delete")

    assert late.status_code == 403
    assert "What you just sent did not arrive" in late.content.decode()

    assert "were swapped." in invalid.content.decode()
    assert sent.status_code == 303
    assert Correction.objects.get().statement["what"] == SAID["what"]


def test_form_needs_both_answers_and_documents_that_are_what_they_claim(
    subject: Visitor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(subject_rights, "FORMS_PER_MINUTE", 99)
    where = subject.page + form_of(subject)

    answer = send(subject, ("id.pdf", pdf(), "application/pdf"), what=" ")
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "Say what is wrong" in page
    assert "were swapped." in page
    assert "Choose your documents again" in page
    assert 'aria-describedby="id_documents-hint id_documents-error"' in page
    for files, said in REFUSED_DOCUMENTS:
        assert said in send(subject, *files).content.decode()
    for body, kind, status in [
        (b'{"what": "x", "why": "y"}', "application/json", 200),
        (b"what=x&why=y", "text/plain", 200),
        (b"x" * 100, "multipart/form-data", 400),
    ]:
        refused = subject.browser.post(where, body, content_type=kind)
        assert refused.status_code == status, body
    with inspection.NEWCOMERS._slots, inspection.NEWCOMERS._slots:
        answer = send(subject, ("id.pdf", pdf(), "application/pdf"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "60")
    assert "Send it again in a minute" in answer.content.decode()
    assert not Correction.objects.exists()


REFUSED_DOCUMENTS = [
    ([("id.pdf", picture(), "")], "does not match the file"),
    ([("id.pdf", pdf(), "application/pdf")] * 4, "at most three"),
]


def test_large_form_and_one_of_another_site_are_refused(subject: Visitor):
    large = ("id.pdf", pdf() + bytes(20 * 1024 * 1024), "application/pdf")
    answer = send(subject, large)
    assert answer.status_code == 413
    assert "choose smaller files" in answer.content.decode()
    # Other forms stay small.
    small = SimpleUploadedFile("id.pdf", bytes(70_000), "application/pdf")
    assert subject.post("confirm", documents=small).status_code == 413

    where = form_of(subject)
    subject.browser.handler.enforce_csrf_checks = True
    assert subject.post(where, **SAID).status_code == 403
    assert not Correction.objects.exists()


def test_result_of_somebody_else_is_refused(subject: Visitor, api: Api):
    for other_person in [
        {"idNumber": "87654321"},
        # The client typed the same number for another person.
        {"idNumber": MISTYPED, "dateOfBirth": "1985-01-02"},
    ]:
        made = api.create({**person(**other_person), "checksRequested": ["IDENTITY"]})
        api.work()
        foreign = CheckResult.objects.get(report=made["id"])

        answer = subject.post(f"wrong/{foreign.pk}", **SAID)

        assert answer["Location"] == subject.page, other_person
        assert not Correction.objects.exists(), other_person


def test_correction_of_a_namesakes_report_is_not_shown(ask: Any, api: Api):
    address = {"email": "wanjiku@kamau.test"}
    visitor = grant(ask(subject=address))
    visitor.prove("data/")
    namesake = person(idNumber="87654321", **address)
    made = api.create({**namesake, "checksRequested": ["IDENTITY"]})
    api.work()
    finding = CheckResult.objects.get(report=made["id"])
    opened = open_correction(made["id"], finding.pk, Statement(**SAID, language="en"))
    page = f"corrections/{opened.pk}"

    answers = [visitor.get(page), visitor.post(page)]

    assert [answer["Location"] for answer in answers] == [visitor.page] * 2
    opened.refresh_from_db()
    assert opened.is_open


def test_visitor_without_the_proof_is_led_to_it(subject: Visitor):
    where = form_of(subject)
    stranger = Visitor(subject.link)
    data_page(stranger)

    for answer in (stranger.get(where), stranger.post(where, **SAID)):
        assert (answer.status_code, answer["Location"]) == (303, stranger.page)
    assert not Correction.objects.exists()


def test_disputed_finding_takes_no_second_form_until_it_is_taken_back(
    subject: Visitor,
):
    where = form_of(subject)
    page = send(subject)["Location"]
    assert subject.get(where)["Location"] == subject.page
    assert subject.post(where, **SAID)["Location"] == subject.page
    assert Correction.objects.count() == 1

    subject.browser.post(page)

    assert Correction.objects.get().status == "WITHDRAWN"
    shown = subject.browser.get(page).content.decode()
    assert "Withdrawn" in shown
    assert "Ended on" in shown
    assert "Withdraw the correction" not in shown
    assert "wrong/" in subject.text()


def test_subject_reads_the_decision(subject: Visitor):
    page = send(subject)["Location"]
    correction = Correction.objects.get()
    take(correction.pk, reviewer())
    confirm(correction.pk, reviewer(), REASON)

    shown = subject.browser.get(page).content.decode()

    assert "it stays as it is" in shown
    assert REASON in shown
    assert "odpc.go.ke" in shown
    # A tab that was open before
    subject.browser.post(page)
    correction.refresh_from_db()
    assert correction.status == "CONFIRMED"
    found = subject.browser.get(f"{subject.page}my-data.json").json()
    (kept,) = found["reports"][0]["corrections"]
    assert (kept["status"], kept["reason"]) == ("CONFIRMED", REASON)


def test_subject_sees_each_rerun(subject: Visitor, api: Api):
    send(subject)
    correction = take(Correction.objects.get().pk, reviewer())
    owner = create_member(api.workspace, "OWNER").user
    rerun(correction.pk, ActingUser(owner, Actor(ActorKind.MEMBER, owner.email)))
    api.work()
    rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()
    assert "the new result does not count yet." in visible_text(subject.text())

    confirm(correction.pk, reviewer(), REASON)

    client, operator = api.workspace.requester.name, settings.OPERATOR_NAME
    said = [
        f"by {client}, with the same details: the new result does not count.",
        f"by {operator}, with other details (ID number): the new result does not",
    ]
    pdf_bytes = subject.get("my-data.pdf").content
    in_pdf = " ".join(PdfReader(io.BytesIO(pdf_bytes)).pages[0].extract_text().split())
    for page in (
        visible_text(subject.text()),
        visible_text(subject.text(f"corrections/{correction.pk}")),
        in_pdf,
    ):
        for text in said:
            assert text in page
    (report,) = subject.get("my-data.json").json()["reports"]
    (shown,) = report["corrections"]
    assert [
        (r["by"], r["changedDetails"], r["status"], r["isAccepted"])
        for r in shown["reruns"]
    ] == [
        ("CLIENT", [], "COMPLETED", False),
        ("STAFF", ["idNumber"], "COMPLETED", False),
    ]


def test_form_is_in_kiswahili(subject: Visitor):
    form = subject.get(form_of(subject), lang="sw").content.decode()
    send(subject)

    assert "Kipi si sahihi?" in form
    assert Correction.objects.get().statement["language"] == "sw"


def test_erased_report_has_no_form(subject: Visitor):
    where = form_of(subject)
    page = send(subject)["Location"]
    report = Correction.objects.get().report
    report.refresh_from_db()
    erase_reports([report.pk], report.completed_at)

    assert subject.get(where)["Location"] == subject.page
    assert subject.browser.get(page)["Location"] == subject.page


def test_flood_of_forms_is_refused(
    subject: Visitor, new_minute: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(subject_rights, "FORMS_PER_MINUTE", 2)
    where = form_of(subject)
    statuses = [subject.post(where, what="").status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
    assert not Correction.objects.exists()


def test_seconds_of_documents_count_as_forms(
    subject: Visitor, new_minute: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(subject_rights, "FORMS_PER_MINUTE", 99)
    monkeypatch.setattr(subject_rights, "DOCUMENTS_PER_MINUTE", 5)
    monkeypatch.setattr(rate_limits, "monotonic", count(step=10).__next__)
    document = ("id.txt", b"text", "text/plain")
    statuses = [send(subject, document).status_code for _ in range(2)]

    assert statuses == [200, 429]
    assert send(subject, what="").status_code == 200


def test_texts_and_names_of_documents_are_shown_as_text(subject: Visitor):
    html = "<img src=x onerror=alert(1)>"
    repeated = send(subject, what=html, why="").content.decode()

    answer = send(
        subject, (f"{html}.pdf", pdf(), "application/pdf"), what=html, why=html
    )

    shown = subject.browser.get(answer["Location"]).content.decode()
    assert "<img src=x" not in shown
    assert shown.count("&lt;img src=x onerror=alert(1)&gt;") == 3
    assert "<img src=x" not in repeated
    assert "&lt;img src=x" in repeated
