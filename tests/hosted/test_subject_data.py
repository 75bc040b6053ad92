"""The subject's own page: who may see it, and what it says."""

import io
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.utils.timezone import now
from django.utils.translation import override
from pypdf import PdfReader

from tests.hosted.test_notices import REFEREE
from tests.hosted.test_pages import PAGE_BYTES, size_of
from tests.world.clients import Api, person
from tests.world.subject import BORN, EVIDENCE, Visitor, newest_code, visible_text
from verification.checks import finding_words
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckResult
from verification.consents.links import MAX_WRONG_CODES, TRIES
from verification.consents.models import Consent
from verification.hosted import subject_data
from verification.hosted.subject_data import pdf_data, report_view
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, Channel, Kind, Notification
from verification.notifications.recipients import block
from verification.privacy.access import load_reports
from verification.privacy.models import Correction, Origin, RequestKind
from verification.privacy.personal_data import erase_reports
from verification.privacy.requests import open_request
from verification.privacy.withdrawals import withdraw
from verification.providers import findings, metropol, screening
from verification.reports.models import Report
from verification.values.local_time import format_nairobi
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db

EMAIL = "wanjiku@kamau.test"
MINE = {"email": EMAIL, "dateOfBirth": "1990-03-27"}
FOUND = "What was found about you"
CHALLENGE = "Confirm that it is you"
CODE = "Enter the code that we sent you"
SECRETS = ("serialNumber", "placeOfBirth", "creditScore", "taxStation")


@pytest.fixture
def granted(ask: Any) -> Visitor:
    return grant(ask())


@pytest.fixture
def live_granted(live_ask: Any) -> Visitor:
    return grant(live_ask(subject={"email": EMAIL}))


def grant(visitor: Visitor) -> Visitor:
    """Let the subject consent, and come again with another browser."""
    visitor.agree()
    again = Visitor(visitor.link)
    again.report_id, again.consent = visitor.report_id, visitor.consent
    return again


def data_page(visitor: Visitor) -> str:
    visitor.open()
    visitor.page += "data/"
    return visitor.text()


def codes() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.ACCESS_CODE).order_by("id"))


def test_subject_sees_and_loads_the_data_after_the_challenge(granted: Visitor):
    page = data_page(granted)
    assert CHALLENGE in page
    assert FOUND not in page
    for name in ("my-data.pdf", "my-data.json"):
        answer = granted.get(name)
        assert (answer.status_code, answer["Location"]) == (303, granted.page)

    granted.confirm()

    page = granted.text()
    assert FOUND in page
    (heading,) = re.findall("<h2 [^>]*>(Report .*?)</h2>", page)
    report = granted.consent.report
    ordered_at = format_nairobi(report.created_at, "j F Y, H:i T")
    assert heading == f"Report {report.number} <small>{ordered_at}</small>"


def test_page_of_the_decision_leads_to_the_data(granted: Visitor):
    granted.open()
    granted.confirm()

    assert f'href="{granted.page}data/"' in granted.text()


def test_address_gets_a_fresh_code(live_granted: Visitor):
    data_page(live_granted)
    live_granted.confirm()
    page = live_granted.text()
    assert CODE in page
    assert FOUND not in page
    assert [one.recipient for one in codes()] == [EMAIL]
    live_granted.post("code", answer="wrong")
    page = live_granted.text()
    assert CODE in page
    assert FOUND not in page

    live_granted.post("code", answer=newest_code())

    assert FOUND in live_granted.text()


def test_block_suspension_and_limit_of_the_client_keep_no_code_back(
    live_granted: Visitor,
):
    workspace = live_granted.consent.report.workspace
    block(workspace.pk, [(Channel.EMAIL, EMAIL)], Block.Reason.UNWANTED)
    workspace.suspend("Unpaid invoices")
    Workspace.objects.update(messages_per_day=0)
    data_page(live_granted)
    live_granted.confirm()

    send_due_notifications()

    assert [one.status for one in codes()] == ["SENT"]
    live_granted.post("code", answer=newest_code())
    assert FOUND in live_granted.text()


def test_request_that_is_open_shows_no_data(ask: Any):
    visitor = ask()
    visitor.open()
    visitor.confirm()

    answer = visitor.get("data/")

    assert (answer.status_code, answer["Location"]) == (303, visitor.page)
    assert visitor.post("data/confirm", **BORN)["Location"].endswith("data/")


