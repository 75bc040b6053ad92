"""The page of a report: what was found against what was given, and what happened."""

import ast
import gzip
import re
from collections.abc import Iterator
from datetime import timedelta
from html import escape
from pathlib import Path

import pytest
from django.apps import apps
from django.utils.timezone import now

from tests.world import staff
from tests.world.clients import HOSTED, Api, create_lender, erase, person
from tests.world.corrections import create_wrong_report, dispute, reviewer
from tests.world.decisions import create_ready_report, set_service_level
from tests.world.orders import create_report_with_status, two_checks
from verification.checks.models import CheckDefinition, CheckResult
from verification.console import finding_cards
from verification.console.finding_cards import result_context
from verification.console.reports import HAPPENED, timeline_of
from verification.db.ids import uuid7
from verification.privacy import corrections
from verification.privacy.models import Disclosure
from verification.reports.models import Report
from verification.reports.status import record_note
from verification.sources.health import Health
from verification.values.local_time import format_nairobi
from workspaces.models import LedgerEntry, Workspace

# Reserved in the sandbox: the source refuses the request.
REFUSED = "90000008"
MAX_WEIGHT = 12 * 1024
NUMBER = "23456789"


@pytest.fixture(scope="module")
def ready(module_transaction: None) -> str:
    """A report that is ready, which the tests of this module share."""
    # Reports about other people reuse no result of it.
    return create_ready_report(Api(create_lender(), "sandbox"), NUMBER)


@pytest.fixture
def workspace(ready: str, db: None) -> Workspace:
    return Workspace.objects.get()


def compared(result: CheckResult) -> dict[str, tuple[str, str, str]]:
    """Return (given, found, verdict) of each compared detail."""
    return {
        row.label: (row.given, row.found, str(row.verdict[2]) if row.verdict else "")
        for row in result_context(result)["compared"]
    }


def result_with(report: str, **details) -> CheckResult:
    """Return the report's result of IDENTITY with these details in its finding."""
    result = CheckResult.objects.get(report=report, name="IDENTITY")
    result.finding = {**result.finding, "details": details}
    return result


def plain(html: str) -> str:
    """Return the words of a page's main part."""
    main = html.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())


def test_failed_check_is_refunded_and_not_in_the_total(owner, api):
    report = create_report_with_status(api, "PARTIAL ended")
    paid = CheckResult.objects.get(report=report, status="COMPLETED").price
    failed = CheckResult.objects.get(report=report, status="FAILED").price

    html = owner.page("reports-detail", report=report)

    entries = LedgerEntry.objects.filter(report_id=report)
    charged = -sum(entries.values_list("amount", flat=True))
    assert (charged, failed > 0) == (paid, True)
    assert f"Your workspace: KES {paid:.2f}" in plain(html).replace("&nbsp;", " ")
    assert plain(html).count(f"KES {failed:.2f} · refunded") == 1


def test_draft_costs_the_price_of_its_launch(owner, api):
    made = api.create(two_checks(), draft=True)
    CheckDefinition.objects.filter(name="IDENTITY").update(price=1234)

    page = plain(owner.page("reports-detail", report=made["id"]))

    assert "Your workspace: KES 1,284.00" in page.replace("&nbsp;", " ")
    assert "Launch for KES 1,284.00" in owner.page("reports-launch", report=made["id"])
    before = api.account.balance
    api.post(f"/reports/{made['id']}/launch")
    assert before - api.account.balance == 1284


@pytest.mark.parametrize(("is_draft", "refunds"), [(True, 0), (False, 3)])
def test_cancelled_check_is_refunded_unless_it_was_a_draft(
    owner, api, is_draft, refunds
):
    item = {**person(), "consent": HOSTED}
    report = api.create(item, draft=is_draft)["id"]
    api.post(f"/reports/{report}/cancel")

    html = plain(owner.page("reports-detail", report=report))

    assert "Your workspace: KES" not in html.replace("&nbsp;", " ")
    assert html.count("· refunded") == refunds
    assert LedgerEntry.objects.filter(kind="REVERSAL").count() == refunds


