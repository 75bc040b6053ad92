import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User

from monitoring.chart import Mark, describe_marks, timeline
from monitoring.models import Alert, Rule, Run
from monitoring.runs import launch_due_runs
from tests.world.clients import Api, person
from tests.world.employer import REFEREE, employment_item
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.orders import movements
from tests.world.rules import (
    CHANGING,
    create_rule,
    end_runs,
    move_rules_back,
    raise_alert,
    run_rules,
    store_rule,
)
from tests.world.staff import (
    change_url,
    list_url,
    listed_ids,
    read_page,
    reveal,
    run_action,
)
from verification.backoffice.models import AuditEvent
from verification.reports.models import Report
from workspaces.models import Workspace

DAY = timedelta(days=1)
START = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def watched(api: Api) -> Rule:
    """Create a rule with two runs, of which the second raised an alert."""
    create_rule(api, id_number=CHANGING)
    run_rules(api)
    move_rules_back(DAY)
    run_rules(api)
    return Rule.objects.get()


def test_rule_page_shows_runs_reports_alerts_and_changes(
    watched: Rule, staff, django_assert_max_num_queries
):
    for _ in range(5):
        move_rules_back(DAY)
        launch_due_runs()
        end_runs()

    with django_assert_max_num_queries(12):
        html = read_page(staff, change_url(watched))

    assert AuditEvent.objects.filter(action="rule.opened").count() == 1
    for run in watched.runs.all():
        assert change_url(run) in html
        assert change_url(run.report) in html
    assert change_url(Alert.objects.get()) in html
    assert '<svg role="img"' in html
    assert "7 runs from" in html


def test_pages_of_runs_alerts_and_reports_link_to_the_rule(
    watched: Rule, staff, django_assert_max_num_queries
):
    for row in (Run.objects.latest("number"), Alert.objects.latest("id")):
        with django_assert_max_num_queries(12):
            html = read_page(staff, change_url(row))
        assert change_url(watched) in html
        assert change_url(row.report) in html
    report = watched.runs.first().report
    assert change_url(watched) in read_page(staff, change_url(report))


def test_changes_and_subject_are_masked_without_a_reason(watched: Rule, superuser):
    alert = Alert.objects.latest("id")

    assert CHANGING not in read_page(superuser, change_url(watched))
    assert " → " not in read_page(superuser, change_url(alert))
    reveal(superuser, watched)
    reveal(superuser, alert)
    assert CHANGING in read_page(superuser, change_url(watched))
    assert " → " in read_page(superuser, change_url(alert))


def test_rule_list_filters_and_searches(api: Api, live_api: Api, staff):
    store_rule(api, cadence="MONTHLY")
    live, stopped = store_rule(live_api), store_rule(live_api, cadence="MONTHLY")
    run_action(staff, "pause", stopped)

    def found(**query: str) -> set[str]:
        return listed_ids(staff, Rule, **query) - {str(api.workspace.pk)}

    # The list refuses to filter by anything else.
    paused = {"status__exact": "PAUSED", "pause_reason__exact": "BY_STAFF"}
    monthly = {"cadence__exact": "MONTHLY", "environment__exact": "production"}
    assert found(**paused, **monthly) == {str(stopped.pk)}
    assert found(q=str(live.pk)) == {str(live.pk)}
    assert "Paused by staff" in read_page(staff, list_url(Rule))


def test_filter_finds_rules_that_cannot_be_launched(api: Api, staff):
    store_rule(api)
    broken = store_rule(api)
    Rule.objects.filter(pk=broken.pk).update(
        launch_failures=3, last_error="UnknownKey", put_off_until=START
    )

    assert listed_ids(staff, Rule, not_launched="yes") - {str(api.workspace.pk)} == {
        str(broken.pk)
    }
    assert "UnknownKey" in read_page(staff, list_url(Rule))
    assert "UnknownKey" in read_page(staff, change_url(broken))


def test_staff_pause_at_once_and_resume_after_a_confirmation(api: Api, staff):
    rule = store_rule(api)

    assert "paused" in run_action(staff, "pause", rule)[0]
    assert "nothing to change" in run_action(staff, "pause", rule)[0]
    rule.refresh_from_db()
    assert rule.pause_reason == "BY_STAFF"
    html = asked(staff, "resume", rule)
    assert "billed" in html
    rule.refresh_from_db()
    assert not rule.is_active

    assert "resumed" in run_action(staff, "resume", rule, confirmed="yes")[0]
    rule.refresh_from_db()
    assert rule.is_active
    recorded = AuditEvent.objects.order_by("id").values_list("action", flat=True)
    assert list(recorded) == ["rule.paused", "rule.resumed"]


def test_run_now_needs_a_confirmation(api: Api, staff):
    rule = store_rule(api)
    next_run_at = rule.next_run_at
    html = asked(staff, "run_now", rule)
    assert "billed" in html
    assert str(rule.pk) in html
    assert Run.objects.count() == 0

    (told,) = confirm(staff, html, rule)

    run = Run.objects.get()
    assert change_url(run.report) in told
    assert run.report.created_by == "staff grace"
    rule.refresh_from_db()
    assert (rule.next_run_at, rule.runs_made) == (next_run_at, 1)
    assert movements(api) == [("CHARGE", -50, 1)]


def test_run_now_confirmed_twice_runs_once(api: Api, staff):
    rule = store_rule(api)
    html = asked(staff, "run_now", rule)

    confirm(staff, html, rule)
    assert "since you opened this page" in confirm(staff, html, rule)[0]
    html = asked(staff, "run_now", rule)
    assert "under way" in confirm(staff, html, rule)[0]
    assert (
        "since you opened this page"
        in run_action(staff, "run_now", rule, confirmed="yes")[0]
    )
    assert movements(api) == [("CHARGE", -50, 1)]

    api.work()
    confirm(staff, html, rule)
    assert Run.objects.count() == 2


