"""Home says what needs this member now, the last 30 days, and the newest reports."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.console.test_figures import store_day, today
from tests.console.test_queue import make_overdue
from tests.world.clients import HOSTED, Api, approve_workspace, person
from tests.world.corrections import (
    ask_for_further_reports,
    create_wrong_report,
    dispute,
)
from tests.world.decisions import create_case
from tests.world.deliveries import configure_receiver, record_delivery
from tests.world.rules import raise_alert
from verification.consents.models import Consent
from verification.console.base import Place
from verification.console.needs import needs_of
from verification.decisions.models import Case
from verification.figures.summary import Days, read_steps
from verification.privacy.models import Disclosure, Outcome, SubjectRequest
from verification.privacy.requests import answer_request
from verification.reports.models import Report
from webhooks.models import Configuration, Event
from workspaces import ledger
from workspaces.models import Account, Member, Workspace


def needs(visitor, environment: str = "sandbox") -> list[str]:
    """Return what needs the member, with what home says of it."""
    members = Member.objects.select_related("workspace", "user")
    member = members.get(pk=visitor.member.pk)
    account = member.workspace.accounts.get(environment=environment)
    account.workspace = member.workspace
    place = Place(RequestFactory().get("/"), member, account)
    month = Days(today() - timedelta(days=29), today())
    found = needs_of(place, read_steps(account, month))
    return [f"{need.title} {need.words}".strip() for need in found]


def test_nothing_needs_a_member_whose_reports_are_ready(owner, officer, viewer, api):
    api.create(person())
    api.work()

    assert "Nothing needs you." in viewer.page("dashboard")
    assert needs(owner) == needs(officer) == []


def test_overdue_decision_comes_first_with_its_subject(owner, officer, viewer, api):
    first = create_case(api, "11111111", reference="LN-1")
    create_case(api, "22222222")
    make_overdue(first)

    page = owner.page("dashboard")
    rows = re.findall(r'<div class="grow">(.*?)</div>', page, re.DOTALL)
    overdue, rest = (" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows)
    assert overdue == "1 decision is overdue Wanjiku Kamau · 1 h late"
    assert rest == "1 report needs a decision"
    assert f'href="{owner.url("queue")}?overdue=on"' in page
    assert f'href="{owner.url("reports-detail", report=first)}"' in page
    assert len(needs(officer)) == 2
    assert needs(viewer) == []


def test_own_cases_are_told_apart(officer, api):
    report = create_case(api)
    Case.objects.filter(pk=report).update(assignee=officer.member)

    assert needs(officer) == ["1 report needs a decision 1 is assigned to you"]

    other = create_case(api, "22222222")
    make_overdue(report)
    assert needs(officer) == [
        "1 decision is overdue",
        "1 report needs a decision",
    ]
    Case.objects.filter(pk=other).update(assignee=officer.member)
    assert "1 is assigned to you" in needs(officer)[1]


def test_failed_deliveries_name_the_receiver_and_since_when(
    owner, viewer, officer, api
):
    configure_receiver(api.workspace)
    record_delivery(api, status="FAILED", next_attempt_at=None)
    Configuration.objects.update(failures_in_row=5, failing_since=now())

    (need,) = needs(owner)
    assert re.fullmatch(
        r"1 webhook delivery failed hooks\.acacia\.test has not accepted an event"
        r" since \d+ \w+, \d\d:\d\d",
        need,
    )
    # Only members who manage webhooks can mend it.
    assert needs(viewer) == needs(officer) == []

    Configuration.objects.update(failures_in_row=0, failing_since=None)
    assert needs(owner) == ["1 webhook delivery failed hooks.acacia.test answers again"]
    Configuration.objects.update(enabled=False)
    assert "hooks.acacia.test is off" in needs(owner)[0]
    Configuration.objects.all().delete()
    assert "Their receiver was removed" in needs(owner)[0]


@pytest.mark.parametrize("fields", [{"payload": None}, {"restricted_at": now()}])
def test_failed_delivery_that_cannot_be_sent_again_needs_nobody(owner, api, fields):
    configure_receiver(api.workspace)
    record_delivery(api, status="FAILED", next_attempt_at=None)

    Event.objects.update(**fields)

    assert needs(owner) == []


@pytest.mark.parametrize(
    ("amount", "charged", "words"),
    [
        (700, 70_000, "KES 700.00 left: about 7 days at KES 100 a day"),
        (10, 700_000_000, "KES 10.00 left: about 1 day at KES 1,000,000 a day"),
        (5, 0, "KES 5.00 left"),
    ],
)
def test_low_balance_says_how_long_it_lasts(owner, live_api, amount, charged, words):
    approve_workspace(live_api.workspace)
    ledger.top_up(
        live_api.workspace, "production", Decimal(amount), actor="tests", note=""
    )
    store_day(live_api.workspace, today(), charged=charged, environment="production")

    (need,) = needs(owner, "production")
    assert need == f"The balance is below your limit of KES 1,000.00 {words}"

    Account.objects.update(low_balance_at=None)
    assert needs(owner, "production") == []


def test_waiting_consents_say_how_many_links_end_soon(owner, viewer, api):
    api.create(
        *[{**person(idNumber=f"2234567{n}"), "consent": HOSTED} for n in range(3)]
    )

    assert needs(owner) == ["3 reports wait for consent"]
    first = Consent.objects.order_by("id")[:2]
    Consent.objects.filter(pk__in=first.values("pk")).update(
        expires_at=now() + timedelta(days=2)
    )
    assert needs(owner) == [
        "3 reports wait for consent 2 of the links end within 3 days"
    ]
    assert needs(viewer) == []


def test_most_serious_alert_is_named(owner, officer, viewer, api):
    change = {
        "checkName": "IDENTITY",
        "field": "riskLevel",
        "old": "LOW",
        "new": "HIGH",
    }
    critical = raise_alert(api, severity="CRITICAL", changes=[change])
    raise_alert(api, severity="INFO", title="Identity: details changed")

    (need,) = needs(owner)
    assert need.startswith("2 new monitoring alerts")
    assert need.endswith("National identity went from low to high risk (critical)")
    assert needs(officer) == [need]
    # A viewer may not mark it as read.
    assert needs(viewer) == []
    assert Disclosure.objects.filter(report_id=critical.report_id).exists()
    critical.read = True
    critical.save()
    assert "Identity: details changed" in needs(owner)[0]
    assert "critical" not in needs(owner)[0]


def test_open_corrections_need_only_who_decides_them(owner, officer, api):
    correction = dispute(create_wrong_report(api))

    assert needs(owner) == ["1 correction or request is open"]
    assert needs(officer) == []
    request = SubjectRequest.objects.filter(pk=correction.request_id)
    request.update(
        received_at=now() - timedelta(days=30), due_at=now() - timedelta(days=1)
    )
    assert needs(owner) == ["1 correction or request is open"], "no deadlines there"
    request.update(environment="production")
    Report.objects.update(environment="production")
    late = "1 correction or request is open 1 is late"
    assert late in needs(owner, "production")


def test_open_request_for_further_reports_needs_who_decides_it(owner, officer, api):
    asked = ask_for_further_reports(api)

    waiting = "1 correction or request is open"
    assert waiting in needs(owner)
    assert waiting not in needs(officer)
    answer_request(asked, Outcome.DONE)
    assert waiting not in needs(owner)


def test_going_live_needs_members_who_may_apply(owner, officer, viewer, api):
    for state, words in [
        ("NONE", "Go live with your company"),
        ("SUBMITTED", "We are reviewing your application"),
        ("REJECTED", "Your application to go live was rejected"),
    ]:
        Workspace.objects.filter(pk=api.workspace.pk).update(go_live=state)

        (need,) = needs(owner, "production")
        assert need.startswith(words), state
    assert needs(officer, "production") == needs(viewer, "production") == []


def test_counts_stop_at_99(owner, api, stop_counting_at):
    stop_counting_at(1)
    raise_alert(api)
    raise_alert(api)

    assert needs(owner)[0].startswith("1+ new monitoring alerts")


def test_decisions_beside_overdue_ones_are_not_counted_short(
    owner, api, stop_counting_at
):
    stop_counting_at(2)
    make_overdue(create_case(api, "11111111"))
    for number in ("22222222", "33333333", "44444444"):
        create_case(api, number)

    assert needs(owner) == [
        "1 decision is overdue",
        "2+ reports need a decision",
    ]


def test_another_workspace_and_environment_need_nobody_here(
    owner, stranger, another_api
):
    create_case(another_api)
    raise_alert(another_api)

    assert needs(owner) == []
    assert needs(stranger, "sandbox")
    assert len(needs(stranger, "production")) == 1


def test_charts_show_30_days_against_the_30_before(owner, api):
    api.create(person())
    assert "Last 30 days" not in owner.page("dashboard")
    store_day(
        api.workspace,
        today(),
        created=4,
        ready=4,
        low=3,
        high=1,
        decision_buckets=[88],
        decision_counts=[2],
    )
    store_day(
        api.workspace,
        today() - timedelta(days=30),
        created=2,
        decision_buckets=[96],
        decision_counts=[1],
    )

    page = owner.page("dashboard")
    assert page.count('role="img"') == 3
    assert re.search(r'chart-total">4 .*?100 %.*?from 2', page, re.DOTALL)
    assert '<p class="chart-total">25.0 %' in page
    assert "From order to decision, median" in page
    assert 'class="better"' in page


def test_figures_of_millions_stay_on_the_page(owner, api):
    api.create(person())
    store_day(api.workspace, today(), created=2_000_000, ready=1_999_999, high=3)

    page = owner.page("dashboard")
    assert '<p class="chart-total">2,000,000' in page
    assert ">2 M<" in page


def test_newest_reports_show_status_risk_and_decision(owner, api):
    create_case(api)
    api.create(person(fullName="A" * 200), draft=True)

    page = owner.page("dashboard")
    assert page.count('class="cover"') >= 3
    assert "Needs a decision" in page
    assert "Single checks" in page
    rated = Report.objects.exclude(risk_score=None).get()
    assert Disclosure.objects.filter(report_id=rated.pk, channel="CONSOLE").exists()


def test_first_steps_say_what_is_done_until_all_are(owner, officer, api):
    page = owner.page("dashboard")
    assert "Welcome" in page
    assert "1 of 4 steps done" in page
    assert 'name="first-order" value="python"' in page
    assert "Nothing needs you" not in page
    assert f'class="button primary" href="{owner.url("reports-new")}"' in page
    assert "steps done" not in officer.page("dashboard")

    api.create(person())
    configure_receiver(api.workspace)
    page = owner.page("dashboard")
    assert "3 of 4 steps done" in page
    assert "Newest reports" in page
    approve_workspace(api.workspace)
    assert "steps done" not in owner.page("dashboard")


def test_home_reads_as_many_statements_with_more_reports(owner, api: Api):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            owner.page("dashboard")
        return len(captured)

    create_case(api, "11111111")
    raise_alert(api)
    api.create({**person(), "consent": HOSTED})
    statements()
    few = statements()
    create_case(api, "22222222")
    raise_alert(api)
    api.create({**person(), "consent": HOSTED})
    store_day(api.workspace, today(), created=3)

    # The first look records who has seen the findings.
    statements()

    assert statements() <= few <= 30