def test_details_are_compared_with_what_was_given(workspace, ready):
    result = result_with(
        ready,
        idNumber=NUMBER,
        fullName="Wanjiru Kamau",
        dateOfBirth="1990-12-31",
        nameMatch="PARTIAL_MATCH",
        dateOfBirthMatch="NO_MATCH",
    )

    assert compared(result) == {
        "ID number": (NUMBER, NUMBER, "Same"),
        "Name": ("Wanjiku Kamau", "Wanjiru Kamau", "Alike"),
        "Date of birth": ("", "31 Dec 1990", "Differs"),
    }


def test_number_that_the_source_does_not_know_is_not_the_same(workspace, ready):
    result = result_with(ready, idNumber=NUMBER, fullName=None, nameMatch=None)

    assert compared(result) == {
        "ID number": (NUMBER, "", ""),
        "Name": ("Wanjiku Kamau", "", ""),
    }


def test_details_that_nobody_compared_are_listed(workspace, ready):
    shown = result_context(
        result_with(
            ready,
            creditScore=402,
            totalOverdue=41750,
            currency="KES",
            accounts=[{"lender": "Mara"}, {"lender": "Tumaini"}],
        )
    )

    assert shown["compared"] == []
    assert shown["key_details"] == [
        ("Credit score", "402"),
        ("Total overdue", "KES 41,750.00"),
    ]
    assert ("Accounts", ["Lender: Mara", "Lender: Tumaini"]) in shown["details"]


def test_page_says_why_the_risk_is_high(owner, api):
    only = {"checksRequested": ["IDENTITY"]}
    made = api.create({**person(idNumber="90000003"), **only})["id"]
    api.work()

    words = plain(owner.page("reports-detail", report=made))

    assert "Highest in National identity" in words
    assert re.search(r"\d flags?: 1 high", words)
    assert "High · DECEASED" in words
    assert Report.objects.get(pk=made).number in words


def test_risk_of_some_checks_says_of_how_many(owner, api):
    made = create_report_with_status(api, "PARTIAL ended")

    assert "From 1 of 2 checks" in plain(owner.page("reports-detail", report=made))


def test_verdict_keeps_an_amount_together(owner, api):
    made = api.create(person())["id"]

    verdict = owner.page("reports-detail", report=made).partition('id="verdict"')[2]
    assert "KES&nbsp;250.00</dd>" in verdict.partition("</dl>")[0]


def test_timeline_of_a_draft_begins_with_the_draft(api):
    draft = api.create({**person(), "draft": True})["id"]
    api.post(f"/reports/{draft}/launch")

    entries = timeline_of(Report.objects.get(pk=draft))

    assert [str(one.text) for one in entries[-2:]] == [
        "Launched: the checks run",
        "Draft made",
    ]


def test_timeline_has_words_and_names_keys(workspace, ready):
    report = Report.objects.get(pk=ready)
    record_note(report, "check run again", "staff grace", now())
    record_note(report, "of a later version", "somebody", now())

    entries = timeline_of(report)

    assert entries[0][1] == "of a later version"
    assert entries[0].by == "somebody"
    # Clients do not learn who of the staff it was.
    assert entries[1].by == "staff"
    assert entries[1].text == HAPPENED["check run again"].words
    assert str(entries[-1].by) == "the key “tests”"


# Functions that write the timeline, and which of their arguments is the reason
WRITERS = {"Transition": 2, "end_early": 2, "record_note": 1, "record_change": 1}


def written_reasons() -> Iterator[str]:
    """Yield the reasons in calls of WRITERS, also by a name that the file assigns."""
    root = Path(apps.get_app_config("reports").path).parent
    for path in [*root.rglob("*.py"), *root.parent.glob("monitoring/*.py")]:
        text = path.read_text()
        if not any(f"{name}(" in text for name in WRITERS):
            continue
        nodes = [*ast.walk(ast.parse(text))]
        assigned = [
            pair
            for node in nodes
            if isinstance(node, ast.Assign)
            for pair in pairs_of(node.targets[0], node.value)
        ]
        for node in nodes:
            place = WRITERS.get(getattr(getattr(node, "func", None), "id", ""))
            if place is None:
                continue
            given = ast.unparse(node.args[place])
            values = [node.args[place], *(v for name, v in assigned if name == given)]
            yield from (one.value for one in values if isinstance(one, ast.Constant))


