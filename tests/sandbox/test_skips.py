"""The client skips ahead in its sandbox to what time brings to one object."""

from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from monitoring import runs
from monitoring.models import Rule, Run, locked_rules
from tests.sandbox.test_references import ASKED
from tests.world.clients import HOSTED, Api, person
from tests.world.clock import longest_pauses as longest_pauses
from tests.world.decisions import Officer
from tests.world.deliveries import (
    configure_receiver,
    record_delivery,
    remove_receiver,
    retrying_fields,
    update_delivery,
)
from tests.world.employer import create_reference
from tests.world.notices import create_report, decline, deliver, wait
from tests.world.orders import create_report_with_status
from tests.world.payments import candidate_item, open_page
from tests.world.rules import create_rule, end_runs, store_rule
from tests.world.threads import count_waiting, start, uncommitted
from tests.world.waiting import until
from verification.checks.models import CheckResult
from verification.consents.links import consent_links
from verification.db.ids import uuid7
from verification.decisions.models import Decision
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.notifications.models import Kind, Notification
from verification.privacy.models import RetentionRun
from verification.privacy.retention import erase_expired_reports
from verification.sandbox.skips import RULES, MomentName, NothingDue
from webhooks.delivery import send_due_deliveries
from webhooks.models import Configuration, Delivery
from workspaces.models import Client

pytestmark = pytest.mark.usefixtures("longest_pauses")
DAY = timedelta(days=1)


def next_of(api: Api, path: str) -> str | None:
    """Return the name of what comes next."""
    answer = api.get(f"/sandbox/{path}/next")
    assert answer.status_code == 200, answer.content
    found = answer.json()["next"]
    return found and found["name"]


def skip(api: Api, path: str, **headers: str) -> dict[str, Any]:
    answer = api.post(f"/sandbox/{path}/skip", **headers)
    assert answer.status_code == 200, answer.content
    return answer.json()


def refused(api: Api, path: str) -> str:
    """Return the code of the problem that answers a skip."""
    return api.refused(f"/sandbox/{path}/skip")["code"]


def state(api: Api, path: str) -> dict[str, Any]:
    return api.report(path.removeprefix("reports/"))


def notified(api: Api, path: str) -> set[str]:
    found = Notification.objects.filter(report_id=path.removeprefix("reports/"))
    return set(found.values_list("kind", flat=True))


def hosted(api: Api) -> str:
    item = {**person(email="wanjiku@kamau.test"), "consent": HOSTED}
    return f"reports/{api.create(item)['id']}"


def payable(api: Api) -> str:
    return f"reports/{api.create(candidate_item())['id']}"


def referenced(api: Api) -> str:
    return f"reports/{create_reference(api, **ASKED).report_id}"


def retried(api: Api) -> str:
    """Return a report with a check that its source answers in the third attempt."""
    item = {**person(idNumber="90000004"), "checksRequested": ["IDENTITY"]}
    path = f"reports/{api.create(item)['id']}"
    api.work()
    # The first retry is due within seconds, which a slow machine takes.
    CheckResult.objects.update(next_attempt_at=now() + DAY, turn_at=now() + DAY)
    return path


def declined(api: Api) -> str:
    """Return a report whose decline waits after the service of its notice."""
    report_id = create_report(api)
    wait(5, api)
    decline(Officer(api), report_id)
    deliver()
    return f"reports/{report_id}"


def ended(api: Api) -> str:
    path = f"reports/{api.create(person())['id']}"
    api.work()
    return path


def draft(api: Api) -> str:
    return f"reports/{api.create(person(), draft=True)['id']}"


def run_retries(api: Api, path: str) -> bool:
    api.work()
    return CheckResult.objects.get().tries == 2


def erase(api: Api, path: str) -> bool:
    erase_expired_reports()
    return state(api, path)["erasedAt"] is not None


def is_failed(api: Api, path: str) -> bool:
    return state(api, path)["status"] == "FAILED"


def answers_nothing(api: Api, path: str) -> bool:
    api.work()
    (result,) = state(api, path)["checkResults"]
    return result["failure"]["code"] == "REFEREE_NO_ANSWER"


def sends(kind: Kind) -> Callable[[Api, str], bool]:
    return lambda api, path: kind in notified(api, path)


