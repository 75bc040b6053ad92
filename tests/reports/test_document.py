import io
import re
from datetime import UTC, datetime

import pytest
from django.utils.timezone import now
from django.utils.translation import override
from pypdf import PdfReader

from tests.world.clients import (
    HOSTED,
    NOT_OBTAINED,
    Api,
    company,
    erase,
    person,
)
from tests.world.orders import REFUSED, create_report_with_status, two_checks
from tests.world.packages import by_package, create_package
from verification.checks.finding_words import failure_text, humanise_name
from verification.checks.models import CheckResult
from verification.console.finding_cards import result_context
from verification.console.reports import ERASED, HAPPENED
from verification.documents.report import _check, report_pdf
from verification.hosted.subject_data import report_view
from verification.privacy.access import SubjectReport
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.reports.status import record_note

# Entries of the timeline whose words are those of the new status
MOVES = {
    *("created", "launched", "retried", "paid", "cancelled", ERASED),
    *("created without the referee", "retention is over"),
    *("consent granted", "consent declined", "consent expired", "payment expired"),
    # Of earlier versions
    "correction in_review",
}


def page_texts(api: Api, report_id: str) -> list[str]:
    """Return the text of each page, with spaces for line ends."""
    answer = api.get(f"/reports/{report_id}/pdf")
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "application/pdf"
    reader = PdfReader(io.BytesIO(answer.content))
    return [" ".join(page.extract_text().split()) for page in reader.pages]


def test_document_has_two_pages(api: Api):
    report = api.create({**person(idNumber="90000003"), "reference": "loan-4711"})
    api.work()
    first, second = page_texts(api, report["id"])
    assert "Wanjiku Kamau" in first
    assert "High risk" in first
    assert "100 High risk" in first
    assert "Highest in National identity" in first
    assert "High · The register records the holder as deceased." in first
    assert "Test data." in first
    assert "loan-4711" in first + second
    assert "Check that this report is genuine" in second
    assert "objected" not in first + second
    assert "90000003" not in first + second
    assert "••••0003" in first + second


def test_document_has_words_and_no_codes(api: Api):
    report = Report.objects.get(pk=api.create(person(idNumber="90000003"))["id"])
    api.work()
    report.refresh_from_db()
    for language in ("en", "sw"):
        reader = PdfReader(io.BytesIO(report_pdf(report, language)))
        text = " ".join(page.extract_text() for page in reader.pages)

        assert re.findall(r"\b[A-Z]{3,}(?:_[A-Z]+)+\b", text) == []
        codes = {*ReportStatus.values, *RiskLevel.values}
        assert not codes & set(re.findall(r"\w+", text))
        assert reader.root_object["/Lang"] == language
        assert b"pdfuaid" in reader.root_object["/Metadata"].get_object().get_data()


def test_document_shows_the_worst_flags_first(api: Api):
    report = Report.objects.get(pk=api.create(person(idNumber="90000003"))["id"])
    api.work()
    result = report.results.first()
    result.finding["flags"] = [
        {"code": "PAST_DELINQUENCY", "severity": severity, "message": severity}
        for severity in ("LOW", "HIGH", "MEDIUM")
    ]
    shown = _check(result, report)["flags"]

    assert [flag["severity"] for flag in shown] == ["HIGH", "MEDIUM", "LOW"]


def test_equal_reports_give_equal_bytes(api: Api):
    report = api.create(company())
    api.work()
    path = f"/reports/{report['id']}/pdf"
    document = api.get(path).content
    assert api.get(path).content == document
    finding = api.report(report["id"])["checkResults"][0]["details"]
    # A finding with a list of objects
    pages = PdfReader(io.BytesIO(document)).pages
    text = " ".join(" ".join(page.extract_text().split()) for page in pages)
    assert finding["directors"][0]["fullName"] in text


def test_document_of_an_incomplete_report_is_not_clean_and_has_markup_as_text(api: Api):
    create_package(display_name="Loan application")
    marked = "#set text(red) _Bold_ $x$ <a>"
    report = api.create({**by_package(fullName=marked), "consent": HOSTED})
    text = " ".join(page_texts(api, report["id"]))
    assert "Not completed yet" in text
    assert "0 of 3" in text
    assert "Not scored" in text
    assert "Low risk" not in text
    # Markup in a name is text.
    assert marked in text
    assert "Package Loan application" in text


