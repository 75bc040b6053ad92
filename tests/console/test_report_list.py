"""The list of reports: its order, and what members do with several at once."""

import re
from datetime import timedelta

from django.utils.timezone import now

from tests.world.clients import HOSTED, person
from tests.world.corrections import MISTYPED, dispute
from tests.world.decisions import Officer, create_case, create_ready_report
from tests.world.orders import create_report_with_status
from tests.world.staff import take_messages
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.decisions.case_list import Standing, standings_of
from verification.decisions.models import Case
from verification.payments.models import Payment
from verification.reports import queries
from verification.reports.models import Report
from verification.values.local_time import NAIROBI

ROW = re.compile(r'class="cover" href="[^"]*reports/([^"]+)"')


def listed(visitor, **query) -> list[str]:
    """Return the ids of the reports on the page, in its order."""
    return ROW.findall(visitor.page("reports", query=query))


def choose(visitor, verb: str, *reports: str, **fields):
    """Press a button below the list."""
    typed = {"verb": verb, "report": list(reports), **fields}
    return visitor.post("reports-chosen", typed)


def said(answer) -> str:
    return answer.content.decode()


def as_shown(asked) -> dict[str, str]:
    """Return what the page that asks sends on beside the reports."""
    hidden = re.findall(r'name="(shown-[^"]+)" value="([^"]+)"', said(asked))
    return {**dict(hidden), "confirmed": "on"}


def test_list_is_sorted_by_time_or_risk(owner, api):
    draft = create_report_with_status(api, "DRAFT")
    high = create_ready_report(api)
    low = create_ready_report(api)
    Report.objects.filter(pk=high).update(risk_score=90, risk_level="HIGH")
    Report.objects.filter(pk=low).update(risk_score=5, risk_level="LOW")

    assert listed(owner) == [low, high, draft]
    assert listed(owner, sort="oldest") == [draft, high, low]
    assert listed(owner, sort="risk") == [high, low, draft]
    assert listed(owner, sort="risk", status="READY") == [high, low]
    assert listed(owner, sort="name") == [low, high, draft]


def test_days_keep_the_order_by_risk(owner, api, monkeypatch):
    reports = [made["id"] for made in api.create(*[person() for _ in range(5)])]
    today = now().astimezone(NAIROBI).date()
    for report, score in zip(reports, (5, 90, None, 5, 0), strict=True):
        Report.objects.filter(pk=report).update(risk_score=score)

    order = [reports[n] for n in (1, 3, 0, 4, 2)]
    for most in (0, 50_000):
        monkeypatch.setattr("verification.reports.queries.MAX_SORTED", most)
        assert listed(owner, sort="risk", first=today, last=today) == order, most
        assert listed(owner, sort="risk", first=today + timedelta(days=1)) == [], most


def test_list_counts_only_so_many_reports(owner, api, monkeypatch):
    for _ in range(5):
        create_report_with_status(api, "DRAFT")

    def foot(page: int) -> str:
        query = {"page": page, "status": "DRAFT"}
        html = owner.page("reports", query=query)
        of = re.search(r'aria-label="Pages"><span>\S+ (.*?)</span>', html)
        return f"{of[1]}, Older" if 'rel="next"' in html else of[1]

    monkeypatch.setattr("verification.console.base.PAGE_SIZE", 2)
    assert [foot(page) for page in (0, 2)] == ["of 5, Older", "of 5"]

    monkeypatch.setattr(queries, "COUNTED_REPORTS", 3)
    assert foot(0) == "of more than 3, Older"
    assert foot(1) == "of more than 4, Older"
    html = owner.page("reports", query={"first": "2020-01-01"})
    assert "More than 3 match:" in html


def test_page_behind_the_last_leads_to_the_first(owner, api):
    create_report_with_status(api, "DRAFT")
    for name in ("reports", "money", "mailbox", "reports-batches"):
        query = {"page": 1, "status": "DRAFT"}
        answer = owner.get(name, query=query)
        assert answer.status_code == 302, name
        assert answer["Location"].endswith("/?status=DRAFT"), name


def test_row_names_subject_package_and_decision(owner, api):
    api.create({**person(), "reference": "LN-1027"})
    html = owner.page("reports")

    assert "Wanjiku Kamau" in html
    assert "LN-1027" in html
    assert "Single checks" in html
    assert "none</span>" in html