def pairs_of(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [
            (ast.unparse(name), one)
            for name, one in zip(target.elts, value.elts, strict=True)
        ]
    return [(ast.unparse(target), value)]


def test_timeline_has_words_for_each_reason_that_is_written():
    reasons = set(written_reasons())

    assert {"launched", "payment expired", "subject objected"} <= reasons
    assert reasons - HAPPENED.keys() == set()


def test_open_page_is_refreshed_only_once_the_report_moves_on(owner, api):
    made = api.create(person())["id"]
    html = owner.page("reports-detail", report=made)
    seen = re.search(r'hx-get="[^"]*\?seen=([^"]+)"', html)[1]

    same = owner.get("reports-progress", query={"seen": seen}, report=made)
    api.work()
    moved = owner.get("reports-progress", query={"seen": seen}, report=made)

    assert (same.status_code, same.content) == (204, b"")
    assert moved.status_code == 200
    assert 'id="refresh"></div>' in moved.content.decode()


def test_running_check_says_how_soon_its_source_answers(owner, api, monkeypatch):
    made = api.create(person())["id"]
    known = ("AVAILABLE", Health(answered=9, slow_ms=4000))
    monkeypatch.setattr(finding_cards, "availability", lambda *check: known)

    html = owner.page("reports-detail", report=made)
    assert "Most answers come within 4 s." in html

    seen = re.search(r'hx-get="[^"]*\?seen=([^"]+)"', html)[1]
    CheckResult.objects.update(tries=1)
    later = owner.get("reports-progress", query={"seen": seen}, report=made)
    assert "The source does not answer at present" in later.content.decode()

    api.work()
    ended = owner.page("reports-detail", report=made)
    assert "does not answer" not in ended
    assert "Most answers" not in ended


def test_open_page_logs_in_again_once_the_session_has_ended(owner, api):
    made = api.create(person())["id"]
    part = {"headers": {"HX-Request": "true"}}
    owner.http.logout()

    refresh = owner.http.get(owner.url("reports-progress", report=made), **part)
    typed = owner.http.post(owner.url("reports-new"), {"step": "update"}, **part)

    assert (refresh.status_code, refresh["HX-Refresh"]) == (200, "true")
    # The form stays as it is.
    assert (typed.status_code, typed.content) == (204, b"")


def test_checks_have_names_in_the_language_of_the_page(owner, api):
    made = api.create(person())["id"]

    page = owner.page("reports-detail", query={"lang": "sw"}, report=made)
    form = owner.page("reports-new", query={"lang": "sw"})
    chosen = {"step": "file", "checks": "IDENTITY", "consent": "HOSTED"}
    upload = owner.page("reports-batch-new", query={**chosen, "lang": "sw"})

    for html in (page, form, upload):
        assert "Kitambulisho cha taifa" in html
        assert "Mmiliki" in html
        assert "National identity" not in html


def test_failure_is_said_in_the_language_of_the_page(owner, api):
    made = api.create(person(idNumber=REFUSED))["id"]
    api.work()

    html = owner.page("reports-detail", query={"lang": "sw"}, report=made)

    assert "Chanzo kimekataa ombi." in html


def test_progress_of_others_is_not_found(stranger, api):
    made = api.create(person())["id"]

    assert stranger.get("reports-progress", report=made).status_code == 404


def test_other_reports_about_the_subject_are_named(owner, api):
    first, second = (create_ready_report(api, "34567890") for _ in range(2))
    another = create_ready_report(api, "34567891")

    html = owner.page("reports-detail", report=second)

    others = html.split('id="others"')[1].split("</section>")[0]
    assert owner.url("reports-detail", report=first) in others
    assert owner.url("reports-detail", report=second) not in others
    assert owner.url("reports-detail", report=another) not in others


def test_restricted_report_says_so(owner, ready):
    Report.objects.filter(pk=ready).update(restricted_at=now())
    Workspace.objects.update(decision_hours=24)

    words = plain(owner.page("reports-detail", report=ready))

    assert "do not use this report for anything else" in words
    assert "cannot be decided: the subject objected" in words
    assert "needs no decision" not in words


def test_erased_report_shows_its_certificate_and_no_details(owner, api, ready):
    erasure = erase(api, ready)

    words = plain(owner.page("reports-detail", report=ready))

    assert "Details erased" in words
    assert f"Certificate {erasure.number} (PDF)" in words
    assert words.count("The details of the subject were erased") == 2
    assert "Wanjiku" not in words
    # Its checks had scores, which were erased.
    assert "Not scored" not in words + plain(owner.page("reports"))
    assert "None Nothing can be decided any more." in words
    assert "None yet" not in words


def test_document_of_an_erased_report_is_not_rendered(owner, api, ready):
    erase(api, ready)

    answer = owner.get("reports-pdf", report=ready)

    assert answer["Location"] == owner.url("reports-detail", report=ready)
    said = ["The details of the subject were erased."]
    assert staff.take_messages(answer) == said
    assert not Disclosure.objects.filter(channel="PDF").exists()


def test_pages_show_unusual_names_and_no_markup(owner, api):
    names = ["و" * 200, "张伟", "A" * 200, "<b>O'Brien</b>"]
    items = [{**person(fullName=name), "purpose": "<b>Loan"} for name in names]
    made = api.create(*items)
    api.work()

    listed = owner.page("reports")
    for name in names:
        assert f"<bdi>{escape(name[:3])}" in listed, name
    html = owner.page("reports-detail", report=made[-1]["id"])
    assert f"<bdi>{escape(names[-1])}" in html
    assert "<b>O'Brien" not in html + listed
    # Escaped twice
    assert "&amp;lt;" not in html + listed
    assert "<b>Loan" not in html


def test_pages_with_much_to_show_are_light(owner, api, ready):
    report = Report.objects.get(pk=ready)
    result = report.results.first()
    flags = [
        {"code": f"FLAG_{n}", "severity": "HIGH", "message": f"It differs, {n}."}
        for n in range(10)
    ]
    result.finding = {**result.finding, "flags": flags}
    result.save()
    taken = report.results.values_list("name", flat=True)
    others = CheckDefinition.objects.exclude(name__in=list(taken))
    for number, definition in enumerate(others[:7], 3):
        result.id, result.definition, result.name = uuid7(), definition, definition.name
        result.position = number
        result.save(force_insert=True)
    assert report.results.count() == 10
    api.create(*(person(idNumber=f"900000{n:02}") for n in range(30)))

    for page, more in (("reports", {}), ("reports-detail", {"report": report.pk})):
        html = owner.page(page, **more)
        assert len(gzip.compress(html.encode())) < MAX_WEIGHT, page


def test_ended_report_says_until_when_it_is_kept(owner, ready):
    ended = now() - timedelta(days=1)
    Report.objects.filter(pk=ready).update(completed_at=ended)

    kept = Report.objects.get(pk=ready)
    until = kept.completed_at + kept.workspace.retention_of("sandbox", kept.created_at)
    words = plain(owner.page("reports-detail", report=ready))

    assert f"Kept until {format_nairobi(until, 'j M Y')}" in words
    assert "or later" not in words

    dispute(ready)
    words = plain(owner.page("reports-detail", report=ready))
    assert f"{format_nairobi(until, 'j M Y')}, or later: an open question" in words


def test_copy_of_a_finding_says_that_another_report_disputes_or_corrected_it(
    owner, api
):
    origin, copy = create_wrong_report(api), create_wrong_report(api, reuse=True)
    wrong = "The person says that this finding is wrong."
    corrected = "Another report has corrected this finding."

    correction = corrections.take(dispute(origin).pk, reviewer())
    words = plain(owner.page("reports-detail", report=copy))
    assert wrong in words
    assert corrected not in words

    corrections.rerun(correction.pk, reviewer())
    api.work()
    corrections.correct(correction.pk, reviewer(), "The source was wrong.")
    words = plain(owner.page("reports-detail", report=copy))
    assert wrong not in words
    assert corrected in words
    assert corrected not in plain(owner.page("reports-detail", report=origin))


def test_waiting_report_shows_its_link_first_and_until_when_it_works(owner, api):
    set_service_level(api)
    made = api.create({**person(), "consent": HOSTED})["id"]
    until = Report.objects.get(pk=made).consent.expires_at

    page = owner.page("reports-detail", report=made)

    assert f"works until {format_nairobi(until, 'j M, H:i T')}" in page
    places = [page.index(f'id="{name}"') for name in ("consent", "case", "time")]
    assert places == sorted(places)
    # It is not in the queue.
    assert "Take the next one" not in page
