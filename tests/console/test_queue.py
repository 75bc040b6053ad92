"""Members see in the console what waits for a decision, take it, and note why."""

import re
from datetime import timedelta
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from tests.world import staff
from tests.world.clients import Api
from tests.world.console import ConsoleVisitor
from tests.world.corrections import dispute
from tests.world.decisions import (
    ADVERSE,
    Officer,
    create_case,
    create_ready_report,
    demand_second,
    open_new_cases,
    set_service_level,
)
from tests.world.packages import by_package, create_package
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.console.base import member_name
from verification.console.case_pages import QueueForm
from verification.decisions.case_list import QueueFilters, list_case_ids
from verification.decisions.models import Case, CaseNote, Decision
from verification.privacy.models import Disclosure
from verification.reports.models import Report
from verification.values.clock import now
from workspaces.models import Workspace


def shown(visitor: ConsoleVisitor, **query) -> list[str]:
    """Return the ids of the reports on the page, in its order."""
    return reports_on(visitor.page("queue", query=query))


def reports_on(html: str) -> list[str]:
    table = html.partition("<tbody")[2].partition("</tbody>")[0]
    return re.findall(r'<a class="cover" href="[^"]*reports/([^"]+)"', table)


def make_overdue(report: str) -> None:
    Case.objects.filter(pk=report).update(due_at=now() - timedelta(hours=1))


def test_queue_lists_what_is_due_first(owner, api: Api):
    first, second = create_case(api, "11111111"), create_case(api, "22222222")
    assert shown(owner) == [first, second]

    make_overdue(second)

    html = owner.page("queue")
    assert reports_on(html) == [second, first]
    assert "Wanjiku Kamau" in html
    assert re.findall(r">([^<]+ late)</time>", html) == ["1 h late"]


def test_row_without_a_checkbox_says_why(owner, api: Api):
    create_case(api)
    taken, risky, proposed = (create_case(api, f"1111111{n}") for n in (1, 4, 6))
    officer = Officer(api)
    officer.take(taken)
    Report.objects.filter(pk=risky).update(risk_level="HIGH")
    Case.objects.filter(pk=proposed).update(cause="PROPOSED")

    html = owner.page("queue")

    assert html.count('type="checkbox" name="report"') == 1
    assert re.findall(r'class="pick"><span[^>]* title="([^"]+)"', html) == [
        f"Assigned to: {member_name(officer.member)}",
        "Only complete reports with low risk are approved together.",
        "A decision was proposed.",
    ]


def test_queue_marks_what_is_due_within_hours(owner, api: Api):
    report = create_case(api)
    assert "badge is-wait" not in owner.page("queue")

    Case.objects.filter(pk=report).update(due_at=now() + timedelta(hours=2))

    assert re.search(r"badge is-wait.*in 2 h</time>", owner.page("queue"))


def test_queue_shows_which_tab_is_open(owner):
    html = owner.page("queue", query={"holder": "nobody"})
    tabs = html.partition('class="tabs"')[2].partition("</nav>")[0]
    *links, _of_notices = re.findall(r'<a href="([^"]*)"', tabs)

    opened = [QueueForm(QueryDict(urlsplit(link).query), choices={}) for link in links]

    assert [form.tab for form in opened if form.is_valid()] == [
        *["all", "overdue", "mine", "nobody", "second"],
    ]
    assert re.findall(r'aria-current="page">([^<]+?) *<', tabs) == ["Not taken"]
    narrower = QueueForm({"holder": "mine", "level": "HIGH"}, choices={})
    assert (narrower.is_valid(), narrower.tab) == (True, "")


def test_queue_without_a_service_level_says_how_to_begin(owner, viewer, api: Api):
    for visitor in (owner, viewer):
        html = visitor.page("queue")

        assert "come here once you set the hours for a decision" in html
        assert ("Set the hours" in html) == (visitor is owner)
        assert ("take or give back" in html) == (visitor is owner)
        assert "No report needs a decision" in html
        assert "Take the next one" not in html


def test_second_member_finds_a_proposal_without_a_service_level(owner, api: Api):
    demand_second(api)
    report = create_ready_report(api)
    Officer(api).decide(report)

    assert "1 report needs a decision" in owner.page("dashboard")
    html = owner.page("queue")
    assert reports_on(html) == [report]
    assert "No time set" in html
    page = owner.page("reports-detail", report=report)
    assert "No time set" in page
    assert "Take the next one" in page