def test_rows_warn_of_objections_and_corrections(owner, api):
    restricted, wrong = create_case(api), create_case(api, MISTYPED)

    dispute(wrong)
    Report.objects.filter(pk=restricted).update(restricted_at=now())

    for name in ("reports", "dashboard", "find", "queue", "money"):
        query = {"search": "Wanjiku"} if name == "find" else {}
        html = owner.page(name, query=query)
        for report, text in ((restricted, "Do not use"), (wrong, "Under correction")):
            assert text in html.partition(f"reports/{report}")[2][:600], name
            assert html.count(text) == html.count(f"reports/{report}"), name


def test_decision_says_what_is_missing(api):
    undecided, approved, reviewed = (
        create_case(api, id_number) for id_number in ("11111111", "22222222", "3333333")
    )
    member = Officer(api)
    member.decide(approved, "APPROVED")
    member.decide(reviewed, "REVIEW")
    draft = create_report_with_status(api, "DRAFT")
    reports = Report.objects.values_list("pk", flat=True)

    found = {str(pk): standing for pk, standing in standings_of(reports).items()}

    assert found == {
        undecided: Standing.NEEDED,
        approved: Standing.APPROVED,
        reviewed: Standing.REVIEW,
    }
    assert draft not in found


def test_filter_keeps_tab_and_order(owner, api):
    create_report_with_status(api, "DRAFT")

    html = owner.page("reports", query={"status": "DRAFT", "sort": "risk"})

    form = html.partition('<form class="filters"')[2].partition("</form>")[0]
    assert '<input type="hidden" name="status" value="DRAFT"' in form
    assert '<input type="hidden" name="sort" value="risk"' in form
    assert (
        '?status=READY&amp;sort=risk"' in html or '?sort=risk&amp;status=READY"' in html
    )


def test_several_reports_are_cancelled_after_a_question(officer, api):
    draft = create_report_with_status(api, "DRAFT")
    waiting = create_report_with_status(api, "PENDING_CONSENT")
    ready = create_report_with_status(api, "READY")
    chosen = (draft, waiting, ready)

    asked = choose(officer, "cancel", *chosen)
    assert "Cancel 2 reports?" in said(asked)
    assert not Report.objects.filter(status="CANCELLED").exists()

    fields = {**as_shown(asked), "query": "status=DRAFT"}
    done = choose(officer, "cancel", *chosen, **fields)

    cancelled = Report.objects.filter(status="CANCELLED").values_list("pk", flat=True)
    assert {str(pk) for pk in cancelled} == {draft, waiting}
    assert "2 reports are cancelled." in said(done)
    assert "The report has ended and stays as it is." in said(done)
    assert f"{ready}" in said(done)
    assert "?status=DRAFT" in said(done)
    assert AuditEvent.objects.filter(action="report.cancelled").count() == 2


def test_report_that_has_moved_on_since_the_question_is_not_cancelled(owner, api):
    draft = create_report_with_status(api, "DRAFT")
    moved = create_report_with_status(api, "RUNNING")
    asked = choose(owner, "cancel", draft, moved)
    assert "You get back KES 100.00." in said(asked)
    CheckResult.objects.filter(report=moved, position=0).update(
        status="RUNNING", claims=1
    )

    done = choose(owner, "cancel", draft, moved, **as_shown(asked))

    assert "1 report is cancelled." in said(done)
    assert "It has changed since you looked. Look again." in said(done)
    assert Report.objects.get(pk=draft).status == "CANCELLED"
    assert Report.objects.get(pk=moved).status == "RUNNING"
    asked = choose(owner, "cancel", moved)
    assert "1 report is cancelled." in said(
        owner.http.get(choose(owner, "cancel", moved, **as_shown(asked))["Location"])
    )


def test_several_drafts_are_launched_for_the_price_that_was_shown(officer, api):
    drafts = [create_report_with_status(api, "DRAFT") for _ in range(2)]
    waiting = create_report_with_status(api, "PENDING_CONSENT")
    before = api.account.balance

    quote = said(choose(officer, "launch", *drafts, waiting))
    assert "Launch 2 reports?" in quote
    assert "It is not a draft." in quote
    digest = re.search(r'name="digest" value="([^"]+)"', quote)[1]
    assert "have changed" in said(choose(officer, "launch", *drafts, digest="x"))
    assert Report.objects.filter(status="DRAFT").count() == 2

    answer = choose(officer, "launch", *drafts, waiting, digest=digest)

    assert answer.status_code == 303
    assert not Report.objects.filter(status="DRAFT").exists()
    assert "1 report stays as it is" in said(choose(officer, "launch", waiting))
    assert f"Launch for KES {before - api.account.balance:,.2f}" in quote