N = MomentName
IsDone = Callable[[Api, str], bool]
# A report, and what its skips bring about one after the other
REPORT_MOMENTS: list[tuple[Callable[[Api], str], dict[MomentName, IsDone]]] = [
    (
        hosted,
        {N.CONSENT_REMINDER: sends(Kind.CONSENT_REMINDER), N.CONSENT_EXPIRY: is_failed},
    ),
    (
        payable,
        {N.PAYMENT_REMINDER: sends(Kind.PAYMENT_REMINDER), N.PAYMENT_EXPIRY: is_failed},
    ),
    (
        referenced,
        {
            N.REFERENCE_REMINDER: sends(Kind.REFERENCE_REMINDER),
            N.REFERENCE_EXPIRY: answers_nothing,
        },
    ),
    (retried, {N.CHECK_RETRY: run_retries}),
    (
        declined,
        {N.DECLINE_FINAL: lambda api, path: Decision.objects.get().state == "FINAL"},
    ),
    (draft, {N.RETENTION: erase}),
]


@pytest.mark.parametrize(("arrange", "moments"), REPORT_MOMENTS)
def test_skip_brings_about_what_is_named(
    api: Api, arrange: Callable[[Api], str], moments: dict[MomentName, IsDone]
):
    path = arrange(api)
    assert next_of(api, path) == next(iter(moments))
    for name, is_done in moments.items():
        answer = skip(api, path)

        assert answer["done"]["name"] == name
        assert (answer["next"] or {}).get("name") == next_of(api, path) != name
        assert is_done(api, path)


def test_skip_is_due_when_the_job_would_do_it(api: Api):
    path = hosted(api)
    found = api.get(f"/sandbox/{path}/next").json()["next"]
    at = datetime.fromisoformat(found["dueAt"])

    assert at > now() + DAY
    assert consent_links.due_reminders(at).exists()
    assert not consent_links.due_reminders(at - timedelta(seconds=1)).exists()


def test_open_checkout_ends_with_the_time_to_pay(api: Api):
    path = payable(api)
    skip(api, path)
    open_page({"id": path.removeprefix("reports/")})

    assert skip(api, path)["done"]["name"] == N.PAYMENT_EXPIRY
    assert is_failed(api, path)


def test_check_that_a_worker_has_is_left_to_it(api: Api):
    path = retried(api)
    CheckResult.objects.update(claims=1, status="RUNNING")

    assert next_of(api, path) is None
    assert refused(api, path) == "nothing-due"


def test_skip_of_a_retry_is_done_once(api: Api):
    path = retried(api)
    skip(api, path)

    assert refused(api, path) == "nothing-due"


def test_skip_of_retention_erases_one_report_alone(api: Api):
    other, path = ended(api), ended(api)
    answer = skip(api, path)

    assert (answer["done"]["name"], answer["next"]) == (N.RETENTION, None)
    assert refused(api, path) == "nothing-due"
    assert Job.objects.filter(function=JobName.ERASE_EXPIRED_REPORTS).exists()
    assert erase(api, path)
    assert state(api, other)["erasedAt"] is None
    assert RetentionRun.objects.get().report_count == 1
    assert next_of(api, path) is None


def test_skip_reminds_the_referee_whose_reminder_is_due_first(api: Api):
    later = create_reference(api, **ASKED)
    earlier = copy(later)
    result = CheckResult.every.get(pk=later.result_id)
    result.pk = earlier.result_id = uuid7()
    result.name = "IDENTITY"
    result.save(force_insert=True)
    earlier.pk, earlier.token_digest = uuid7(), b"another"
    earlier.link_made_at -= DAY
    earlier.save(force_insert=True)

    skip(api, f"reports/{later.report_id}")

    earlier.refresh_from_db()
    later.refresh_from_db()
    assert (earlier.reminded_at is None, later.reminded_at is None) == (False, True)


def test_run_is_launched_and_the_rule_moves_to_the_time_after(api: Api):
    rule = create_rule(api, cadence="MONTHLY")
    api.work()
    path, first = f"monitoring/{rule['id']}", Rule.objects.get().next_run_at

    answers = [skip(api, path)]
    assert refused(api, path) == "nothing-due"
    end_runs()
    answers.append(skip(api, path))

    assert [answer["done"]["name"] for answer in answers] == [N.MONITORING_RUN] * 2
    assert answers[0]["next"] == answers[1]["done"]
    assert Rule.objects.get().next_run_at > first + 55 * DAY
    made = Run.objects.order_by("number")
    assert [a["reportId"] for a in answers] == [str(run.report_id) for run in made[1:]]
    assert made[1].due_at == first
    assert made[1].created_at < now()


