"""Orders, verbs, workers and crashes in any order, and what must hold after each."""

from collections import Counter
from decimal import Decimal

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import HealthCheck, Phase, settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.checks.engine import definitions, work_until_done
from tests.world.clients import person
from tests.world.clock import let_time_pass
from verification.checks.due_checks import claim
from verification.checks.engine import call_provider
from verification.checks.models import CheckResult
from verification.checks.results import record_outcomes
from verification.providers.registry import route_for
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.models import LedgerEntry

STEPS = 30
EXAMPLES = 20
# Clear, recovers, down for good, slow, refused: sandbox numbers by their last digit.
DIGITS = strategies.sampled_from("04568")
CHECKS = strategies.lists(
    strategies.sampled_from(["IDENTITY", "KRA_PIN", "CRB_SCORE"]),
    min_size=1,
    unique=True,
)
VERBS = strategies.sampled_from(["launch", "cancel", "retry"])
ALLOWED = {
    "launch": lambda report: report.status == "DRAFT",
    "cancel": lambda report: not report.is_ended,
    "retry": lambda report: report.is_ended and report.failure_code,
}
ENDED = {"COMPLETED", "FAILED", "CANCELLED"}


class Engine(RuleBasedStateMachine):
    reports = Bundle("reports")

    def __init__(self, api):
        super().__init__()
        self.api = api
        # The claims of workers that are slow or died.
        self.late = []
        self.savepoint = transaction.savepoint()

    @rule(target=reports, digit=DIGITS, checks=CHECKS, draft=strategies.booleans())
    def order(self, digit, checks, draft):
        item = person(idNumber=f"9000000{digit}") | {"checksRequested": checks}
        return self.api.create(item | {"draft": draft})["id"]

    @rule(report=reports, verb=VERBS)
    def verb_on_any_report(self, report, verb):
        answer = self.api.post(f"/reports/{report}/{verb}")
        assert answer.status_code in {200, 409}, answer.content

    @rule(verb=VERBS, number=strategies.integers(0, 99))
    def verb_on_a_report_that_allows_it(self, verb, number):
        allowing = sorted(r.pk for r in Report.objects.all() if ALLOWED[verb](r))
        if allowing:
            report = allowing[number % len(allowing)]
            answer = self.api.post(f"/reports/{report}/{verb}")
            assert answer.status_code == 200, answer.content

    @rule(much_later=strategies.booleans())
    def work(self, much_later):
        if much_later:
            let_time_pass()
        self.api.work()

    @rule(count=strategies.integers(1, 5))
    def a_worker_dies_or_is_slow(self, count):
        let_time_pass()
        self.late += claim(count)

    @rule(dies=strategies.booleans())
    def reports_are_cancelled_in_the_hands_of_a_worker(self, dies):
        let_time_pass()
        claims = claim(3)
        for report in {claimed.report.pk for claimed in claims}:
            answer = self.api.post(f"/reports/{report}/cancel")
            assert answer.status_code in {200, 409}, answer.content
        if not dies:
            self.late += claims

    # Without a precondition: when a check is due depends on the clock, and what
    # Hypothesis draws may not.
    @rule()
    def a_slow_worker_comes_back(self):
        if not self.late:
            return
        claims, self.late = self.late, []
        known = definitions()
        record_outcomes([answer_to(c, known) for c in claims], known)

    @invariant()
    def every_run_is_charged_once_and_reversed_if_it_came_to_nothing(self):
        moved = {
            (entry.result_id, entry.attempt, entry.kind): entry.amount
            for entry in LedgerEntry.objects.all()
        }
        wanted = {}
        for result in CheckResult.objects.select_related("report"):
            if result.report.launched_at is None or not result.price:
                continue
            for attempt in range(1, result.attempt + 1):
                wanted[result.pk, attempt, "CHARGE"] = -result.price
                failed_before = attempt < result.attempt
                if failed_before or result.status in {"FAILED", "CANCELLED"}:
                    wanted[result.pk, attempt, "REVERSAL"] = result.price
        assert moved == wanted
        assert len(moved) == LedgerEntry.objects.count()

    @invariant()
    def the_balance_is_the_sum_of_the_entries(self):
        total = LedgerEntry.objects.aggregate(total=Sum("amount"))["total"]
        assert self.api.account.balance == (total or Decimal(0))

    @invariant()
    def every_run_of_a_check_has_its_one_event(self):
        for result in CheckResult.objects.all():
            runs = [f"{result.pk}:{attempt + 1}" for attempt in range(result.attempt)]
            last = {"COMPLETED": ["check.completed"], "FAILED": ["check.failed"]}
            assert names_of(cause__in=runs, name__startswith="check.") == [
                *["check.failed"] * (result.attempt - 1),
                *last.get(result.status, []),
            ]

    @invariant()
    def every_end_of_a_report_has_its_one_event(self):
        for report in Report.objects.prefetch_related("status_changes"):
            retried = [c for c in report.status_changes.all() if c.trigger == "retried"]
            last = {"READY": ["report.ready"], "FAILED": ["report.failed"]}
            if report.is_ended:
                last["PARTIAL"] = ["report.failed"]
            assert names_of(report_id=report.pk, name__startswith="report.") == [
                "report.created",
                *["report.failed"] * len(retried),
                *last.get(report.status, []),
            ]

    @invariant()
    def a_report_stands_where_its_checks_do(self):
        for report in Report.objects.prefetch_related("results"):
            statuses = Counter(result.status for result in report.results.all())
            ended = set(statuses) <= ENDED
            completed = statuses["COMPLETED"] == statuses.total()
            match report.status:
                case "DRAFT":
                    assert set(statuses) == {"PENDING"}
                case "RUNNING":
                    assert not ended
                    assert not statuses["COMPLETED"]
                case "PARTIAL" if not report.is_ended:
                    assert not ended
                case "PARTIAL":
                    assert ended
                    assert 0 < statuses["COMPLETED"] < statuses.total()
                case "READY":
                    assert completed
                case "FAILED":
                    assert ended
                    assert not statuses["COMPLETED"]

    @invariant()
    def reports_make_legal_moves_only(self):
        for report in Report.objects.prefetch_related("status_changes"):
            stands = ""
            for change in report.status_changes.all():
                assert change.source == stands
                if stands:
                    assert change.target in Report.TRANSITIONS[stands]
                stands = change.target
            assert stands == report.status

    def teardown(self):
        try:
            work_until_done(self.api)
            assert not Report.objects.filter(status="RUNNING").exists()
        finally:
            transaction.savepoint_rollback(self.savepoint)


def answer_to(claimed, known):
    policy = known[claimed.definition_id].retry_policy
    return call_provider(
        route_for(claimed.name, "sandbox", "KE").providers[0], claimed, policy
    )


def names_of(**events):
    found = Event.objects.filter(**events).order_by("created_at", "id")
    return list(found.values_list("name", flat=True))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ledger_is_right_after_any_order_of_verbs_and_crashes(api):
    run_state_machine_as_test(
        lambda: Engine(api),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            database=None,
            # Making a failing example smaller would take minutes.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