def test_failed_checks_of_several_run_again_for_the_price_that_was_shown(officer, api):
    failed = [create_report_with_status(api, "FAILED") for _ in range(2)]
    ready = create_ready_report(api)
    before = api.account.balance

    asked = choose(officer, "retry", *failed, ready)
    assert "Run the failed checks of 2 reports again?" in said(asked)
    assert "No failed check can run again." in said(asked)
    assert "has changed" in said(choose(officer, "retry", *failed, confirmed="on"))
    assert Report.objects.filter(status="FAILED").count() == 2
    answer = choose(officer, "retry", *failed, **as_shown(asked))

    assert answer.status_code == 303
    assert Report.objects.filter(pk__in=failed, status="RUNNING").count() == 2
    charged = before - api.account.balance
    assert charged
    assert f"Run the checks again for KES {charged:,.2f}" in said(asked)


def test_links_are_sent_again_to_those_who_wait(officer, api):
    waiting = api.create({**person(email="w@people.test"), "consent": HOSTED})["id"]
    ready = create_ready_report(api)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))

    html = said(choose(officer, "resend", waiting, ready))

    assert "No link can be sent now." in html
    assert "1 new link is being sent." in html
    assert AuditEvent.objects.filter(action="report.consent-resent").exists()


def test_link_of_somebody_without_an_address_is_not_replaced_in_the_list(officer, api):
    subject = create_report_with_status(api, "PENDING_CONSENT")
    payer = create_report_with_status(api, "PENDING_PAYMENT")
    for model in (Consent, Payment):
        model.objects.update(link_made_at=now() - timedelta(minutes=2))
    before = [list(one.objects.values_list("generation")) for one in (Consent, Payment)]

    html = said(choose(officer, "resend", subject, payer))

    assert html.count("Nothing can be sent to this person") == 2
    assert "being sent" not in html
    assert before == [
        list(one.objects.values_list("generation")) for one in (Consent, Payment)
    ]


def test_several_cases_are_assigned_and_none_is_taken_away(owner, officer, api):
    free, taken = create_case(api, "11111111"), create_case(api, "22222222")
    Case.objects.filter(pk=taken).update(assignee=owner.member)

    html = said(choose(officer, "assign", free, taken, member=officer.member.pk))

    assert Case.objects.get(pk=free).assignee == officer.member
    assert Case.objects.get(pk=taken).assignee == owner.member
    assert "has it now" in html


def test_report_outside_of_the_queue_is_not_assigned_for_its_true_reason(officer, api):
    restricted, running = (
        create_ready_report(api),
        create_report_with_status(api, "PENDING_CONSENT"),
    )
    Report.objects.filter(pk=restricted).update(restricted_at=now())

    html = said(
        choose(officer, "assign", restricted, running, member=officer.member.pk)
    )

    assert "the subject objected to further use" in html
    assert "You can decide once the checks have finished." in html
    assert "needs no decision" not in html


def test_assignment_needs_a_member_who_may_decide(officer, viewer, api):
    case = create_case(api)

    for member in (viewer.member.pk, "nobody", ""):
        choose(officer, "assign", case, member=member)

    assert Case.objects.get(pk=case).assignee is None


def test_verbs_need_the_permission_of_the_single_ones(viewer, api):
    report = create_report_with_status(api, "DRAFT")
    for verb in ["launch", "cancel", "resend", "retry", "assign"]:
        assert choose(viewer, verb, report, confirmed="on").status_code == 403, verb
        assert Report.objects.get().status == "DRAFT", verb
    assert 'name="verb"' not in viewer.page("reports")


def test_without_a_report_the_list_asks_for_a_choice(officer):
    for reports in ([], ["x"], ["0198c0de-0000-7000-8000-000000000000"]):
        answer = choose(officer, "cancel", *reports, query="sort=risk")

        assert take_messages(answer) == ["Choose reports in the list first."]
        assert answer["Location"] == f"{officer.url('reports')}?sort=risk"


def test_query_of_the_list_cannot_break_the_header(officer):
    answer = officer.post("reports-chosen", {"query": "search=Wanjirũ\nSet-Cookie: a"})

    assert answer["Location"].endswith("?search=Wanjir%C5%A9%0ASet-Cookie:%20a")


def test_reports_of_others_are_not_changed(stranger, owner, api):
    draft = create_report_with_status(api, "DRAFT")

    choose(stranger, "cancel", draft, confirmed="on")
    owner.post(
        "reports-chosen",
        {"verb": "cancel", "report": draft, "confirmed": "on"},
        "production",
    )

    assert Report.objects.get().status == "DRAFT"
