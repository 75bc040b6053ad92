"""A state machine of one workspace's money: its client, staff, workers and crashes.

The machine has a model of its own: the price of each check at its order, and the money
that came in or went out. After every step the balance equals the model's, which never
reads the ledger's entries. The checks run on a played source, and a step may crash at
any SQL statement.

A subclass of `Machine` adds rules: `attempt` wraps a step that may crash, and `put_in`
a step that moves money. `play` runs a machine.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import Any

from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as some
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.checks.engine import definitions, work_until_done
from tests.world.clients import Api, person
from tests.world.clock import let_time_pass
from verification.checks.catalogue import CATALOGUE
from verification.checks.due_checks import Claim, claim
from verification.checks.engine import call_provider
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.results import record_outcomes
from verification.providers import registry
from verification.providers.base import Finding, Inquiry
from verification.providers.sandbox import Sandbox
from verification.reports.models import Report
from workspaces import ledger
from workspaces.models import Account


class Source(Sandbox):
    """A live source that answers as the sandbox does for the same last digit."""

    name = "played"

    def ask(self, inquiry: Inquiry) -> Finding:
        reserved = "9" + str(inquiry.subject["idNumber"])[1:]
        played = {**inquiry.subject, "idNumber": reserved}
        return super().ask(replace(inquiry, subject=played))


@contextmanager
def played_source() -> Iterator[None]:
    path = f"{Source.__module__}.{Source.__name__}"
    routes = {entry.name: {"*": [Source.name]} for entry in CATALOGUE}
    registry.configure({Source.name: (path, {})}, routes)
    yield
    registry.configure({}, {})


class Killed(BaseException):
    """The process dies. No code of the service catches this."""


@contextmanager
def crash_at(number: int, done: Counter[str], *, killed: bool) -> Iterator[None]:
    """Kill the process at the SQL statement with this number, or its connection."""
    left = number

    def execute(run: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            return run(sql, *rest)
        done["crash"] += 1
        if str(sql).startswith("ROLLBACK"):
            # A lost rollback still rolls back.
            run(sql, *rest)
        # A lost connection at a commit looks like a rollback.
        if killed and not str(sql).startswith("RELEASE"):
            raise Killed
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(execute):
        yield


# The source is clear, recovers, stays down, is slow, or refuses.
DIGITS = some.sampled_from("04568")
CHECKS = some.lists(
    some.sampled_from(["IDENTITY", "KRA_PIN", "CRB_SCORE"]), min_size=1, unique=True
)
PICK = some.integers(0, 999)
AMOUNTS = some.decimals("0.01", 2000, places=2)
GIVEN_BACK = {"FAILED", "CANCELLED"}


@dataclass
class Order:
    """The model of one report, with the price of each check."""

    reference: str
    digit: str
    checks: Sequence[str]
    reuse: bool
    prices: dict[str, Decimal]

    @property
    def total(self) -> Decimal:
        return sum(self.prices.values(), Decimal(0))

    def item(self) -> dict[str, Any]:
        asked = {"checksRequested": self.checks, "reuse": self.reuse}
        return {**person(idNumber=f"7000000{self.digit}"), **asked}


class Machine(RuleBasedStateMachine):
    def __init__(self, api: Api, done: Counter[str]) -> None:
        super().__init__()
        self.api, self.done = api, done
        self.savepoint = transaction.savepoint()
        self.orders: dict[str, Order] = {}
        self.prices = {entry.name: entry.price for entry in CATALOGUE}
        # The money that came in, less the money that went out.
        self.paid_in = Decimal(0)
        # The balance may go this far below zero, or any amount if this is None.
        self.limit: Decimal | None = Decimal(0)
        self.numbers = count()
        # Claims of workers that are slow or have died.
        self.late: list[Claim] = []
        self.crash: tuple[int, bool] | None = None

    # The model

    def spent(self) -> Decimal:
        """Return the prices of the launched checks whose charge was not reversed."""
        results = CheckResult.objects.filter(
            report__payment_mode="SELF", report__launched_at__isnull=False
        ).exclude(status__in=GIVEN_BACK)
        kept = results.values_list("report__reference", "name")
        return sum((self.orders[of].prices[name] for of, name in kept), Decimal(0))

    def balance(self) -> Decimal:
        return self.paid_in - self.spent()

    def can_pay(self, amount: Decimal) -> bool:
        if not amount or self.limit is None:
            return True
        return self.balance() + self.limit >= amount

    def priced(self, order: Order) -> Order:
        """Return the order at today's prices. A check that reuses a result is free."""
        results = CheckResult.objects.filter(status="COMPLETED", reused_from_id=None)
        answered = {
            (self.orders[of].digit, name)
            for of, name in results.values_list("report__reference", "name")
        }
        prices = {
            name: Decimal(0)
            if order.reuse and (order.digit, name) in answered
            else self.prices[name]
            for name in order.checks
        }
        return replace(order, prices=prices)

    def report(self, pick: int, **wanted: Any) -> Report | None:
        """Pick one of these reports, the same for the same number."""
        found = list(Report.objects.filter(**wanted).order_by("reference"))
        return found[pick % len(found)] if found else None

    # The client and staff

    def attempt(self, what: str, do: Callable[[], Any]) -> Any:
        """Return the step's answer, or None after a crash.

        The caller cannot know how far a crashed step came.
        """
        self.done[what] += 1
        if self.crash is None:
            return do()
        (number, killed), self.crash = self.crash, None
        try:
            with crash_at(number, self.done, killed=killed):
                return do()
        except (Killed, OperationalError, transaction.TransactionManagementError):
            return None
        finally:
            # A failed statement outside of other transactions marks the test's own.
            transaction.set_rollback(False)

    def post(self, what: str, path: str, body: Any = None) -> int | None:
        answer = self.attempt(what, lambda: self.api.post(path, body))
        if answer is None or answer.status_code == 503:
            return None
        return int(answer.status_code)

    def put_in(self, what: str, amount: Decimal, do: Callable[[], Any]) -> None:
        """Move money in, or out if the amount is negative and the limit allows it."""
        allowed = amount > 0 or self.can_pay(-amount)
        before = self.api.account.balance

        def refused() -> bool:
            try:
                do()
            except ledger.InsufficientBalance:
                return True
            return False

        was_refused = self.attempt(what, refused)
        moved = self.api.account.balance != before
        if was_refused is None:
            assert allowed or not moved
        else:
            assert (was_refused, moved) == (not allowed, allowed)
        if moved:
            self.paid_in += amount

    @initialize(digits=some.permutations("058"), checks=CHECKS)
    def begin(self, digits: list[str], checks: list[str]) -> None:
        """Create reports with every status, so that each rule has one to act on."""
        self.top_up(Decimal(5000))
        self.order(digits, checks, reuse=False, draft=False)
        self.work(much_later=False)
        self.order(digits[:1], checks, reuse=True, draft=False)
        self.order(digits[1:], checks, reuse=True, draft=True)

    @rule(number=some.integers(1, 25), killed=some.booleans())
    def the_next_one_crashes(self, number: int, killed: bool) -> None:
        self.crash = (number, killed)

    @rule(
        digits=some.lists(DIGITS, min_size=1, max_size=3),
        checks=CHECKS,
        reuse=some.booleans(),
        draft=some.booleans(),
    )
    def order(
        self, digits: list[str], checks: list[str], reuse: bool, draft: bool
    ) -> None:
        orders = [
            self.priced(Order(f"r{next(self.numbers):04}", digit, checks, reuse, {}))
            for digit in digits
        ]
        items = [{**one.item(), "reference": one.reference} for one in orders]
        total = sum((one.total for one in orders), Decimal(0))
        allowed = draft or self.can_pay(total)

        code = self.post("order", "/reports", {"reports": items, "draft": draft})

        names = [one.reference for one in orders]
        made = Report.objects.filter(reference__in=names).count()
        assert made in {0, len(orders)}
        if code is not None:
            assert (code, made) == ((201, len(orders)) if allowed else (402, 0))
        if made:
            assert allowed
            self.orders |= {one.reference: one for one in orders}

    @rule(pick=PICK)
    def launch_a_draft(self, pick: int) -> None:
        if report := self.report(pick, status="DRAFT"):
            self.launch(report)

    @rule(pick=PICK)
    def launch_any(self, pick: int) -> None:
        if report := self.report(pick):
            self.launch(report)

    def launch(self, report: Report) -> None:
        is_draft = report.status == "DRAFT"
        order = self.priced(self.orders[report.reference])
        allowed = is_draft and self.can_pay(order.total)

        code = self.post("launch", f"/reports/{report.pk}/launch")

        report.refresh_from_db()
        launched = is_draft and report.launched_at is not None
        assert allowed or not launched
        if code is not None:
            refused = 402 if is_draft else 409
            assert (code, launched) == ((200, True) if allowed else (refused, False))
        if launched:
            self.orders[report.reference] = order

    @rule(pick=PICK, digit=DIGITS, checks=CHECKS, reuse=some.booleans())
    def edit(self, pick: int, digit: str, checks: list[str], reuse: bool) -> None:
        report = self.report(pick, status="DRAFT") or self.report(pick)
        if report is None:
            return
        was_draft = report.status == "DRAFT"
        before = set(report.results.values_list("pk", flat=True))
        order = self.priced(Order(report.reference, digit, checks, reuse, {}))

        code = self.post("edit", f"/reports/{report.pk}/draft", order.item())

        edited = before.isdisjoint(report.results.values_list("pk", flat=True))
        assert was_draft or not edited
        if code is not None:
            assert (code, edited) == ((200, True) if was_draft else (409, False))
        if edited:
            self.orders[report.reference] = order

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        if report := self.report(pick, completed_at=None) or self.report(pick):
            code = self.post("cancel", f"/reports/{report.pk}/cancel")
            assert code in {None, 409 if report.is_ended else 200}

    @rule(pick=PICK)
    def retry_a_failed_one(self, pick: int) -> None:
        if report := self.report(pick, status__in=["FAILED", "PARTIAL"]):
            self.retry(report)

    @rule(pick=PICK)
    def retry_any(self, pick: int) -> None:
        if report := self.report(pick):
            self.retry(report)

    def retry(self, report: Report) -> None:
        failed = report.results.filter(status="FAILED").values_list("name", flat=True)
        prices = self.orders[report.reference].prices
        total = sum((prices[name] for name in failed), Decimal(0))
        can = report.is_ended and report.status != "CANCELLED" and bool(failed)
        allowed = can and self.can_pay(total)

        code = self.post("retry", f"/reports/{report.pk}/retry")

        was_ended = report.is_ended
        report.refresh_from_db()
        assert allowed or report.is_ended == was_ended
        assert code in {None, 200 if allowed else 402 if can else 409}

    @rule(amount=AMOUNTS)
    def top_up(self, amount: Decimal) -> None:
        account = self.api.account
        self.put_in(
            "top up",
            amount,
            lambda: ledger.top_up(
                account.workspace, account.environment, amount, actor="t", note=""
            ),
        )

    @rule(amount=AMOUNTS, sign=some.sampled_from([1, -1]))
    def adjust(self, amount: Decimal, sign: int) -> None:
        moved = ledger.Movement(
            self.api.account.pk, ledger.Kind.ADJUSTMENT, sign * amount, "tests"
        )
        self.put_in("adjust", sign * amount, lambda: ledger.record_movements(moved))

    @rule(
        billing=some.sampled_from(["PREPAID", "POSTPAID"]),
        limit=some.sampled_from([0, 100, 1000, None]),
    )
    def change_terms(self, billing: str, limit: int | None) -> None:
        if billing == "PREPAID":
            limit = limit or 0
        if limit is not None and self.balance() < -limit:
            return
        self.limit = None if limit is None else Decimal(limit)
        Account.objects.filter(pk=self.api.account.pk).update(
            billing=billing,
            credit_limit=(limit or 0) if billing == "PREPAID" else 0,
            ceiling=limit if billing == "POSTPAID" else None,
        )

    @rule(check=some.sampled_from(["IDENTITY", "CRB_SCORE"]), price=AMOUNTS)
    def change_a_price(self, check: str, price: Decimal) -> None:
        self.prices[check] = price
        for definition in CheckDefinition.objects.filter(name=check):
            definition.price = price
            definition.save()

    # Workers

    @rule(much_later=some.booleans())
    def work(self, much_later: bool) -> None:
        if much_later:
            let_time_pass()
        self.attempt("work", self.api.work)

    @rule(many=some.integers(1, 5))
    def a_worker_dies_or_is_slow(self, many: int) -> None:
        let_time_pass()
        self.late += self.attempt("claim", lambda: claim(many)) or []

    @rule()
    def reports_are_cancelled_in_the_hands_of_a_worker(self) -> None:
        let_time_pass()
        claims = claim(3)
        self.late += claims
        for report_id in {claimed.report.pk for claimed in claims}:
            code = self.post("cancel", f"/reports/{report_id}/cancel")
            assert code in {None, 200, 409}

    # No rule has a precondition: a check is due by the clock, and the draws of
    # Hypothesis must not depend on the clock.
    @rule()
    def a_slow_worker_comes_back(self) -> None:
        if not self.late:
            return
        claims, self.late = self.late, []
        known = definitions()
        answers = [_answer_to(one, known) for one in claims]
        self.attempt("late", lambda: record_outcomes(answers, known))

    # The invariant

    @invariant()
    def the_balance_is_what_the_model_says(self) -> None:
        assert self.api.account.balance == self.balance()

    def teardown(self) -> None:
        try:
            self.crash = None
            work_until_done(self.api)
            self.the_balance_is_what_the_model_says()
            call_command("audit_ledger", stdout=io.StringIO())
        finally:
            transaction.savepoint_rollback(self.savepoint)


def play(
    machine: Callable[[Counter[str]], RuleBasedStateMachine],
    *,
    operations: int,
    steps: int,
    including: Sequence[str] = (),
) -> None:
    """Run machines for this many operations, and until each of these happened."""
    done: Counter[str] = Counter()
    while done.total() - done["crash"] < operations or not all(
        done[what] for what in including
    ):
        run_state_machine_as_test(
            lambda: machine(done),
            settings=settings(
                # The first example is the simplest one. More come while operations
                # are missing.
                max_examples=2,
                stateful_step_count=steps,
                database=None,
                # Hypothesis repeats one round for ever under `CI=true`, where it
                # derandomizes: the loop waits for events that this round may lack.
                derandomize=False,
                # Shrinking a failing example would take minutes.
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


def _answer_to(claimed: Claim, known: Any) -> Any:
    policy = known[claimed.definition_id].retry_policy
    route = registry.route_for(claimed.name, "production", "KE")
    return call_provider(route.providers[0], claimed, policy)
