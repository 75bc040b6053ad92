"""The ledger's machine with payers, checkouts, refunds and a failing provider.

The provider has books of its own, which no crash of the service undoes. After the
machine has healed, both books agree, and the audit finds no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F, Sum
from django.utils.timezone import now
from hypothesis import strategies as some
from hypothesis.stateful import rule

from tests.checks.engine import work_until_done
from tests.payments.ledger_machine import CHECKS, DIGITS, PICK, Machine, Order
from tests.payments.shop import Given, Page, the_shop
from tests.world.clients import Api
from verification.backoffice.approvals import StaffActor
from verification.payments import refunds as payment_refunds
from verification.payments.checkouts import (
    CheckoutNotOpened,
    PaymentClosed,
    TooManyPrompts,
    open_at_provider,
    open_checkout,
    open_prompt,
    open_top_up,
    send_prompt,
)
from verification.payments.links import expire_payments
from verification.payments.models import Checkout, Payment, Refund
from verification.payments.reconciliation import day_bounds, reconcile
from verification.payments.refunds import (
    NotRefundable,
    abandon_payment,
    approve_refund,
    is_recorded,
    record_refund_elsewhere,
    refund_unfinished_parts,
    reject_refund,
    request_refund,
    send_refunds,
    unfinished_part,
)
from verification.payments.settlement import poll_due_checkouts, poll_now, settle
from verification.providers.payment_provider import (
    CheckoutSnapshot,
    CheckoutState,
    DisputeState,
    ProviderRefund,
    RefundState,
)
from verification.reports.models import Report

GRACE, WANGARI = StaffActor(1, "staff grace"), StaffActor(2, "staff wangari")
PAYER = {"name": "Amina", "email": "amina@payer.test"}
SHARES, UNDONE = some.sampled_from([1, 1, 3]), some.sampled_from(["no", "no", "yes"])
MORE = some.sampled_from([0, 0, 0, 0, 1, -1, -40, 300])
CURRENCIES = some.sampled_from(["KES"] * 7 + ["USD"])
WEATHER = some.sampled_from(["fine", "fine", "down", "lost"])


@dataclass
class PaidOrder(Order):
    mode: str = "CANDIDATE"

    def item(self) -> dict[str, Any]:
        payer = {"payer": PAYER} if self.mode == "THIRD_PARTY" else {}
        return {**super().item(), "paymentMode": self.mode, **payer}


class PaymentMachine(Machine):
    def __init__(self, api: Api, done: Counter[str]) -> None:
        super().__init__(api, done)
        the_shop.open()
        # Answers and refunds that slow workers have not recorded yet.
        self.seen_late: list[tuple[UUID, CheckoutSnapshot, datetime]] = []
        self.refunds_late: list[Refund] = []
        # Refunds from the dashboard. A crash may have prevented their record.
        self.elsewhere: list[tuple[UUID, ProviderRefund]] = []

    # The model

    def report(self, pick: int, **wanted: Any) -> Report | None:
        """Pick a report that the workspace pays for, as the ledger's rules expect."""
        return super().report(pick, **{"payment_mode": "SELF", **wanted})

    def paid_by_others(self, pick: int, **wanted: Any) -> Report | None:
        modes = {"payment_mode__in": ["CANDIDATE", "THIRD_PARTY"]}
        found = Report.objects.filter(**modes, **wanted).order_by("reference")
        return found[pick % len(found)] if found else None

    def balance(self) -> Decimal:
        """Add the top-ups by checkouts that the service has recorded."""
        counted = Checkout.objects.filter(account__isnull=False, is_counted=True)
        left = F("counted_amount") - F("refunded") - F("disputed")
        topped_up = counted.aggregate(sum=Sum(left))["sum"]
        return super().balance() + (topped_up or 0)

    # Each rule creates the row that it needs, so that most steps have an effect.

    def page(self, pick: int, *, unpaid: bool = False) -> Page | None:
        def found() -> list[Page]:
            pages = the_shop.pages.values()
            return [p for p in pages if not (unpaid and p.state == CheckoutState.PAID)]

        if not found() and the_shop.weather == "fine":
            self.make_page(pick)
        pages = found()
        return pages[pick % len(pages)] if pages else None

    def make_page(self, pick: int) -> None:
        if pick % 3 == 0:
            self.top_up_by_checkout(100 + pick)
        else:
            digit, checks = "04568"[pick % 5], ["IDENTITY", "CRB_SCORE"]
            self.order_for_others_to_pay(digit, checks, pick % 4 == 0, "CANDIDATE")
            self.open(-1, beside=False)

    def paid(self, pick: int) -> Checkout | None:
        def found() -> list[Checkout]:
            paid = Checkout.objects.filter(paid_amount__gt=F("refunded"))
            return list(paid.order_by("id"))

        if not found():
            self.pay(pick, more=0, currency="KES", told=True)
        checkouts = found()
        return checkouts[pick % len(checkouts)] if checkouts else None

    def quiet(self, what: str, do: Callable[[], Any], *errors: type[Exception]) -> Any:
        """Attempt a step. These errors are answers and no failures."""

        def tried() -> Any:
            with suppress(*errors):
                return do()

        return self.attempt(what, tried)

    # Clients

    @rule(
        digit=DIGITS,
        checks=CHECKS,
        draft=some.booleans(),
        mode=some.sampled_from(["CANDIDATE", "THIRD_PARTY"]),
    )
    def order_for_others_to_pay(
        self, digit: str, checks: list[str], draft: bool, mode: str
    ) -> None:
        name = f"r{next(self.numbers):04}"
        order = self.priced(PaidOrder(name, digit, checks, True, {}, mode))
        item = {**order.item(), "reference": name}
        code = self.post(
            "order paid by others", "/reports", {"reports": [item], "draft": draft}
        )
        made = Report.objects.filter(reference=name).exists()
        assert code in {None, 201}
        assert made or code is None
        if made:
            self.orders[name] = order

    @rule(pick=PICK, digit=DIGITS, checks=CHECKS)
    def edit_what_others_pay(self, pick: int, digit: str, checks: list[str]) -> None:
        if report := self.paid_by_others(pick, status="DRAFT"):
            mode = report.payment_mode
            order = self.priced(
                PaidOrder(report.reference, digit, checks, True, {}, mode)
            )
            before = set(report.results.values_list("pk", flat=True))
            path = f"/reports/{report.pk}/draft"
            code = self.post("edit paid by others", path, order.item())
            assert code in {None, 200, 409}
            if before.isdisjoint(report.results.values_list("pk", flat=True)):
                self.orders[report.reference] = order

    @rule(pick=PICK, verb=some.sampled_from(["launch", "cancel", "retry"]))
    def act_on_what_others_pay(self, pick: int, verb: str) -> None:
        if report := self.paid_by_others(pick):
            code = self.post(f"{verb} paid by others", f"/reports/{report.pk}/{verb}")
            assert code in {None, 200, 409}

    @rule(amount=some.integers(100, 2000))
    def top_up_by_checkout(self, amount: int) -> None:
        account = self.api.account

        def opened() -> None:
            self.begun(open_top_up(account, Decimal(amount), "owner"))

        self.attempt("top up by checkout", opened)

    # Payers

    def begun(self, checkout: Checkout) -> None:
        if not checkout.url:
            with suppress(CheckoutNotOpened):
                open_at_provider(checkout, "en")

    @rule(pick=PICK, beside=some.booleans())
    def open(self, pick: int, beside: bool) -> None:
        asking = Payment.objects.exclude(status="NOT_REQUIRED")
        payments = list(asking.order_by("id"))
        if not payments:
            return
        payment = payments[pick % len(payments)]

        def opened() -> None:
            asked = (payment.pk, payment.generation)
            self.begun(open_checkout(*asked, beside=beside))

        self.quiet("open", opened, PaymentClosed)

    @rule(pick=PICK)
    def prompt(self, pick: int) -> None:
        payments = list(Payment.objects.filter(status__in=Payment.OUTSTANDING))
        if not payments:
            return
        payment = payments[pick % len(payments)]

        def sent() -> None:
            asked = (payment.pk, payment.generation, f"+2547{pick % 10**8:08}", "en")
            send_prompt(open_prompt(*asked))

        self.quiet("prompt", sent, PaymentClosed, TooManyPrompts)

    @rule(pick=PICK, more=MORE, currency=CURRENCIES, told=some.booleans())
    def pay(self, pick: int, more: int, currency: str, told: bool) -> None:
        if page := self.page(pick, unpaid=True):
            self.done["pay"] += 1
            page.state, page.currency = CheckoutState.PAID, currency
            page.paid = max(page.amount + more, Decimal(1))
            if page.paid != page.amount:
                self.done["pay too much" if more > 0 else "pay too little"] += 1
            if told:
                self.tell(page)

    @rule(pick=PICK)
    def give_up(self, pick: int) -> None:
        if not (parts := self.parts()):
            self.make_page(pick)
            self.pay(-1, more=-40, currency="KES", told=True)
            parts = self.parts()
        if parts:
            payment_id = parts[pick % len(parts)].payment_id
            self.attempt("give up", lambda: abandon_payment(payment_id))

    def parts(self) -> list[Checkout]:
        found = Checkout.objects.filter(is_part=True, is_counted=False)
        return list(found.order_by("id"))

    @rule(pick=PICK, state=some.sampled_from(["FAILED", "CANCELLED", "EXPIRED"]))
    def do_not_pay(self, pick: int, state: str) -> None:
        if page := self.page(pick, unpaid=True):
            page.state = CheckoutState(state)
            self.tell(page)

    @rule(pick=PICK)
    def an_event_comes(self, pick: int) -> None:
        if page := self.page(pick):
            self.tell(page)

    def tell(self, page: Page) -> None:
        name = UUID(page.reference)
        self.attempt("event", lambda: (poll_now(name), poll_due_checkouts()))

    @rule(pick=PICK, state=some.sampled_from(list(DisputeState)))
    def dispute(self, pick: int, state: DisputeState) -> None:
        pages = [p for p in the_shop.pages.values() if p.state == CheckoutState.PAID]
        if pages:
            page = pages[pick % len(pages)]
            page.dispute, page.disputed = state, page.paid
            self.done["dispute"] += 1
            self.tell(page)

    @rule(pick=PICK)
    def give_back_elsewhere(self, pick: int) -> None:
        """Refund in the provider's dashboard, and record the refund as staff do."""
        checkout = self.paid(pick)
        if checkout is None or checkout.transaction == "" or checkout.disputed:
            return
        page = the_shop.pages[checkout.reference]
        if self.refunds_late or the_shop.kept(page) <= checkout.refunded + 1:
            return
        if checkout.is_part and not checkout.is_counted:
            return
        name = f"elsewhere-{len(the_shop.given)}"
        given = Given(name, page, Decimal(1), RefundState.DONE)
        the_shop.given.append(given)
        listed = the_shop.refunds_of(checkout.transaction)
        found = next(one for one in listed if name in one.words)

        def record() -> None:
            record_refund_elsewhere(checkout.pk, found, reason="Theirs", by=GRACE)

        if checkout.refundable >= 1:
            self.elsewhere.append((checkout.pk, found))
            self.quiet("record elsewhere", record, NotRefundable)
        else:
            the_shop.given.remove(given)

    # The clock and the provider

    @rule(weather=WEATHER)
    def the_weather_changes(self, weather: str) -> None:
        the_shop.weather = weather

    @rule()
    def the_clock_has_us_look(self) -> None:
        Checkout.objects.filter(next_poll_at__isnull=False).update(next_poll_at=now())
        self.attempt("look", poll_due_checkouts)

    @rule(pick=PICK)
    def a_payment_expires(self, pick: int) -> None:
        payments = Payment.objects.filter(status__in=Payment.OUTSTANDING).order_by("id")
        if not payments:
            return
        payment = payments[pick % len(payments)]
        Payment.objects.filter(pk=payment.pk).update(expires_at=now())
        self.attempt("expire", expire_payments)

    @rule(fails=some.sampled_from([False, False, True]))
    def the_banks_answer(self, fails: bool) -> None:
        for given in the_shop.given:
            if given.state == RefundState.PENDING:
                given.state = RefundState.FAILED if fails else RefundState.DONE

    # Staff and workers

    @rule(
        pick=PICK,
        part=some.sampled_from([1, 1, 3]),
        undone=some.sampled_from(["no", "no", "yes"]),
    )
    def refund(self, pick: int, part: int, undone: str) -> None:
        checkout = self.paid(pick)
        if checkout is None:
            return
        amount = round(checkout.refundable / part, 2)

        def asked() -> None:
            if undone == "yes":
                part = unfinished_part(checkout)
                request_refund(
                    checkout.pk, part, reason="Undone", by=GRACE, is_part=True
                )
            else:
                request_refund(checkout.pk, amount, reason="They asked", by=GRACE)

        self.quiet("refund", asked, NotRefundable)

    @rule(pick=PICK, yes=some.booleans(), by=some.sampled_from([GRACE, WANGARI]))
    def decide(self, pick: int, yes: bool, by: StaffActor) -> None:
        if not Refund.objects.filter(status="REQUESTED").exists():
            self.refund(pick, 1, "no")
        refunds = list(Refund.objects.filter(needs_second=True).order_by("-id"))
        if refunds:
            verb, pk = (
                approve_refund if yes else reject_refund,
                refunds[pick % len(refunds)].pk,
            )
            self.quiet("decide", lambda: verb(pk, by=by), NotRefundable)

    @rule()
    def undone_work_is_given_back(self) -> None:
        # The client can still retry some of the reports that have just ended.
        ended = Report.objects.filter(completed_at__isnull=False).order_by("id")
        for report in ended[: self.done["give back undone"] % 3]:
            report.completed_at = now() - timedelta(hours=1)
            report.save(update_fields=["completed_at"])
        self.attempt("give back undone", refund_unfinished_parts)

    @rule()
    def send(self) -> None:
        Refund.objects.filter(next_try_at__isnull=False).update(next_try_at=now())
        self.attempt("send", send_refunds)

    @rule(pick=PICK)
    def a_worker_is_slow_to_settle(self, pick: int) -> None:
        if (page := self.page(pick)) and the_shop.weather == "fine":
            seen = the_shop.look(page.reference, "")
            self.seen_late.append((UUID(page.reference), seen, now()))

    @rule()
    def a_worker_claims_a_refund_and_is_slow(self) -> None:
        if not Refund.objects.filter(status="APPROVED").exists():
            self.refund(0, 3, "no")
        Refund.objects.filter(next_try_at__isnull=False).update(next_try_at=now())
        if refund := self.attempt("claim refund", payment_refunds._claim):
            self.refunds_late.append(refund)

    @rule()
    def slow_workers_come_back(self) -> None:
        looks, self.seen_late = self.seen_late, []
        for look in looks:
            self.attempt("late look", partial(settle, *look))
        refunds, self.refunds_late = self.refunds_late, []
        for refund in refunds:
            self.attempt("late refund", partial(payment_refunds._send, refund))

    # Checks at the end

    def payers_paid_for_what_was_done(self) -> None:
        """The service keeps the price of completed checks, unless staff refund more."""
        for payment in Payment.objects.filter(report__completed_at__isnull=False):
            paying = Checkout.objects.paying(payment.pk)
            refunds = Refund.objects.filter(checkout__in=paying)
            by_staff = refunds.filter(
                cause__in=["STAFF", "ELSEWHERE"], status__in=["REQUESTED", "DONE"]
            )
            if paying.exclude(review_flags=[]).exists() or not paying:
                continue
            done = payment.report.results.filter(status="COMPLETED")
            cost = done.aggregate(sum=Sum("price"))["sum"] or 0
            kept = sum(one.kept_amount for one in paying)
            assert kept == cost or (kept < cost and by_staff.exists())

    def teardown(self) -> None:
        try:
            self.heal()
            self.both_books_agree()
            self.payers_paid_for_what_was_done()
        finally:
            super().teardown()

    def heal(self) -> None:
        self.crash = None
        the_shop.weather = "fine"
        Checkout.objects.exclude(status="PAID").update(next_poll_at=now())
        self.the_clock_has_us_look()
        for pk, found in self.elsewhere:
            with suppress(NotRefundable):
                record_refund_elsewhere(pk, found, reason="Theirs", by=GRACE)
        Checkout.objects.filter(status="PAID").update(next_poll_at=now())
        self.the_clock_has_us_look()
        work_until_done(self.api)
        ended = Report.objects.filter(completed_at__isnull=False)
        ended.update(completed_at=now() - timedelta(hours=1))
        self.give_back_what_was_not_done()
        self.record_what_other_refunds_held()
        # The money of a failed refund now belongs to the checkout's disputes.
        self.the_clock_has_us_look()
        # A rejected refund had held what a cancelled report gives back.
        self.give_back_what_was_not_done()

    def give_back_what_was_not_done(self) -> None:
        self.attempt("give back undone", refund_unfinished_parts)
        while Refund.objects.filter(status="APPROVED").exists():
            self.send()
            self.the_banks_answer(fails=False)

    def record_what_other_refunds_held(self) -> None:
        """Record refunds made elsewhere whose money a later refund had reserved."""
        for pk, found in self.elsewhere:
            checkout = Checkout.objects.get(pk=pk)
            if not is_recorded(checkout, found):
                for refund in checkout.refunds.filter(status="REQUESTED"):
                    reject_refund(refund.pk, by=WANGARI)
                record_refund_elsewhere(pk, found, reason="Theirs", by=GRACE)

    def both_books_agree(self) -> None:
        today = now().date()
        differences = [*reconcile(the_shop, *day_bounds(today, today), mend=False)]
        assert differences == [], differences
        for page in the_shop.pages.values():
            checkout = Checkout.objects.get(pk=page.reference)
            done = [one for one in the_shop.given if one.page is page]
            done = [one for one in done if one.state == RefundState.DONE]
            waits = checkout.refunds.filter(status="REQUESTED")
            asked = sum((one.amount for one in waits), Decimal(0))
            given = sum((one.amount for one in done), Decimal(0))
            assert checkout.refunded - asked == given <= page.paid
            if page.dispute in {None, DisputeState.WON}:
                assert checkout.disputed == 0
            assert checkout.disputed + checkout.refunded <= page.paid
            # The provider made each refund once.
            assert len({one.reference for one in done}) == len(done)
            assert checkout.review_flags != ["CONTRADICTED"]
            if page.paid and not (checkout.review_flags or checkout.is_part):
                # All the money that stays pays for something.
                kept = checkout.counted_amount + checkout.disputed
                assert given + asked >= page.paid - kept
