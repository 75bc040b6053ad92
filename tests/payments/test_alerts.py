"""E-mails to operators about payments that need a person, once for each cause."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.payments import (
    EMAIL,
    candidate_item,
    end_checkout,
    open_page,
    poll_checkouts,
    post_event,
)
from tests.world.refunds import (
    WANGARI,
    create_paid_checkout,
    create_refund,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from tests.world.threads import run_at_once
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.payments.alerts import (
    clear_review_flag,
    count_refused_signature,
    purge_operator_alerts,
    raise_review_flag,
    send_daily_alerts,
    send_urgent_alerts,
)
from verification.payments.checkouts import CheckoutNotOpened
from verification.payments.models import Checkout, OperatorAlert, Refund, ReviewFlag
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.refunds import (
    refund_unfinished_parts,
    reject_refund,
    resolve_review_flags,
)

pytestmark = pytest.mark.django_db
SIGNATURE = "x-paystack-signature"


@pytest.fixture(autouse=True)
def operators(settings: Any) -> None:
    settings.OPERATOR_ALERTS = ["ops@operator.test", "cfo@operator.test"]


def create_flagged_checkout(api: Api) -> Checkout:
    return end_checkout(open_page(api.create(candidate_item())), currency="USD")


def alert_emails() -> list[Notification]:
    return list(Notification.objects.filter(kind="PAYMENT_TROUBLE").order_by("id"))


def daily_lines(**later: float) -> list[str]:
    """Return the lines of the next daily e-mail, which contains no personal data."""
    before = {one.pk for one in alert_emails()}
    with time_machine.travel(now() + timedelta(**later), tick=False):
        send_daily_alerts()
    new = [one for one in alert_emails() if one.pk not in before]
    if not new:
        return []
    assert [one.recipient for one in new] == ["ops@operator.test", "cfo@operator.test"]
    texts = {write_email(one).text for one in new}
    (text,) = texts
    assert EMAIL not in text
    assert "Wanjiku" not in text
    return [line[2:] for line in text.splitlines() if line.startswith("- ")]


def test_review_flag_alerts_operators_once_a_day(api: Api, client: Any):
    checkout = create_flagged_checkout(api)

    assert client.get("/readyz").json()["paymentsInDoubt"] == 1
    # It waits for the daily e-mail.
    assert urgent_lines() == []
    assert daily_lines() == [
        f"Payment to review: {checkout.number} Paid in another currency than requested"
    ]
    assert daily_lines(days=1) == []
    for days, left in ((89, 1), (91, 0)):
        with time_machine.travel(now() + timedelta(days=days)):
            purge_operator_alerts()
        assert OperatorAlert.objects.count() == left


def test_daily_email_is_not_sent_without_alerts(api: Api):
    end_checkout(open_page(api.create(candidate_item())))

    assert daily_lines() == []


def test_cleared_flag_alerts_nobody_until_raised_again(api: Api):
    checkout = create_flagged_checkout(api)
    resolve_review_flags(checkout.pk, ["OTHER_CURRENCY"], "Given back by hand.")

    assert daily_lines() == []
    # The operators get a second alert about the same flag.
    raise_review_flag(checkout.pk, ReviewFlag.OTHER_CURRENCY)
    assert len(daily_lines(days=1)) == 1


def test_each_failed_refund_alerts_operators(paystack_api: Api, paystack: FakePaystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.refund_fails = True
    for _ in range(2):
        create_refund(checkout, 10)
        send_waiting_refunds()
        paystack.settle_refunds()
        send_waiting_refunds()

    line = f"Refund needs a person: {checkout.number} A refund has failed"
    assert daily_lines() == [line, line]


def test_wrong_signatures_alert_once_when_their_day_is_over(
    paystack_api: Api,
):
    day = f"{now():%Y-%m-%d}"
    for signature in ("0", "1", ""):
        assert post_event(b"{}", {SIGNATURE: signature}).status_code == 401
    # A request without a signature claims to be no provider.
    assert post_event(b"{}", {}).status_code == 401

    assert daily_lines() == []
    assert daily_lines(days=1) == [
        f"Signatures refused: 3 events of {day} were refused,"
        " as their signature was wrong"
    ]
    assert daily_lines(days=2) == []


def test_difference_in_books_alerts_once(paystack_api: Api, paystack: FakePaystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    transaction = paystack.transactions.pop(checkout.reference)
    transaction.reference = EMAIL
    paystack.transactions[EMAIL] = transaction
    Checkout.objects.all().update(paid_at=now() - timedelta(days=9))
    lines = [
        f"Books differ: paystack {transaction.id}"
        " 250.00 KES was paid there, for nothing of ours"
    ]

    for day, expected in ((1, lines), (2, [])):
        with time_machine.travel(now() + timedelta(days=day), tick=False):
            reconcile_yesterday()
            transaction.paid_at = now()
            assert daily_lines() == expected


def test_unread_books_alert_operators(paystack_api: Api, paystack: FakePaystack):
    paystack.faults.status = 503
    yesterday = f"{now() - timedelta(days=1):%Y-%m-%d}"

    for _ in range(2):
        reconcile_yesterday()

    assert daily_lines() == [
        f"Books not read: paystack, {yesterday}: SOURCE_UNAVAILABLE"
    ]


def test_difference_of_a_checkout_alerts_as_its_flag(
    paystack_api: Api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.fail(checkout.reference)

    with time_machine.travel(now() + timedelta(days=1), tick=False):
        reconcile_yesterday()
        (line,) = daily_lines()

    assert line.endswith("The provider's books differ")


def test_email_lists_50_alerts_and_counts_the_rest(api: Api):
    checkout = create_flagged_checkout(api)
    OperatorAlert.objects.all().delete()
    OperatorAlert.objects.bulk_create(
        OperatorAlert(kind="BOOKS", cause=str(n), message=f"T{n}", checkout=checkout)
        for n in range(53)
    )

    lines = daily_lines()

    assert lines[49].endswith("T49")
    assert lines[50:] == ["and 3 more"]


def test_alert_waits_until_an_address_is_configured(api: Api, settings: Any):
    settings.OPERATOR_ALERTS, addresses = [], settings.OPERATOR_ALERTS
    create_flagged_checkout(api)
    assert daily_lines() == []

    settings.OPERATOR_ALERTS = addresses
    assert len(daily_lines(days=1)) == 1


@pytest.mark.django_db(transaction=True)
def test_parallel_jobs_send_one_email():
    count_refused_signature()
    OperatorAlert.objects.update(created_at=now() - timedelta(days=1))

    run_at_once(3, lambda number: send_daily_alerts())

    assert len(alert_emails()) == 2


def test_rejected_refund_is_flagged_when_an_edit_replaced_the_payment(
    api: Api, settings: Any
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(100)
    made = api.create(candidate_item(draft=True))
    checkout = end_checkout(open_page(made))
    create_refund(checkout, 50)
    send_waiting_refunds()
    waits = create_refund(checkout, 100)
    edit = {"purpose": "Another purpose", "checksRequested": ["IDENTITY"]}
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200
    send_waiting_refunds()
    OperatorAlert.objects.all().delete()

    reject_refund(waits.pk, by=WANGARI)

    checkout.refresh_from_db()
    assert (checkout.refundable, checkout.review_flags) == (100, ["PAYS_NOTHING"])
    assert [line.split(" ", 4)[4] for line in daily_lines()] == [
        "It holds money that pays for nothing"
    ]
    resolve_review_flags(
        checkout.pk, ["PAYS_NOTHING"], "The payer wants no more of it."
    )
    checkout.refresh_from_db()
    assert checkout.reason_to_keep


def test_rejected_refund_raises_no_flag_when_money_still_pays(api: Api, settings: Any):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    checkout = create_paid_checkout(api)

    reject_refund(create_refund(checkout, 100).pk, by=WANGARI)

    checkout.refresh_from_db()
    assert checkout.review_flags == []


# Alerts within minutes


def urgent_lines(**later: float) -> list[str]:
    """Return the lines of the next e-mail about urgent alerts."""
    before = {one.pk for one in alert_emails()}
    with time_machine.travel(now() + timedelta(**later), tick=False):
        send_urgent_alerts()
    new = [one for one in alert_emails() if one.pk not in before]
    assert len(new) in {0, 2}
    texts = {write_email(one).text for one in new}
    return [
        line[2:] for text in texts for line in text.splitlines() if line[:2] == "- "
    ]


def test_unopened_checkouts_alert_once_an_hour(
    paystack_api: Api, paystack: FakePaystack, client: Any
):
    paystack.faults.status = 500
    made = paystack_api.create(candidate_item())
    for _ in range(2):
        with pytest.raises(CheckoutNotOpened):
            open_page(made)

    with time_machine.travel(now().replace(minute=59), tick=False):
        (line,) = urgent_lines()
    assert line.startswith("Checkout not opened: 2 pages of paystack to pay on did not")
    assert client.get("/readyz").json()["checkoutsNotOpened"] == 2

    with pytest.raises(CheckoutNotOpened):
        open_page(made)
    assert urgent_lines() == []
    hour = OperatorAlert.objects.get()
    assert hour.times == 3
    # The e-mail about the next hour waits for the pause.
    OperatorAlert.objects.create(
        kind="UNOPENED", cause=hour.cause[:-2] + "99", message="pages", times=4
    )
    assert urgent_lines(minutes=40) == []
    (line,) = urgent_lines(minutes=130)
    assert line == "Checkout not opened: 4 pages"
    assert daily_lines(days=1) == []


def test_missing_provider_alerts_operators(live_api: Api, settings: Any):
    settings.PAYMENT_PROVIDER = "shop"
    settings.PAYMENT_PROVIDERS = {"shop": ("tests.payments.shop.shop", {})}
    made = live_api.create(candidate_item())
    settings.PAYMENT_PROVIDER = ""

    with pytest.raises(CheckoutNotOpened):
        open_page(made)

    (line,) = urgent_lines()
    assert "pages of nobody to pay on did not open: PAYMENT_PROVIDER_NOT" in line
    assert not Checkout.objects.exists()


def test_stuck_refund_alerts_within_minutes(
    paystack_api: Api, paystack: FakePaystack, client: Any
):
    checkout = create_paid_checkout(paystack_api, paystack)
    create_refund(checkout, 10)
    send_waiting_refunds()
    assert urgent_lines() == []

    paystack.refunds[0].status = "needs-attention"
    send_waiting_refunds()

    (line,) = urgent_lines()
    flag = "A refund waits for a person, or for days"
    assert line == f"Refund needs a person: {checkout.number} {flag}"
    assert client.get("/readyz").json()["refundsWaiting"] == 1
    paystack.refunds[0].status = "pending"
    paystack.settle_refunds()
    send_waiting_refunds()
    assert client.get("/readyz").json()["refundsWaiting"] == 0


@pytest.fixture
def parts(api: Api) -> list[Checkout]:
    """Create two checkouts, of 100 and 150, that paid for a cancelled report."""
    made = api.create(candidate_item())
    found = [
        end_checkout(open_page(made), pays=100),
        end_checkout(open_page(made), pays=150),
    ]
    api.post(f"/reports/{made['id']}/cancel")
    return found


def left_to_staff(checkout: Checkout, amount: str) -> str:
    message = f"{checkout.number} KES {amount} of it was not done: staff decide"
    return f"Refund needs a person: {message}"


def test_each_part_is_alerted_when_one_is_flagged(parts: list[Checkout]):
    first, second = parts
    raise_review_flag(first.pk, ReviewFlag.DISPUTED)

    refund_unfinished_parts()

    assert not Refund.objects.exists()
    assert sorted(urgent_lines()) == sorted(
        [left_to_staff(first, "100.00"), left_to_staff(second, "150.00")]
    )
    assert urgent_lines() == []


def test_part_is_alerted_when_money_was_refunded_elsewhere(api: Api):
    made = api.create(candidate_item())
    checkout = end_checkout(open_page(made))
    Checkout.objects.update(refunded_elsewhere=1)
    api.post(f"/reports/{made['id']}/cancel")

    refund_unfinished_parts()

    assert urgent_lines() == [left_to_staff(checkout, "250.00")]


def test_part_is_not_alerted_when_staff_have_decided(parts: list[Checkout]):
    first, second = parts
    raise_review_flag(first.pk, ReviewFlag.DISPUTED)
    refund_unfinished_parts()

    resolve_review_flags(first.pk, ["DISPUTED"], "The bank took it all")
    # The other part waits for the next run of the job.
    assert urgent_lines() == []
    refund_unfinished_parts()
    assert urgent_lines() == [left_to_staff(second, "150.00")]


def test_part_is_alerted_when_staff_have_decided_about_other_money(
    paystack_api: Api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.dispute(checkout.reference)
    poll_checkouts(checkout)
    resolve_review_flags(checkout.pk, ["DISPUTED"], "The bank decides")
    paystack.dispute(checkout.reference, "resolve", resolution="declined")
    poll_checkouts(checkout)
    assert (checkout.disputed, urgent_lines()) == (0, [])

    paystack_api.post(f"/reports/{checkout.report_id}/cancel")
    refund_unfinished_parts()
    # As after a retry that has failed
    Checkout.objects.update(accounted_at=None)
    refund_unfinished_parts()

    assert urgent_lines() == [left_to_staff(checkout, "250.00")]


def test_part_is_not_alerted_when_it_is_refunded(parts: list[Checkout]):
    first, second = parts
    raise_review_flag(first.pk, ReviewFlag.DISPUTED)
    refund_unfinished_parts()

    clear_review_flag(first.pk, ReviewFlag.DISPUTED)
    refund_unfinished_parts()

    assert left_to_staff(second, "150.00") not in urgent_lines()