def test_filters_find_cases(owner, admin, api: Api):
    create_package(name="tenancy", checks=["IDENTITY"])
    low = create_case(api, "11111111", reference="LN-7")
    high = create_case(api, ADVERSE)
    packaged = api.create(by_package("tenancy", idNumber="33333333"))["id"]
    api.work()
    open_new_cases()
    make_overdue(low)
    make_overdue(packaged)
    officer = Officer(api)
    officer.take(low)
    Officer(api, "OWNER", "wambui").assign(high, admin.member)
    demand_second(api)
    officer.decide(packaged)

    assert shown(admin, holder="mine", level="HIGH") == [high]
    late = {"overdue": "on", "wait": "second", "package": "tenancy"}
    assert shown(owner, **late) == [packaged]
    assert shown(owner, search="LN-7") == [low]

    def found(**filters: Any) -> set[str]:
        ids = list_case_ids(owner.member, "sandbox", QueueFilters(**filters), 9)
        return {str(pk) for pk in ids}

    assert found(holder="mine") == set()
    assert found(holder="nobody") == {packaged}
    assert found(overdue=True) == {low, packaged}
    assert found(level="HIGH") == {high}
    assert found(package="tenancy") == found(wait="second") == {packaged}
    assert found(wait="decision") == {low, high}
    assert found(search="11111111") == {low}
    assert found(search="wanjiku") == {low, high, packaged}
    assert found(search="wanjiku", holder="nobody") == {packaged}
    assert found(search="nobody at all") == set()


def test_short_search_needs_a_short_queue(owner, api: Api, monkeypatch):
    reports = [create_case(api, number) for number in ("11111111", "22222222")]
    error = "Type three letters or more"
    assert shown(owner, search="ku") == reports

    monkeypatch.setattr("verification.decisions.case_list.MAX_READ", 1)

    assert error in owner.page("queue", query={"search": "ku"})
    html = owner.page("queue", query={"search": "wan"})
    assert error not in html
    assert reports_on(html) == reports


def test_long_queue_turns_pages_by_key(owner, api: Api, monkeypatch):
    monkeypatch.setattr("verification.console.case_pages.PAGE_SIZE", 2)
    numbers = [f"1111111{n}" for n in range(3)]
    reports = [create_case(api, number) for number in numbers]
    # Equal times keep an order, too.
    Case.objects.update(due_at=now())

    pages, after = [], ""
    while True:
        query = {"after": after, "level": "", "search": "wanjiku"}
        html = owner.page("queue", query=query)
        pages.append(reports_on(html))
        found = re.search(r'after=([0-9a-f-]+)" rel="next"', html)
        if not found:
            break
        after = found[1]

    assert [len(page) for page in pages] == [2, 1]
    assert list(chain.from_iterable(pages)) == sorted(reports)
    assert 'rel="first"' in html
    assert shown(owner, after="nonsense") == sorted(reports)[:2]


def test_queue_of_another_workspace_and_environment_is_not_shown(
    owner, stranger, api: Api
):
    report = create_case(api)

    assert shown(stranger) == []
    assert shown(stranger, after=report) == []
    assert "No report needs a decision" in owner.page("queue", "production")


def test_long_queue_costs_no_more_statements_than_a_short_one(owner, api: Api):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            owner.page("queue")
        return len(captured)

    officer = Officer(api)
    officer.take(create_case(api))
    # The first look at a case is a disclosure, which is written.
    before = [statements(), statements()][1]
    for number in range(2):
        officer.take(create_case(api, f"2222222{number}"))

    assert [statements(), statements()][1] == before


def test_opening_the_queue_is_a_disclosure(owner, api: Api):
    report = create_case(api)
    owner.page("queue")

    assert Disclosure.objects.filter(report=report).exists()


def test_member_takes_the_next_case_and_decides(owner, api: Api):
    report = create_case(api)

    answer = owner.post("queue-next")

    assert answer["Location"] == owner.url("reports-detail", report=report)
    html = owner.page("reports-detail", report=report)
    assert "The report is assigned to you." in html
    assert "Give back" in html
    owner.post("reports-decide", {"status": "APPROVED"}, report=report)
    said = owner.messages_after("queue-next")
    assert said[-1] == "Nothing waits for you to take it."


def test_double_click_takes_one_case(owner, api: Api):
    for number in ("11111111", "22222222"):
        create_case(api, number)
    held = re.findall(r'name="held" value="(\d+)"', owner.page("queue"))
    assert held == ["0"]

    owner.post("queue-next", {"held": 0})
    said = owner.messages_after("queue-next", {"held": 0})

    assert said[-1] == "You have taken a report since this page was shown."
    assert Case.objects.filter(assignee=owner.member).count() == 1
    mine = Case.objects.get(assignee=owner.member).pk
    assert 'name="held" value="1"' in owner.page("reports-detail", report=mine)
    owner.post("queue-next", {"held": 1})
    assert Case.objects.filter(assignee=owner.member).count() == 2