def test_stranger_without_the_link_sees_nothing(granted: Visitor):
    stranger = Visitor("")
    stranger.page = f"/c/v/{granted.consent.pk}/data/"

    assert stranger.get().status_code == 403
    assert stranger.post("confirm", **BORN).status_code == 403


def test_link_of_somebody_else_opens_no_other_data(granted: Visitor, ask: Any):
    other = ask(subject={"idNumber": "87654321", "email": "otieno@kamau.test"})
    other.open()
    other.confirm()
    other.page = f"/c/v/{granted.consent.pk}/data/"

    assert other.get().status_code == 403


@pytest.mark.slow
def test_500_wrong_answers_are_harmless(granted: Visitor):
    at = now()
    for nth in range(100):
        with time_machine.travel(at + timedelta(days=2 * nth)):
            granted.open()
            granted.page += "data/"
            for _ in range(TRIES):
                granted.confirm(day="1", month="1", year="1980")
    with time_machine.travel(at + timedelta(days=2 * nth, minutes=1)):
        page = granted.get()
        assert page.status_code == 429
        assert FOUND not in page.content.decode()

    granted.consent.refresh_from_db()
    assert not granted.consent.is_locked_for_good
    with time_machine.travel(at + timedelta(days=2 * nth + 2)):
        assert FOUND in granted.see_data().content.decode()


def test_wrong_codes_lock_the_data_for_a_day(live_granted: Visitor):
    data_page(live_granted)
    live_granted.confirm()
    Consent.objects.update(wrong_codes=MAX_WRONG_CODES - 1)
    moment = codes()[-1].created_at

    live_granted.post("code", answer="wrong")

    assert live_granted.get().status_code == 429
    live_granted.post("code", answer=newest_code())
    assert live_granted.get().status_code == 429
    with time_machine.travel(moment + timedelta(days=1, hours=1)):
        assert FOUND in live_granted.see_data().content.decode()


def test_link_that_is_locked_for_good_stays_locked(ask: Any):
    visitor = ask()
    Consent.objects.filter(pk=visitor.consent.pk).update(
        status="EXPIRED", locks=4, expires_at=now() + timedelta(days=1)
    )

    visitor.open()
    page = visitor.get("data/")

    assert page.status_code == 410
    assert "This link is locked" in page.content.decode()
    visitor.page += "data/"
    visitor.confirm()
    assert visitor.get().status_code == 410


def test_old_link_opens_no_data(granted: Visitor):
    data_page(granted)
    granted.confirm()
    Consent.objects.filter(pk=granted.consent.pk).update(
        generation=2, token_digest=b"another link"
    )

    page = granted.get()

    assert page.status_code == 410
    assert FOUND not in page.content.decode()
    assert granted.confirm().status_code == 303
    assert FOUND not in granted.text()


def test_subject_who_was_not_meant_sees_no_data(live_ask: Any):
    visitor = live_ask(subject={"email": EMAIL})
    visitor.open()
    visitor.post("not-me")

    assert visitor.get("data/").status_code == 303


def test_report_without_any_proof_shows_nothing(granted: Visitor):
    report = Report.objects.get(pk=granted.report_id)
    report.subject = {"subjectType": "INDIVIDUAL", "fullName": "Wanjiku Kamau"}
    report.save()

    page = data_page(granted)

    assert "We cannot tell that it is you" in page
    assert FOUND not in page


def test_company_has_no_such_page(ask_company: Any):
    visitor = ask_company()
    Consent.objects.update(status="GRANTED")
    visitor.open()

    assert visitor.get("data/").status_code == 303


def test_link_of_an_erased_report_says_what_was_erased(granted: Visitor, api: Api):
    api.work()
    with time_machine.travel("2026-11-20 09:00:00+00:00"):
        erase_reports([granted.report_id], now())

    assert data_page(granted) == ""
    page = granted.text("deletion")

    assert "Your details were deleted" in page
    assert "On 20 November 2026" in page
    assert "Wanjiku" not in page