def test_document_omits_an_erased_subject(api: Api):
    report = api.create(person(fullName="Wanjiku Kamau"))
    api.work()
    erase(api, report["id"])
    document = report_pdf(Report.objects.get())
    text = " ".join(
        page.extract_text() for page in PdfReader(io.BytesIO(document)).pages
    )
    assert "The subject's details were erased." in text
    # It had a score, and its checks may have had flags.
    assert "No check has given a score" not in text
    assert "No flags" not in text


def test_document_warns_when_the_subject_objected(api: Api):
    made = api.create(person())["id"]
    api.work()
    Report.objects.update(restricted_at=now())
    warning = "The subject objected. Do not use this report for anything else."
    assert warning in " ".join(page_texts(api, made))


def test_document_says_in_its_language_why_a_check_failed(api: Api):
    api.create({**person(idNumber=REFUSED), "checksRequested": ["IDENTITY"]})
    api.work()
    document = report_pdf(Report.objects.get(), "sw")
    text = PdfReader(io.BytesIO(document)).pages[0].extract_text()
    assert "Chanzo kimekataa ombi." in text
    assert "refused" not in text


@pytest.mark.parametrize(
    "code",
    [
        *("REFEREE_DECLINED", "REFEREE_NO_ANSWER", "ENGINE_GAVE_UP"),
        *("PROVIDER_NOT_CONFIGURED", "SOURCE_NOT_CONSENTED", "FIXTURE_MISSING"),
    ],
)
def test_each_failure_has_words_in_kiswahili(code: str):
    with override("sw"):
        assert failure_text(code, "In English.") != "In English."
    assert failure_text(code, "In English.") == "In English."


def test_document_says_of_no_unmade_check_that_its_source_answered(api: Api):
    made = api.create(two_checks(idNumber=REFUSED, kraPin="A900000006Z"))["id"]
    api.work()
    assert api.post(f"/reports/{made}/cancel").status_code == 200
    ends = CheckResult.objects.order_by("position").values_list("status", flat=True)
    assert list(ends) == ["FAILED", "CANCELLED"]

    text = " ".join(page_texts(api, made))
    assert "answered" not in text
    assert "Completed" not in text
    assert re.search(r"Ended \d", text)


def test_reused_result_has_the_day_of_its_answer(api: Api):
    item = {**person(), "checksRequested": ["IDENTITY"]}
    api.create(item)
    api.work()
    origin = CheckResult.objects.get()
    origin.finding["evidence"]["retrievedAt"] = "2026-10-20T09:00:00Z"
    origin.save()
    report = Report.objects.get(pk=api.create(item)["id"])
    api.work()
    result = report.results.get()
    assert result.reused

    assert "20 Oct 2026" in _check(result, report)["at"]
    assert result_context(result, report)["at"] == datetime(2026, 10, 20, 9, tzinfo=UTC)
    (check,) = report_view(SubjectReport(report, [result]))["checks"]
    assert "20 October 2026" in dict(check["facts"])["Found on"]


def test_document_has_words_for_each_note_of_the_timeline(api: Api):
    report = Report.objects.get(pk=create_report_with_status(api, "READY"))
    notes = [name for name in HAPPENED if name not in MOVES]
    for name in notes:
        record_note(report, name, "erasure", now())
    text = " ".join(
        " ".join(page.extract_text().split())
        for page in PdfReader(io.BytesIO(report_pdf(report, "sw"))).pages
    )
    assert [name for name in notes if humanise_name(name) in text] == []
    assert "erasure" not in text


def test_document_of_another_workspace_is_not_found(api: Api, another_api: Api):
    report = api.create(person())
    assert another_api.get(f"/reports/{report['id']}/pdf").status_code == 404


def test_document_wraps_long_names(api: Api):
    api.workspace.name = "Q" * 200
    api.workspace.save()
    report = api.create(person(fullName="W" * 200))
    api.work()

    first = page_texts(api, report["id"])[0]

    for letter in "QW":
        lines = re.findall(f"{letter}+", first)
        assert sum(map(len, lines)) >= 200
        assert max(map(len, lines)) < 60


@pytest.mark.parametrize(
    ("consent", "said"),
    [(None, "The draft names none yet."), (NOT_OBTAINED, "Not obtained yet.")],
)
def test_document_of_a_draft_says_that_its_consent_is_missing(api: Api, consent, said):
    draft = api.create({**person(), "consent": consent}, draft=True)

    text = " ".join(page_texts(api, draft["id"]))

    assert said in text
    assert "None of these checks needs" not in text
    assert "Attested by" not in text
