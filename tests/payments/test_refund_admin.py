import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.utils.timezone import now

from tests.world.clients import Api, create_lender, person
from tests.world.payments import EMAIL, candidate_item, end_checkout, payment_of
from tests.world.payments import open_page as opened_checkout
from tests.world.refunds import (
    create_paid_checkout,
    create_refund,
    send_waiting_refunds,
)
from tests.world.staff import (
    change_url,
    list_url,
    listed_ids,
    log_in,
    read_page,
    reveal,
    run_action,
)
from tests.world.staff import superuser as superuser
from verification.db.ids import filter_by_number
from verification.payments.alerts import raise_review_flag
from verification.payments.models import (
    Checkout,
    Payment,
    PaymentEvent,
    Refund,
    ReviewFlag,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def api(module_transaction: None) -> Api:
    return Api(create_lender(), "sandbox")


@pytest.fixture(scope="module")
def paid_checkout(api: Api) -> Checkout:
    return create_paid_checkout(api)


@pytest.fixture
def checkout(paid_checkout: Checkout) -> Checkout:
    return Checkout.objects.get(pk=paid_checkout.pk)


def browser(name: str, *permissions: str, **client: bool) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    opened = Client(**client)
    log_in(opened, user)
    return opened


def finance(name: str, **options: bool) -> Client:
    return browser(name, "view_checkout", "change_refund", **options)


def answer(checkout: Checkout, **given: str) -> dict[str, str]:
    """Return the data of the refund form."""
    filled = {"amount": "250", "expected": str(checkout.refundable), "reason": "Closed"}
    return {"confirmed": "yes", "unfinished": "0", **filled, **given}


def event_of(checkout: Checkout) -> PaymentEvent:
    return PaymentEvent.objects.create(
        provider="sandbox",
        event_id="E1",
        type="charge.success",
        checkout=checkout,
        body_sha256=b"0" * 32,
        body={"email": EMAIL},
    )


def logged(row: object) -> list[str]:
    entries = LogEntry.objects.filter(object_id=str(row.pk))
    return list(entries.values_list("change_message", flat=True))


def test_checkout_page_links_payment_refunds_and_events(checkout, superuser):
    run_action(superuser, "refund", checkout, **answer(checkout))
    event = event_of(checkout)
    page = read_page(superuser, change_url(checkout))

    for row in (Refund.objects.get(), event):
        assert change_url(row) in page
    assert change_url(checkout) in read_page(
        superuser, change_url(checkout.report.payment)
    )
    assert change_url(checkout.report) in page


def test_body_of_an_event_is_masked_until_it_is_revealed(checkout, superuser):
    event = event_of(checkout)

    assert EMAIL not in read_page(superuser, change_url(event))
    reveal(superuser, event)
    assert EMAIL in read_page(superuser, change_url(event))


def test_staff_find_a_checkout_and_have_it_polled(api: Api, checkout, superuser):
    create_paid_checkout(api)
    typed = f" {checkout.number.lower().replace('-', ' ')} "

    for row in (checkout, checkout.report.payment):
        assert listed_ids(superuser, type(row), q=typed) == {str(row.pk)}
        assert listed_ids(superuser, type(row), q="P-%%%%-____-0000") == set()
    both = {str(one.pk) for one in Checkout.objects.all()}
    assert listed_ids(superuser, Checkout, provider="sandbox") == both
    assert listed_ids(superuser, Checkout, provider="stripe") == set()
    found = {str(checkout.pk)}
    assert listed_ids(superuser, Checkout, q=str(checkout.report_id)) == found

    run_action(superuser, "poll", checkout)

    checkout.refresh_from_db()
    assert checkout.next_poll_at <= now()
    assert logged(checkout) == ["asked the provider"]


def test_search_by_receipt_number_uses_an_index(checkout):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")

    assert (
        "checkouts_by_number"
        in filter_by_number(Checkout.objects.all(), "P", checkout.number).explain()
    )


def test_confirmed_form_refunds_once(checkout, superuser):
    data = {"action": "refund", "_selected_action": [str(checkout.pk)]}
    page = superuser.post(list_url(Checkout), data).content.decode()
    assert 'value="250.00"' in page
    for wrong in [{"reason": " "}, {"amount": ""}]:
        page = superuser.post(list_url(Checkout), {**data, **answer(checkout, **wrong)})
        assert "errorlist" in page.content.decode(), wrong
    assert not Refund.objects.exists()

    sent = answer(checkout, amount="100")
    told = run_action(superuser, "refund", checkout, **sent)

    assert told == ["KES 100.00 is given back."]
    refund = Refund.objects.get()
    assert (refund.amount, refund.requested_by) == (100, "staff admin")
    assert any("Closed" in message for message in logged(checkout))
    (told,) = run_action(superuser, "refund", checkout, **sent)
    assert "Somebody else has given something back" in told
    assert Refund.objects.count() == 1


def test_refund_form_has_a_button_for_the_unfinished_part(api: Api, superuser):
    item = person(idNumber="90000008", kraPin="A900000000Z", email=EMAIL)
    checkout = create_paid_checkout(api, subject=item["subject"])
    api.work()
    data = {"action": "refund", "_selected_action": [str(checkout.pk)]}
    page = superuser.post(list_url(Checkout), data).content.decode()
    assert "Give back 200.00 for checks" in page

    sent = answer(checkout, part="yes", unfinished="200.00")
    # A check is done while the person reads the page.
    failed = checkout.report.results.filter(status="FAILED", price=50)
    failed.update(status="COMPLETED", failure_code="", failure_message="")
    (told,) = run_action(superuser, "refund", checkout, **sent)
    assert "has changed" in told
    assert not Refund.objects.exists()

    run_action(superuser, "refund", checkout, **{**sent, "unfinished": "150.00"})

    assert Refund.objects.get().amount == 150


def test_unpaid_checkout_refuses_refund(api: Api, superuser):
    checkout = opened_checkout(api.create(candidate_item()))

    (told,) = run_action(superuser, "refund", checkout)

    assert "can be given back" in told


def test_large_refund_logs_both_persons(checkout, settings):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    grace, wangari = finance("grace"), finance("wangari")
    told = run_action(grace, "refund", checkout, **answer(checkout))
    assert told == ["KES 250.00 waits for a second person."]
    refund = Refund.objects.get()

    User.objects.filter(username="grace").update(username="Grace ")
    (refused,) = run_action(grace, "approve", refund, confirmed="yes")
    assert "Another person" in refused
    run_action(wangari, "approve", refund)
    assert Refund.objects.get().status == "REQUESTED"
    run_action(wangari, "approve", refund, confirmed="yes")

    send_waiting_refunds()
    refund.refresh_from_db()
    assert (refund.status, refund.decided_by) == ("DONE", "staff wangari")
    assert logged(refund) == ["approved"]


def test_refund_is_rejected_after_confirmation(checkout, settings, superuser):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    run_action(superuser, "refund", checkout, **answer(checkout))
    refund = Refund.objects.get()

    run_action(superuser, "reject", refund)
    assert Refund.objects.get().status == "REQUESTED"
    run_action(superuser, "reject", refund, confirmed="yes")

    assert Refund.objects.get().status == "REJECTED"
    assert logged(refund) == ["rejected"]


def test_staff_with_view_permission_cannot_refund(checkout, settings, superuser):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    looks = browser("looks", "view_checkout", "view_refund", "change_checkout")
    run_action(looks, "refund", checkout, **answer(checkout))
    assert not Refund.objects.exists()

    run_action(superuser, "refund", checkout, **answer(checkout))
    for action in ("approve", "reject"):
        run_action(looks, action, Refund.objects.get(), confirmed="yes")
    assert Refund.objects.get().status == "REQUESTED"


def test_refund_refuses_a_form_without_csrf_token(checkout):
    client = finance("grace", enforce_csrf_checks=True)
    data = {"action": "refund", "_selected_action": [str(checkout.pk)]}

    refused = client.post(list_url(Checkout), {**data, **answer(checkout)})

    assert refused.status_code == 403
    assert not Refund.objects.exists()


def test_staff_clear_the_flags_of_the_page_with_a_reason(api: Api, checkout, superuser):
    doubted = end_checkout(
        opened_checkout(api.create(candidate_item())), currency="USD"
    )
    found = {str(doubted.pk)}
    assert listed_ids(superuser, Checkout, review_flag="any") == found
    assert listed_ids(superuser, Checkout, review_flag="OTHER_CURRENCY") == found
    assert listed_ids(superuser, Checkout, review_flag="DISPUTED") == set()
    asked = why(superuser, doubted)
    assert "Paid in another currency than requested" in asked
    raise_review_flag(doubted.pk, ReviewFlag.DISPUTED)

    clear(superuser, doubted, asked)
    clear(superuser, doubted, asked)

    doubted.refresh_from_db()
    assert doubted.review_flags == ["DISPUTED"]
    for url in (list_url(Checkout), change_url(doubted.report)):
        assert ReviewFlag.DISPUTED.label in read_page(superuser, url)
    assert logged(doubted) == ["cleared OTHER_CURRENCY: Sent back by hand"]


def why(client: Client, checkout: Checkout) -> str:
    """Return the page that asks for the reason."""
    data = {"action": "clear_flags", "_selected_action": [checkout.pk]}
    return client.post(list_url(Checkout), data).content.decode()


def clear(client: Client, checkout: Checkout, asked: str) -> None:
    """Send the form of the page, with the flags that it names."""
    member = f"review-flags-{checkout.pk}"
    seen = re.findall(rf'name="{member}" value="(\w+)"', asked)
    run_action(
        client, "clear_flags", checkout, reason="Sent back by hand", **{member: seen}
    )


def test_staff_send_a_new_payment_link(api: Api, superuser):
    payment = payment_of(api.create(candidate_item()))
    (told,) = run_action(superuser, "resend", payment)
    assert "within the last minute" in told
    Payment.objects.update(link_made_at=now() - timedelta(minutes=2))

    run_action(superuser, "resend", payment)

    payment.refresh_from_db()
    assert payment.generation == 2
    assert logged(payment) == ["sent a new link"]


def test_filter_lists_unfinished_parts(api: Api, checkout, superuser):
    cancelled = create_paid_checkout(api)
    api.post(f"/reports/{cancelled.report_id}/cancel")

    assert listed_ids(superuser, Checkout, undone="part") == {str(cancelled.pk)}

    create_refund(cancelled)
    assert listed_ids(superuser, Checkout, undone="part") == set()