def test_consent_page_of_an_erased_report_leads_there_too(granted: Visitor, api: Api):
    api.work()
    granted.prove("data/")
    erase_reports([granted.report_id], now())

    page = granted.page
    for address in (page.removesuffix("data/"), f"{page}my-data.pdf"):
        answer = granted.browser.get(address, follow=True)
        assert "Your details were deleted" in answer.content.decode(), address
    assert granted.browser.get(f"{page}my-data.json").status_code == 303


def found_for(api: Api, ask: Any, **members: Any) -> Visitor:
    """Let a subject consent and the checks run; return the subject at their data."""
    visitor = grant(ask(**members))
    api.work()
    visitor.prove("data/")
    return visitor


def test_page_pdf_and_json_say_what_was_found(api: Api, ask: Any):
    visitor = found_for(api, ask, subject={"idNumber": "90000002"}, reference="loan-7")

    text = visible_text(visitor.text())

    for words in (
        "Asked by Acacia Lenders, owner@acacia.test",
        "Why Loan application",
        "Reference loan-7",
        "National identity",
        "This number belongs to somebody else, whose details we do not show.",
        "The register has another name for this ID number.",
        "Score 55 of 100, medium risk: something does not fit, or is not known.",
        "Comparison of the name Different",
        "Your details",
        "ID number 90000002",
    ):
        assert words in text, words
    kept = Report.objects.get(pk=visitor.report_id).completed_at + timedelta(days=365)
    assert f"Kept until {format_nairobi(kept, 'j F Y')}" in text

    answer = visitor.get("my-data.pdf")
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Cache-Control"] == "no-store"
    reader = PdfReader(io.BytesIO(answer.content))
    text = " ".join(page.extract_text() for page in reader.pages)
    assert "The register has another name for this ID number." in text
    assert reader.xmp_metadata is not None
    assert b"pdfuaid:part" in reader.xmp_metadata.stream.get_data()

    answer = visitor.get("my-data.json")
    assert answer["Content-Type"] == "application/json"
    data = answer.json()
    assert data["format"] == "subject-data/1"
    (report,) = data["reports"]
    assert report["subject"]["idNumber"] == "90000002"
    assert report["consent"]["decisions"][0]["decision"] == "GRANTED"
    identity = report["checks"][0]
    assert (identity["check"], identity["score"]) == ("IDENTITY", 55)
    assert identity["flags"][0]["code"] == "NAME_MISMATCH"
    assert identity["details"]["nameMatch"] == "NO_MATCH"


def test_subject_does_not_see_whose_number_was_typed(api: Api, ask: Any):
    visitor = found_for(api, ask, subject={"idNumber": "90000002"})

    document = PdfReader(io.BytesIO(visitor.get("my-data.pdf").content))
    (report,) = visitor.get("my-data.json").json()["reports"]
    texts = [
        visible_text(visitor.text()),
        " ".join(page.extract_text() for page in document.pages),
        str(report["checks"]),
    ]

    results = CheckResult.objects.filter(report=visitor.report_id)
    strangers = [one.finding for one in results if one.pk]
    assert len(strangers) == 3
    for finding in strangers:
        details = finding["details"]
        of_stranger = {details.get("fullName") or details["taxpayerName"]}
        of_stranger |= {str(details[n]) for n in SECRETS if details.get(n)}
        for value in of_stranger:
            # A score of three digits may be part of a digest.
            word = re.compile(rf"\b{re.escape(value)}\b")
            assert not any(word.search(text) for text in texts), value
    assert all("belongs to somebody else" in text for text in texts)
    assert all(check["isAboutAnother"] for check in report["checks"])
    result = results.get(name="IDENTITY")
    asked = visitor.text(f"wrong/{result.pk}")
    assert "This is wrong" in asked
    assert "registered under another name" not in asked
    (known,) = [
        r
        for r in api.report(visitor.report_id)["checkResults"]
        if r["checkName"] == "IDENTITY"
    ]
    assert known["details"]["fullName"]


ABOUT_PEOPLE = [one for one in CATALOGUE if "INDIVIDUAL" in one.subject_types]


def test_page_with_every_check_is_small(api: Api, ask: Any):
    checks = [one.name for one in ABOUT_PEOPLE if one.active]
    subject = {**REFEREE, "idNumber": "90000003"}
    visitor = found_for(api, ask, checksRequested=checks, subject=subject)

    # The words are longer than the English ones.
    page = visitor.get(lang="sw")
    assert page.content.count(b'class="state ') == len(checks)
    assert size_of(page) < PAGE_BYTES