def test_run_now_is_refused_when_the_rule_cannot_run(
    api: Api, another_api: Api, live_api: Api, staff
):
    paused, suspended, poor = (
        store_rule(api),
        store_rule(another_api),
        store_rule(live_api),
    )
    run_action(staff, "pause", paused)
    Workspace.objects.get(pk=another_api.workspace.pk).suspend("Unpaid invoices")

    html = asked(staff, "run_now", paused, suspended, poor)
    told = confirm(staff, html, paused, suspended, poor)

    assert Run.objects.count() == 0
    assert "paused" in " ".join(told)
    assert "suspended" in " ".join(told)
    assert "Top up" in " ".join(told)
    poor.refresh_from_db()
    assert poor.is_active


def test_run_now_leaves_out_a_referee_who_has_not_answered(api: Api, staff):
    subject = employment_item(refereeEmail=REFEREE)["subject"]
    create_rule(api, "IDENTITY", "EMPLOYER_VERIFICATION", subject=subject)
    create_rule(api, "EMPLOYER_VERIFICATION", subject=subject)
    run_rules(api)
    rules = Rule.objects.all()

    html = asked(staff, "run_now", *rules)
    told = confirm(staff, html, *rules)

    assert "KES 50.00 a run" in html
    assert "Its referee has not answered yet." in " ".join(told)
    run = Run.objects.get(number=2)
    assert run.report.checks_requested == ["IDENTITY"]


def test_staff_cannot_resume_a_rule_without_consent(api: Api, staff):
    rule = store_rule(api)
    Rule.objects.update(
        status="PAUSED",
        pause_reason="CONSENT_WITHDRAWN",
        paused_at=START,
        consent_withdrawn_at=START,
    )

    assert "withdrew" in run_action(staff, "resume", rule, confirmed="yes")[0]
    rule.refresh_from_db()
    assert not rule.is_active


def test_staff_cannot_resume_a_rule_of_a_suspended_workspace(api: Api, staff):
    rule = store_rule(api)
    Rule.objects.update(status="PAUSED", pause_reason="BY_STAFF", paused_at=START)
    api.workspace.suspend("Closed")

    assert "is suspended" in run_action(staff, "resume", rule, confirmed="yes")[0]
    rule.refresh_from_db()
    assert not rule.is_active


def test_staff_without_change_permission_have_no_actions(api: Api, staff):
    rule = store_rule(api)
    User.objects.get(username="grace").user_permissions.set(
        Permission.objects.filter(codename="view_rule")
    )

    run_action(staff, "pause", rule)
    run_action(staff, "run_now", rule, confirmed="yes")

    rule.refresh_from_db()
    assert rule.is_active
    assert Run.objects.count() == 0


def test_alert_and_report_of_a_deleted_rule_do_not_link_it(api: Api, staff):
    alert = raise_alert(api)
    report = Report.objects.get(pk=api.create(person())["id"])
    Report.objects.update(monitoring_id=alert.rule_id)
    link = f'href="{change_url(Rule.objects.get())}"'
    assert link in read_page(staff, list_url(Alert))
    Rule.objects.all().delete()

    for page in (change_url(alert), list_url(Alert), change_url(report)):
        html = read_page(staff, page)
        assert str(alert.rule_id) in html, page
        assert link not in html, page


def confirm(client, html: str, *rules: Rule) -> list[str]:
    """Send the form of the confirmation page; return the messages."""
    fields = dict(re.findall(r'name="(made-[^"]+)" value="([^"]+)"', html))
    return run_action(client, "run_now", *rules, confirmed="yes", **fields)


def asked(client, action: str, *chosen: Rule) -> str:
    data = {"action": action, "_selected_action": [row.pk for row in chosen]}
    answer = client.post(list_url(Rule), data)
    assert answer.status_code == 200
    return answer.content.decode()


def marks(*severities: str) -> list[Mark]:
    return [
        Mark(number, START + number * DAY, severity)
        for number, severity in enumerate(severities, 1)
    ]


def test_timeline_has_a_mark_for_each_run_and_a_description():
    drawn = timeline(marks("", "INFO", "", "WARNING", "CRITICAL"))

    root = ET.fromstring(drawn)  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    shapes = root.findall(f"{space}polygon")
    assert len(shapes) == 5
    # Shapes differ as well as colours.
    assert len({shape.get("points") for shape in shapes}) == 4
    assert len({shape.get("fill") for shape in shapes}) == 4
    assert all(shape.find(f"{space}title").text for shape in shapes)
    ids = {element.get("id") for element in root.iter()}
    assert set(root.get("aria-labelledby").split()) <= ids
    assert root.get("role") == "img"
    assert "<script" not in drawn
    assert "style=" not in drawn


def test_description_of_a_timeline_counts_its_marks():
    assert describe_marks(marks("", "INFO", "", "CRITICAL")) == (
        "4 runs from 1 Feb 2026 to 4 Feb 2026: 2 without a change, "
        "1 with a change, INFO, 1 with a change, CRITICAL."
    )
    assert describe_marks(marks("")).startswith("1 run from")


@pytest.mark.parametrize("severities", [(), ("",), ("INFO",) * 50])
def test_timeline_of_many_runs_stays_in_its_frame(severities):
    places = re.findall(r"translate\((\S+) ", timeline(marks(*severities)))
    assert len(places) == len(severities)
    assert all(16 <= float(x) <= 624 for x in places)


def test_timeline_draws_runs_of_one_moment():
    at_once = [Mark(1, START, ""), Mark(2, START, "INFO")]
    assert timeline(at_once).count("<polygon") == 2