def test_next_case_is_taken_with_a_wrong_number_of_held_ones(owner, api: Api):
    create_case(api)
    for held in ("", "many", "-1", "9" * 5000):
        Case.objects.update(assignee=None)

        owner.post("queue-next", {"held": held})

        assert Case.objects.get().assignee == owner.member, held


def test_member_who_comes_second_is_told_who_has_it(owner, admin, api: Api):
    owner.member.user.first_name = "Wambui"
    owner.member.user.save()
    report = create_case(api)
    page = admin.page("reports-detail", report=report)
    assert '<input type="hidden" name="seen" value="">' in page
    mine = {"member": owner.member.pk, "seen": ""}
    assert owner.messages_after("queue-assign", mine, report=report) == [
        "Wambui has it now."
    ]

    theirs = {"member": admin.member.pk, "seen": ""}
    assert admin.messages_after("queue-assign", theirs, report=report) == [
        "Nothing was done: Wambui has it now."
    ]

    assert Case.objects.get().assignee == owner.member
    back = {"member": "", "seen": owner.member.pk}
    assert owner.messages_after("queue-assign", back, report=report) == [
        "Nobody has it now."
    ]
    assert admin.messages_after(
        "queue-assign", {**theirs, "seen": owner.member.pk}, report=report
    ) == ["Nothing was done: somebody gave it back meanwhile."]


def test_case_goes_only_to_members_who_may_decide(owner, viewer, api: Api):
    report = create_case(api)
    html = owner.page("reports-detail", report=report)
    assert f'<option value="{owner.member.pk}">' in html
    assert str(viewer.member.pk) not in html

    fields = {"member": viewer.member.pk, "seen": ""}
    assert owner.messages_after("queue-assign", fields, report=report) == [
        "Nothing was done: this member may not decide."
    ]
    assert Case.objects.get().assignee is None


def test_case_that_was_decided_meanwhile_is_not_taken(owner, admin, api: Api):
    report = create_case(api)
    owner.post("reports-decide", {"status": "APPROVED"}, report=report)

    fields = {"member": admin.member.pk, "seen": ""}
    assert admin.messages_after("queue-assign", fields, report=report) == [
        "Nothing was done: the report does not wait for a decision any more."
    ]


def test_members_read_notes_with_author_and_time(owner, viewer, api: Api):
    owner.member.user.first_name = "Wambui"
    owner.member.user.save()
    report = create_case(api)

    done = owner.messages_after("queue-note", {"text": "Rang <them>"}, report=report)

    assert done == ["The note is added."]
    html = viewer.page("reports-detail", report=report)
    assert "Rang &lt;them&gt;" in html
    assert "Wambui" in html
    assert "Add the note" not in html


def test_end_of_a_line_in_a_note_counts_once(owner, api: Api):
    report = create_case(api)
    text = "x\r\n" * 499 + "x"

    done = owner.messages_after("queue-note", {"text": text}, report=report)

    assert done == ["The note is added."]


def test_note_that_is_empty_or_too_long_is_refused(owner, api: Api):
    report = create_case(api)
    for text in ("", "x" * 1001):
        assert owner.messages_after("queue-note", {"text": text}, report=report) == [
            "Nothing was done: write a note of at most 1,000 characters."
        ]
    assert not CaseNote.objects.exists()


def test_owner_sets_the_service_level(owner, viewer, api: Api):
    assert owner.messages_after("settings-queue", {"decision_hours": "48"}) == [
        "Saved."
    ]
    assert Workspace.objects.get(pk=api.workspace.pk).decision_hours == 48
    assert "<dd>48</dd>" in viewer.page("settings-queue")

    assert owner.messages_after("settings-queue", {"decision_hours": ""}) == ["Saved."]
    assert Workspace.objects.get(pk=api.workspace.pk).decision_hours is None


def test_service_level_out_of_range_is_refused(owner, api: Api):
    set_service_level(api, 24)
    for hours in ("0", "1345", "soon", "1.5"):
        html = owner.post("settings-queue", {"decision_hours": hours}).content.decode()

        assert "Enter 1 to 1344 hours, or nothing" in html, hours
    assert Workspace.objects.get(pk=api.workspace.pk).decision_hours == 24