@pytest.mark.parametrize("number", ["90000001", "90000002", "90000003"])
def test_report_in_kiswahili_has_no_english(api: Api, number: str):
    checks = [one.name for one in ABOUT_PEOPLE if one.active]
    item = person(**REFEREE, idNumber=number)
    made = api.create({**item, "checksRequested": checks})
    api.work()

    with override("sw"):
        (found,) = load_reports([Report.objects.get(pk=made["id"])], now())
        text = squeezed(str(report_view(found)))
        document = pdf_data([found], now(), is_all=True)

    assert document["language"] == "sw"
    results = CheckResult.objects.filter(report=made["id"])
    assert {one.status for one in results} == {"COMPLETED"}
    for finding in (one.finding for one in results):
        said = [finding["summary"], *(flag["message"] for flag in finding["flags"])]
        codes = re.findall(r"'([A-Z_]{4,})'", str(finding["details"]))
        english = {*said, *codes} - {"KES"}
        assert [words for words in english if squeezed(words) in text] == []


def test_words_of_sources_are_quoted_in_kiswahili():
    flag = {"code": "NEW_FLAG", "severity": "LOW", "message": "Look at it."}
    finding = {"summary": "Look at it.", "flags": []}

    with override("sw"):
        assert finding_words.flag_text(flag) == "Chanzo kinasema: “Look at it.”"
        summary = finding_words.summary_text("NEW_CHECK", finding, 5)
    assert summary == "Chanzo kinasema: “Look at it.”"
    assert finding_words.text_of({"remarks": "Punctual"}) == "Remarks: “Punctual”"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "Chanzo kinasema: “No record was found.”"),
        ("Acacia", "Kumbukumbu imepatikana; si yote yaliyoweza kulinganishwa."),
    ],
)
def test_missing_company_is_no_record_in_kiswahili(name, said):
    details = {"registrationNumber": "PVT-1", "registeredName": name}
    finding = {"summary": "No record was found.", "flags": [], "details": details}

    with override("sw"):
        summary = finding_words.summary_text("BUSINESS_VERIFICATION", finding, None)
    assert summary == said


def test_all_of_a_finding_has_words():
    details = {name for one in CATALOGUE for name in one.output_fields}
    flags = {code for one in CATALOGUE for code in one.flag_codes}
    values = {code for *_, code in metropol.STATUSES}
    values |= {*metropol.PRODUCTS.values(), *metropol.STANDINGS.values()}
    values |= {
        *metropol.LISTINGS.values(),
        *findings.PIN_STATUSES.values(),
        *screening.TOPICS,
        *("debarment", "wanted", "crime", "crime.fin", "crime.traffick.drug", "poi"),
    }

    assert details - set(finding_words.LABELS) == set()
    assert flags - set(finding_words.FLAGS) == set()
    assert values - set(finding_words.VALUES) == set()
    assert {one.name for one in CATALOGUE} - set(finding_words.CLEAR) == set()


def test_page_and_document_say_all_of_a_finding(api: Api, ask: Any):
    checks = ["CRB_FULL", "CRB_STANDARD"]
    visitor = found_for(
        api, ask, checksRequested=checks, subject={"idNumber": "90000003"}
    )

    page, document = squeezed(visible_text(visitor.text())), squeezed(pdf_text(visitor))

    for result in CheckResult.objects.filter(name__in=checks):
        texts = map(finding_words.text_of, leaves(result.finding["details"]))
        for text in map(squeezed, filter(None, texts)):
            assert text in page
            assert text in document