def test_run_that_nobody_can_pay_pauses_the_rule(api: Api):
    path = f"monitoring/{store_rule(api).pk}"
    api.post("/sandbox/balance", {"available": 0})

    answer = skip(api, path)

    assert (answer["reportId"], answer["next"]) == (None, None)
    assert "paused" in answer["done"]["effect"]
    assert Rule.objects.get().pause_reason == "INSUFFICIENT_BALANCE"


def test_run_is_refused_when_the_balance_is_spent_meanwhile(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    path = f"monitoring/{store_rule(api).pk}"
    api.post("/sandbox/balance", {"available": 0})
    monkeypatch.setattr(runs, "_can_pay", lambda *read_before: lambda rule: True)

    assert refused(api, path) == "insufficient-balance"
    assert Rule.objects.get().pause_reason == ""


def test_rule_of_a_suspended_workspace_is_not_skipped(api: Api):
    rule = store_rule(api)
    api.workspace.suspend("Unpaid invoices")

    with pytest.raises(NothingDue, match="suspended"):
        RULES.skip(Client(api.workspace, api.account, "tests"), rule.pk)

    assert Rule.objects.get().put_off_until is None


def test_paused_rule_has_nothing_due(api: Api):
    rule = store_rule(api)
    api.post(f"/monitoring/{rule.pk}/pause")

    assert refused(api, f"monitoring/{rule.pk}") == "nothing-due"


@pytest.fixture
def delivery(api: Api) -> str:
    """Return a delivery that failed once, and fails again without a request."""
    configure_receiver(api.workspace)
    simulated = api.post("/sandbox/receiver", {"answer": "500", "times": 24})
    assert simulated.status_code == 200
    made = record_delivery(api)
    send_due_deliveries()
    update_delivery(made, next_attempt_at=now() + DAY)
    return f"deliveries/{made.pk}"


def test_delivery_is_skipped_to_its_last_attempt(api: Api, delivery: str):
    Delivery.objects.update(failures=8)
    done = []
    while next_of(api, delivery):
        answer = skip(api, delivery)
        assert refused(api, delivery) == "nothing-due"
        send_due_deliveries()
        done.append(answer["done"]["name"])

    assert done == [N.DELIVERY_RETRY] * 2
    path = delivery.replace("deliveries", "/webhooks/deliveries")
    assert api.get(path).json()["status"] == "FAILED"


def test_delivery_of_a_removed_receiver_is_not_skipped(api: Api, delivery: str):
    assert next_of(api, delivery)
    remove_receiver(api.workspace)

    assert not next_of(api, delivery)
    assert refused(api, delivery) == "nothing-due"


def test_skip_ends_the_rest_of_the_receiver(api: Api, delivery: str):
    Configuration.objects.update(resting_until=now() + DAY, failures_in_row=10)

    skip(api, delivery)
    send_due_deliveries()

    path = delivery.replace("deliveries", "/webhooks/deliveries")
    assert api.get(path).json()["attemptCount"] == 2


def test_another_workspace_finds_nothing(api: Api, another_api: Api):
    configure_receiver(api.workspace)
    for path in (
        f"reports/{create_report_with_status(api, 'READY')}",
        f"monitoring/{store_rule(api).pk}",
        f"deliveries/{record_delivery(api, **retrying_fields()).pk}",
    ):
        assert next_of(api, path)
        assert refused(another_api, path) == "not-found"
        assert another_api.get(f"/sandbox/{path}/next").status_code == 404


def test_production_has_no_sandbox(api: Api, live_api: Api):
    configure_receiver(api.workspace, environment="production")
    for path in (
        f"reports/{create_report_with_status(live_api, 'DRAFT')}",
        f"monitoring/{store_rule(live_api).pk}",
        f"deliveries/{record_delivery(live_api, **retrying_fields()).pk}",
    ):
        assert refused(live_api, path) == "sandbox-only"
        assert refused(api, path) == "not-found"
        assert live_api.get(f"/sandbox/{path}/next").status_code == 403
    assert live_api.get("/sandbox/subjects").json()["code"] == "sandbox-only"


def test_repeated_request_gets_the_first_answer(api: Api):
    path = f"monitoring/{store_rule(api).pk}"

    first, again = (skip(api, path, Idempotency_Key="month-1") for _ in "12")

    assert first == again
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_of_two_skips_at_once_wins(api: Api):
    path = f"monitoring/{store_rule(api).pk}"
    with uncommitted(lambda: locked_rules().get()):
        skips = [start(lambda: api.post(f"/sandbox/{path}/skip")) for _ in "12"]
        until(lambda: count_waiting() == 2)

    assert {skip.result().status_code for skip in skips} == {200, 409}
    assert Run.objects.count() == 1