def test_keys_are_on_the_page_and_each_has_one_meaning(owner, api: Api):
    report = create_case(api)
    queue = owner.page("queue")
    for html in (queue, owner.page("reports-detail", report=report)):
        keys = re.findall(r'accesskey="(.)"', html)
        assert len(keys) == len(set(keys))
        assert len(keys) >= 4
    documented = re.findall(r"<kbd>(.)</kbd>", queue.lower())
    assert set(documented) >= set(keys)


def decide_on_page(visitor: ConsoleVisitor, report: str, **fields) -> list[str]:
    fields = {"status": "APPROVED", **fields}
    return visitor.messages_after("reports-decide", fields, report=report)


def test_decision_leads_to_the_next_case(owner, api: Api):
    first, second, third = (create_case(api, f"{n}" * 8) for n in (1, 2, 4))
    officer = Officer(api)
    officer.take(second)

    answer = owner.post("reports-decide", {"status": "APPROVED"}, report=first)

    assert answer["Location"] == owner.url("reports-detail", report=third)
    assert Case.objects.get(pk=third).assignee is None
    assert staff.take_messages(answer) == [
        "The decision counts now. This is the next case. Left: 2."
    ]
    assert decide_on_page(owner, third) == [
        "The decision counts now. No other case is left for you."
    ]


def test_decision_about_a_taken_case_takes_the_next_one(owner, api: Api):
    first, second = (create_case(api, f"{n}" * 8) for n in (1, 2))
    Case.objects.filter(pk=first).update(assignee=owner.member)

    said = decide_on_page(owner, first)

    assert said == ["The decision counts now. The next case is yours. Left: 1."]
    assert Case.objects.get(pk=second).assignee == owner.member


def test_own_case_that_is_due_later_comes_before_the_others(owner, api: Api):
    reports = [create_case(api, f"{n}" * 8) for n in (1, 2, 4)]
    Officer(api, "OWNER", "wambui").assign(reports[2], owner.member)

    answer = owner.post("reports-decide", {"status": "REVIEW"}, report=reports[0])

    assert answer["Location"] == owner.url("reports-detail", report=reports[2])


def test_report_that_is_left_to_a_person_is_not_the_next_case(owner, api: Api):
    report = create_case(api)

    assert decide_on_page(owner, report, status="REVIEW") == [
        "The decision counts now. No other case is left for you."
    ]
    assert Case.objects.get(pk=report).assignee is None


def test_second_member_goes_on_to_the_next_case(owner, admin, api: Api):
    demand_second(api, score_to=100)
    first, second = create_case(api, "11111111"), create_case(api, "22222222")
    decide_on_page(admin, first)
    proposal = Decision.objects.get(report=first).pk

    answer = owner.post("reports-confirm", decision=proposal)

    assert Case.objects.get(pk=first).closed_at
    assert answer["Location"] == owner.url("reports-detail", report=second)


def approve_page(visitor: ConsoleVisitor, **fields) -> str:
    """Return the page that asks, as the buttons below the list open it."""
    return visitor.http.get(visitor.url("queue-approve"), fields).content.decode()


def confirmed(html: str) -> dict:
    """Return what the page that asks sends on."""
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html)
    fields: dict = {name: value for name, value in hidden if name != "report"}
    return fields | {"report": [value for name, value in hidden if name == "report"]}


def test_proposal_is_no_decision_for_the_button_that_approves_clear_cases(
    owner, api: Api
):
    case = create_case(api, "11111111")
    html = approve_page(owner, all="on")
    demand_second(api, score_to=100)
    Officer(api).decide(case, "APPROVED")

    said = owner.messages_after("queue-approve", confirmed(html))

    assert said == [
        "Approved: 0. Left out, as they changed since the page was shown: 1."
    ]


def test_clear_cases_that_the_filter_shows_are_approved_together(
    owner, admin, api: Api
):
    clear = [create_case(api, f"1111111{n}") for n in (1, 4)]
    flagged = create_case(api, ADVERSE)
    unscored = create_case(api, "33333333")
    CheckResult.objects.filter(report=unscored).update(score=None)
    taken = create_case(api, "22222222")
    Officer(api).take(taken)
    disputed, copy = [create_case(api, "11111118", reuse=True) for _ in range(2)]
    dispute(disputed)

    html = approve_page(owner, all="on")

    assert "Approve 2 reports?" in html
    assert "5 are left out" in html
    assert "<b>1</b> A colleague has taken them." in html
    assert "<b>4</b> They have findings to look at, or their risk is not low." in html
    assert not Decision.objects.exists()
    said = owner.messages_after("queue-approve", confirmed(html))
    assert said == ["Approved: 2."]
    made = Decision.objects.all()
    assert {str(one.report_id) for one in made} == set(clear)
    assert {one.made_by_user for one in made} == {owner.member.user_id}
    left = Case.objects.filter(closed_at=None).values_list("pk", flat=True)
    assert {str(pk) for pk in left} == {flagged, unscored, taken, disputed, copy}
    assert AuditEvent.objects.filter(action="decision.made").count() == 2
    again = owner.messages_after("queue-approve", confirmed(html))
    assert again == ["Approved: 0. Decided already: 2."]
    # Such as after going back
    assert "None of these reports is clear" in approve_page(owner, all="on")