def pdf_text(visitor: Visitor, **query: str) -> str:
    reader = PdfReader(io.BytesIO(visitor.get("my-data.pdf", **query).content))
    return " ".join(page.extract_text() for page in reader.pages)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values inside lists and objects."""
    match value:
        case dict():
            for member in value.values():
                yield from leaves(member)
        case list():
            for member in value:
                yield from leaves(member)
        case _:
            yield value


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_page_shows_the_first_of_many_records(api: Api, ask: Any):
    visitor = found_for(api, ask, checksRequested=["CRB_FULL"])
    result = CheckResult.objects.get(name="CRB_FULL")
    result.finding["details"]["accounts"] = [{"lender": f"Bank {n}"} for n in range(9)]
    result.save()

    page = visible_text(visitor.text())

    assert "Accounts 5 Lender: Bank 4" in page
    assert "Accounts 4 more are in the documents." in page
    assert "Bank 8" not in page
    assert "Bank 8" in pdf_text(visitor)


def test_page_names_live_sources_in_plain_words(live_ask: Any, paying_api: Api):
    visitor = grant(live_ask())
    paying_api.work()
    result = CheckResult.objects.get(name="IDENTITY")
    result.finding = {"evidence": {"provider": "smile_id"}}
    result.status, result.failure_code = "COMPLETED", ""
    result.save()

    visitor.prove("data/")
    text = visible_text(visitor.text())

    assert (
        "Smile Identity, Inc. (the United States), which asked the national register"
        in text
    )


def test_page_shows_all_reports_of_the_person_newest_first(api: Api, ask: Any):
    for purpose in ("First loan", "Second loan"):
        api.create({**person(**MINE), "purpose": purpose})
    visitor = found_for(api, ask, subject=MINE, purpose="Third loan")

    first = visitor.text()
    older = re.search(r'href="(\?older-than=[^"]+)"', first)
    assert older
    second = visitor.get(older[1]).content.decode()

    both = visible_text(first + second)
    found = [both.index(f"Why {nth} loan") for nth in ("Third", "Second", "First")]
    assert found == sorted(found)
    assert both.count("Why ") == 3
    assert "Newest reports" in second
    assert "Older reports" not in second
    for wrong in ("x", str(uuid4())):
        again = visitor.get(**{"older-than": wrong}).content.decode()
        assert "Why Third loan" in visible_text(again)


def test_page_shows_no_report_of_others(
    api: Api, ask: Any, another_api: Api, paying_api: Api
):
    another_api.create({**person(), "purpose": "Other workspace"})
    paying_api.create({**person(), "purpose": "Other environment"})
    api.create({**person(idNumber="87654321"), "purpose": "Other person"})

    visitor = found_for(api, ask, purpose="Mine")

    found = visitor.text("my-data.json")
    assert "Mine" in found
    assert "Other" not in found


def test_page_says_that_a_finding_is_risky_disputed_or_restricted(api: Api, ask: Any):
    visitor = found_for(api, ask)
    assert "Agrees" in visitor.text()
    # A risky score does not agree, even without a flag.
    CheckResult.objects.update(score=57, risk_level="MEDIUM")
    Report.objects.update(restricted_at=now())
    report = Report.objects.get(pk=visitor.report_id)
    result = report.results.get(name="IDENTITY")
    request = open_request(
        RequestKind.CORRECTION, Origin.SUBJECT, requested_by="subject", report=report
    )
    Correction.objects.create(
        request=request, report=report, result=result, check_name="IDENTITY"
    )

    text = visible_text(visitor.text())

    assert "Needs a look" in text
    assert "Agrees" not in text
    assert "You objected on" in text
    assert "You said that this is wrong. It is being looked into." in text
    assert ", or later: an open question about it is settled first" in text
    assert f"{request.number}, National identity: Received" in pdf_text(visitor)

    # Staff can withdraw both for the subject.
    withdraw(visitor.consent.pk, 1, EVIDENCE, "")
    Correction.objects.update(status="WITHDRAWN", decided_by="a", decided_at=now())
    text = visible_text(visitor.get(lang="sw").content.decode())
    assert "Ridhaa yako iliondolewa: " in text
    assert ": Limeondolewa" in text
    assert "Uliondoa" not in text


@pytest.mark.usefixtures("new_minute")
def test_downloads_are_limited(granted: Visitor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject_data, "DOWNLOADS_PER_MINUTE", 2)
    granted.prove("data/")

    statuses = [granted.get("my-data.json").status_code for _ in range(3)]

    assert statuses == [200, 200, 429]


def test_page_costs_few_statements(
    api: Api, ask: Any, django_assert_max_num_queries: Any
):
    visitor = found_for(api, ask)
    api.create(person(dateOfBirth="1990-03-27"))
    # The first view is entered in the register of requests.
    visitor.get()

    with django_assert_max_num_queries(22):
        visitor.get()