def test_page_asks_about_the_next_clear_cases_until_none_is_left(
    owner, api: Api, monkeypatch
):
    monkeypatch.setattr("verification.decisions.clear_cases.MAX_APPROVED", 1)
    monkeypatch.setattr("verification.console.case_pages.MAX_APPROVED", 1)
    for number in (1, 4):
        create_case(api, f"1111111{number}")

    html = approve_page(owner, all="on")
    assert "1 more is clear" in html
    answer = owner.post("queue-approve", confirmed(html))

    # The browser goes back to a page that it asked for by GET, and reloads one.
    assert answer["Location"] == f"{owner.url('queue-approve')}?all=on"
    html = owner.http.get(answer["Location"]).content.decode()
    assert "Approved: 1." in html
    assert "Approve 1 report?" in html
    assert owner.messages_after("queue-approve", confirmed(html)) == ["Approved: 1."]
    assert Decision.objects.count() == 2


def test_approvals_beyond_the_time_of_a_request_are_left(owner, api: Api, monkeypatch):
    report = create_case(api)
    monkeypatch.setattr("verification.decisions.clear_cases.MAX_SECONDS", 0)

    for html in (approve_page(owner, report=report), approve_page(owner, all="on")):
        assert "Approved: 0. Not approved yet: 1." in " ".join(
            owner.messages_after("queue-approve", confirmed(html))
        )
    assert not Decision.objects.exists()


def test_filter_narrows_what_is_approved(owner, api: Api):
    chosen = create_case(api, "11111111", reference="LN-7")
    create_case(api, "22222222")

    html = approve_page(owner, all="on", search="LN-7")

    assert confirmed(html)["report"] == [chosen]
    answer = owner.post("queue-approve", confirmed(html))
    assert answer["Location"] == f"{owner.url('queue')}?search=LN-7"


def test_case_that_changed_since_the_page_was_shown_is_left_out(owner, api: Api):
    reports = [create_case(api, f"1111111{n}") for n in (1, 4)]
    fields = confirmed(approve_page(owner, report=reports))
    Officer(api).take(reports[0])

    assert owner.messages_after("queue-approve", fields) == [
        "Approved: 1. Left out, as they changed since the page was shown: 1."
    ]
    assert Decision.objects.get().report_id == Case.objects.get(pk=reports[1]).pk


def test_approval_that_needs_a_second_member_is_left_out(owner, api: Api):
    demand_second(api, score_to=100)
    report = create_case(api)

    html = approve_page(owner, report=report)

    assert "None of these reports is clear" in html
    assert "They need a second member." in html
    owner.post("queue-approve", {"confirmed": "on", "report": report})
    assert not Decision.objects.exists()


def test_case_that_somebody_decided_about_before_is_left_out(owner, api: Api):
    report = create_case(api)
    Officer(api).decide(report, "REVIEW")
    Case.objects.update(assignee=None)

    assert "They have a decision or proposal" in approve_page(owner, report=report)


def test_approval_of_nothing_says_so(owner, stranger, api: Api):
    for query in ("", "?report=nonsense", "?all=on&package=GONE"):
        answer = owner.http.get(owner.url("queue-approve") + query)
        assert staff.take_messages(answer) == ["Choose at least one report first."]
    report = create_case(api)
    assert "None of these" in approve_page(stranger, report=report)


def test_nothing_is_approved_without_the_question(owner, api: Api):
    report = create_case(api)

    asked = owner.post("queue-approve", {"report": report}).content.decode()
    assert "Approve 1 report?" in asked
    url = owner.url("queue-approve")
    owner.http.get(url, {"report": report, "confirmed": "on"})

    assert not Decision.objects.exists()


def test_viewer_approves_nothing(viewer, api: Api):
    report = create_case(api)
    assert "queue/approve" not in viewer.page("queue")

    answer = viewer.post("queue-approve", {"confirmed": "on", "report": report})

    assert answer.status_code == 403
    assert not Decision.objects.exists()
