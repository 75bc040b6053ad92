"""Paying by an M-Pesa prompt that our own page sends to the payer's phone."""

import json
import logging
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.db import IntegrityError, connection, transaction
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.fakes.stripe import FakeStripe
from tests.world.clients import Api
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.payer import Payer, create_payer, poll_providers
from tests.world.payments import poll_checkouts, run_provider, send_event
from tests.world.refunds import paystack_api as paystack_api
from tests.world.subject import visible_text
from tests.world.threads import run_at_once
from verification.hosted.forms import PhoneForm
from verification.jobs.models import Job
from verification.notifications.models import Block, DailyCount
from verification.notifications.recipients import block
from verification.payments import checkouts
from verification.payments.checkouts import (
    PROMPTS_PER_LINK_PER_HOUR,
    PaymentClosed,
    TooManyPrompts,
    _checkout_request,
    end_overdue_prompt,
    open_checkout,
    open_prompt,
    send_prompt,
)
from verification.payments.models import (
    PROMPT_LIFETIME,
    PROMPT_MARGIN,
    Checkout,
    OperatorAlert,
    Payment,
    Refund,
)
from verification.payments.provider_events import purge_payment_events
from verification.payments.refunds import send_refunds
from verification.payments.registry import provider_named
from verification.payments.settlement import SENT_WITHIN
from workspaces.create import create_workspace

pytestmark = pytest.mark.django_db

PHONE = "+254712345678"
ASKED = "Type your M-Pesa PIN on your phone"
OTHER_WAY = "Pay another way"
FORM = "Pay by M-Pesa on your phone"


@pytest.fixture
def visitor(paystack_api: Api) -> Payer:
    return create_payer(paystack_api)


def prompted(visitor: Payer, phone: str = "0712 345 678", **query: str) -> str:
    """Send the form; return the page's text."""
    answer = visitor.browser.post(visitor.page + "prompt", {"phone": phone}, **query)
    if answer.status_code == 303:
        return visitor.reads()
    return visible_text(answer.content.decode())


def workspace_of(visitor: Payer) -> UUID:
    return visitor.payment.report.workspace_id


def charges(paystack: FakePaystack) -> list[dict[str, Any]]:
    """Return the charges that Paystack received."""
    asked = [one for one in paystack.requests if one.path == "/charge"]
    return [json.loads(one.body) for one in asked]


def let_pass(visitor: Payer, time: timedelta = PROMPT_LIFETIME) -> None:
    """Poll the provider at this time after the prompt."""
    with time_machine.travel(visitor.checkout.created_at + time):
        poll_checkouts(visitor.checkout)


def wait(visitor: Payer, time: timedelta = PROMPT_LIFETIME) -> str:
    """Poll the provider at this time after the prompt; return the page's text."""
    let_pass(visitor, time)
    return visitor.reads()


def opened(visitor: Payer, phone: str = PHONE) -> Checkout:
    payment = visitor.payment
    return open_prompt(payment.pk, payment.generation, phone, "en")


def sent(visitor: Payer) -> Checkout:
    """Send a prompt by the verbs of the page's form."""
    send_prompt(opened(visitor))
    return visitor.checkout


def test_payer_pays_by_the_prompt(visitor: Payer, paystack: FakePaystack):
    assert FORM in visitor.reads()

    visitor.post("prompt", phone="0712 345 678")

    page = visitor.text()
    assert "to pay KES\xa0250.00" in page
    assert ASKED in visible_text(page)
    assert "A prompt was sent to +254••••678" in visible_text(page)
    (charge,) = charges(paystack)
    assert charge["mobile_money"] == {"phone": PHONE, "provider": "mpesa"}
    assert (charge["amount"], charge["currency"]) == (25000, "KES")
    assert charge["reference"] == visitor.checkout.reference
    paystack.pay(visitor.checkout.reference)
    send_event(paystack)
    poll_providers()
    assert "You paid KES 250.00" in visitor.reads()
    checkout = visitor.checkout
    assert (checkout.kind, checkout.status, checkout.failure) == ("PROMPT", "PAID", "")


def test_button_polls_the_provider(visitor: Payer, paystack: FakePaystack):
    back = f"{visitor.page}back/{sent(visitor).pk}"
    assert back in visitor.text()
    assert "Not paid yet" not in visitor.come_back(back)
    answered = visitor.script(visitor.path)
    assert answered() is False

    poll_providers()

    assert answered() is True
    assert "Not paid yet. We asked at" in visitor.reload()
    assert visitor.script(visitor.path)() is False


def test_failed_prompt_says_why(visitor: Payer, paystack: FakePaystack):
    checkout = sent(visitor)
    paystack.end_prompt(checkout.reference, "Request cancelled by user")
    poll_checkouts(checkout)

    for failure, told in [
        ("CANCELLED", "The prompt was cancelled on the phone"),
        ("NO_MONEY", "not enough money"),
        ("WRONG_PIN", "The M-Pesa PIN was wrong"),
        ("NOT_REACHED", "M-Pesa could not reach that phone"),
        ("BUSY", "Wait two minutes before you try"),
        ("", "Nothing was taken"),
    ]:
        if failure != "CANCELLED":
            Checkout.objects.update(failure=failure)
        page = visitor.reads()

        assert "The payment failed" in page
        assert told in page
        assert FORM in page


def test_failed_prompt_can_be_sent_again(visitor: Payer, paystack: FakePaystack):
    first = sent(visitor)
    paystack.end_prompt(first.reference, "Request cancelled by user")
    poll_checkouts(first)

    assert visitor.payment.status == "FAILED"
    assert ASKED in prompted(visitor)
    second = visitor.checkout
    assert (second.pk != first.pk, second.status) == (True, "OPEN")
    paystack.pay(second.reference)
    poll_checkouts(second)
    assert visitor.payment.status == "PAID"


def test_unanswered_prompt_times_out_and_a_late_success_pays(
    visitor: Payer, paystack: FakePaystack
):
    sent(visitor)
    assert ASKED in wait(visitor, PROMPT_LIFETIME - timedelta(seconds=1))

    page = wait(visitor)

    assert "The prompt was not answered in time" in page
    assert "Check whether it is paid" in page
    assert (visitor.checkout.failure, visitor.payment.status) == ("TIMED_OUT", "FAILED")

    # A late success pays.
    paystack.pay(visitor.checkout.reference)
    send_event(paystack)
    poll_providers()
    assert visitor.payment.status == "PAID"
    assert visitor.checkout.failure == ""


def test_late_success_after_a_retry_is_refunded(visitor: Payer, paystack: FakePaystack):
    first = sent(visitor)
    let_pass(visitor)
    second = sent(visitor)
    paystack.pay(second.reference)
    poll_checkouts(second)

    paystack.pay(first.reference)
    send_event(paystack)
    poll_providers()
    send_refunds()

    refund = Refund.objects.get()
    assert (refund.checkout, refund.cause) == (first, "PAID_TWICE")
    assert refund.amount == Decimal(250)


def test_poll_resolves_a_lost_answer(visitor: Payer, paystack: FakePaystack):
    paystack.faults.path, paystack.faults.half = "/charge", True

    page = prompted(visitor)

    assert "We are asking whether the prompt to +254••••678 was sent" in page
    assert ASKED in wait(visitor, SENT_WITHIN)
    visitor.post("prompt", phone=PHONE)
    assert len(charges(paystack)) == 1
    paystack.pay(visitor.checkout.reference)
    poll_checkouts(visitor.checkout)
    assert visitor.payment.status == "PAID"


def test_prompt_that_the_provider_never_took_can_be_sent_again(
    visitor: Payer, paystack: FakePaystack
):
    paystack.faults.path, paystack.faults.status = "/charge", 500
    sent(visitor)
    paystack.faults.status = None
    # The provider may not know it earlier.
    assert ASKED in wait(visitor, SENT_WITHIN - timedelta(seconds=1))

    assert "The prompt could not be sent" in wait(visitor, SENT_WITHIN)

    assert "A prompt was sent to" in prompted(visitor)


def test_prompt_waits_while_the_provider_does_not_answer(
    visitor: Payer, paystack: FakePaystack
):
    paystack.faults.status = 500
    prompted(visitor)

    page = wait(visitor)

    assert "does not answer at the moment" in page
    assert FORM not in page


ENDED_AFTER = PROMPT_LIFETIME + PROMPT_MARGIN


@pytest.fixture
def unanswered(visitor: Payer, paystack: FakePaystack) -> Checkout:
    """Send a prompt whose outcome the provider does not tell."""
    sent(visitor)
    paystack.faults.path, paystack.faults.status = "/transaction/verify", 500
    let_pass(visitor)
    return visitor.checkout


def pay_another_way(visitor: Payer, first: Checkout) -> str:
    """Click the button after the prompt's end; return the page's text."""
    with time_machine.travel(first.created_at + ENDED_AFTER):
        assert visitor.post("other-way")["Location"] == visitor.page
        return visitor.reads()


def test_silent_provider_leaves_other_ways_to_pay(
    visitor: Payer, unanswered: Checkout, paystack: FakePaystack
):
    with time_machine.travel(unanswered.created_at, tick=False) as clock:
        clock.shift(ENDED_AFTER - timedelta(seconds=1))
        assert OTHER_WAY not in visitor.reads()
        is_new = visitor.script(visitor.page)
        assert not is_new()
        visitor.post("other-way")
        visitor.post("pay")
        assert visitor.checkout == unanswered
        assert ASKED in visitor.reads()
        clock.shift(timedelta(seconds=1))
        assert is_new()
        page = visitor.reads()
    assert "We have not heard yet whether you paid" in page
    assert OTHER_WAY in page
    assert ASKED not in page

    page = pay_another_way(visitor, unanswered)

    assert FORM in page
    assert "The prompt was not answered in time" in page
    unanswered.refresh_from_db()
    assert (unanswered.status, unanswered.failure) == ("FAILED", "TIMED_OUT")
    assert visitor.post("pay")["Location"].startswith(paystack.url)


def test_late_payment_of_an_abandoned_prompt_pays_an_open_payment(
    visitor: Payer, unanswered: Checkout, paystack: FakePaystack
):
    with time_machine.travel(unanswered.created_at + ENDED_AFTER):
        end_overdue_prompt(visitor.payment.pk)
    visitor.post("pay")
    paystack.faults.status = None

    # No event comes: the next look of the clock finds it.
    paystack.pay(unanswered.reference)
    with time_machine.travel(now() + timedelta(hours=1)):
        poll_providers()

    assert visitor.payment.status == "PAID"
    assert not Refund.objects.exists()


def test_paid_prompt_cannot_be_abandoned(
    visitor: Payer, unanswered: Checkout, paystack: FakePaystack
):
    paystack.faults.status = None
    paystack.pay(unanswered.reference)
    poll_checkouts(unanswered)

    with time_machine.travel(unanswered.created_at + ENDED_AFTER):
        end_overdue_prompt(visitor.payment.pk)

    unanswered.refresh_from_db()
    assert (unanswered.status, unanswered.review_flags) == ("PAID", [])


@pytest.mark.parametrize("is_sent", [False, True])
def test_crash_while_the_prompt_is_sent_charges_once(
    visitor: Payer, paystack: FakePaystack, is_sent: bool
):
    checkout = opened(visitor)
    if is_sent:
        # The answer is never recorded.
        provider_named("paystack").send_prompt(_checkout_request(checkout, "en"), PHONE)

    page = wait(visitor, SENT_WITHIN)

    assert (ASKED in page, "could not be sent" in page) == (is_sent, not is_sent)
    assert len(charges(paystack)) == is_sent
    if is_sent:
        paystack.pay(checkout.reference)
        poll_checkouts(checkout)
        assert visitor.payment.status == "PAID"


def test_second_click_sends_no_second_prompt(visitor: Payer, paystack: FakePaystack):
    sent(visitor)

    assert ASKED in prompted(visitor)

    assert len(charges(paystack)) == 1
    assert Checkout.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_simultaneous_clicks_send_one_prompt(paystack_api: Api, paystack: FakePaystack):
    visitor = create_payer(paystack_api)

    answers = run_at_once(4, lambda _: visitor.post("prompt", phone="0712345678"))

    assert {answer.status_code for answer in answers} == {303}
    assert len(charges(paystack)) == 1


def test_no_page_or_prompt_is_opened_while_a_prompt_waits(
    visitor: Payer, paystack: FakePaystack
):
    checkout, payment = sent(visitor), visitor.payment

    assert visitor.post("pay")["Location"] == visitor.page
    with pytest.raises(PaymentClosed, match="PROMPTED"):
        open_checkout(payment.pk, payment.generation)
    with pytest.raises(PaymentClosed, match="PROMPTED"):
        opened(visitor)
    assert [one.path for one in paystack.requests] == ["/charge"]

    with (
        pytest.raises(IntegrityError, match="payment_has_one_open_prompt"),
        transaction.atomic(),
    ):
        Checkout(
            report_id=checkout.report_id,
            payment_id=checkout.payment_id,
            environment="production",
            provider="paystack",
            kind="PROMPT",
            amount=250,
            currency="KES",
        ).save()


def test_kenyan_numbers_are_accepted():
    for typed, number in (
        ("0712345678", PHONE),
        ("0110 345 678", "+254110345678"),
        ("+254 712-345-678", PHONE),
        ("254712345678", PHONE),
        ("(0712) 345.678", PHONE),
    ):
        form = PhoneForm({"phone": typed})

        assert form.is_valid(), typed
        assert form.cleaned_data["phone"] == number


def test_other_numbers_are_refused():
    for typed in (
        "",
        " ",
        "12345",
        "712345678",
        "0412345678",
        "07123456789",
        "+255712345678",
        "+14155550123",
        "0712345678 ext 5",
        "٠٧١٢٣٤٥٦٧٨",
        "0712\x00345678",
        "9" * 5000,
    ):
        errors = PhoneForm({"phone": typed}).errors["phone"]

        said = "Enter a Kenyan mobile number, for example 0712 345 678"
        assert errors == [said], typed


def test_refused_number_sends_no_prompt(visitor: Payer, paystack: FakePaystack):
    page = prompted(visitor, "0412345678")

    assert "Error: Enter a Kenyan mobile number" in page
    assert not Checkout.objects.exists()
    assert charges(paystack) == []


def test_page_offers_no_prompt_beyond_the_limit_of_mpesa(
    visitor: Payer, paystack: FakePaystack
):
    Payment.objects.update(amount="250.50")

    assert FORM not in visitor.reads()
    assert FORM not in prompted(visitor)
    assert charges(paystack) == []


def test_prompt_asks_for_the_rest_after_a_part(visitor: Payer, paystack: FakePaystack):
    paystack.pays = 20_000
    visitor.post("pay")
    paystack.pay(visitor.checkout.reference)
    poll_checkouts(visitor.checkout)
    paystack.pays = None
    assert "KES 50.00 is missing" in visitor.reads()

    assert "on that phone to pay KES 50.00" in prompted(visitor)

    paystack.pay(visitor.checkout.reference)
    poll_checkouts(visitor.checkout)
    assert visitor.payment.status == "PAID"


def test_link_sends_few_prompts_an_hour_and_then_tells_of_no_block(
    visitor: Payer, paystack: FakePaystack
):
    block(workspace_of(visitor), [("SMS", "+254712345670")], Block.Reason.UNWANTED)
    for number in range(PROMPTS_PER_LINK_PER_HOUR):
        opened(visitor, f"+25471234568{number}")
        Checkout.objects.update(status="FAILED")

    answer = visitor.post("prompt", phone="0712345670")

    assert answer.status_code == 429
    assert "Error: Too many prompts were sent" in visible_text(answer.content.decode())
    assert charges(paystack) == []
    with time_machine.travel(now() + timedelta(hours=1)):
        opened(visitor)


def test_phone_gets_few_prompts_a_day_by_any_link(
    paystack_api: Api, paystack: FakePaystack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkouts, "PROMPTS_PER_PHONE_PER_DAY", 2)
    first, second, third = (create_payer(paystack_api) for _ in range(3))
    opened(first)
    opened(second)

    with pytest.raises(TooManyPrompts):
        opened(third)

    assert Checkout.objects.count() == 2
    assert opened(third, "+254712345679").phone == "+254712345679"
    DailyCount.objects.update(day=now().date() - timedelta(days=1))
    Checkout.objects.update(status="FAILED")
    assert opened(first).phone == PHONE


def test_blocked_phone_gets_no_prompt(visitor: Payer, paystack: FakePaystack):
    block(workspace_of(visitor), [("SMS", PHONE)], Block.Reason.UNWANTED)

    page = prompted(visitor)

    assert "This number takes no prompts from this client" in page
    assert f'action="{visitor.page}pay"' in visitor.text()
    assert charges(paystack) == []
    assert not Checkout.objects.exists()
    assert visitor.payment.status == "PENDING"
    # Other numbers get theirs.
    visitor.post("prompt", phone="0712345679")
    assert len(charges(paystack)) == 1


def test_lifted_block_and_that_of_another_workspace_stop_no_prompt(
    visitor: Payer, paystack: FakePaystack
):
    block(workspace_of(visitor), [("SMS", PHONE)], Block.Reason.UNWANTED)
    Block.objects.update(lifted_at=now())
    other = create_workspace(name="Baobab", owner_email="o@baobab.test")
    block(other.pk, [("SMS", PHONE)], Block.Reason.UNWANTED)

    assert ASKED in prompted(visitor)


def test_phone_is_in_no_log_url_or_job_and_sealed_in_the_table(
    visitor: Payer,
    paystack: FakePaystack,
    log_lines: LogLines,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    prompted(visitor, "0712345678 not a number")
    told: list[str] = []
    for fault in ({"status": 500}, {"status": 400}, {"half": True}, {}):
        vars(paystack.faults).update({"path": "/charge", "half": False, **fault})
        visitor.post("prompt", phone="0712 345 678")
        told.append(visitor.text())
        paystack.faults.status = None
        Checkout.objects.update(status="FAILED")
        with connection.cursor() as cursor:
            cursor.execute("SELECT c.*, c.phone::text FROM payments_checkout c")
            told.append(str(cursor.fetchall()))
    told += [str(list(Job.objects.values_list())), caplog.text, str(log_lines())]
    told += [str(record.__dict__) for record in caplog.records]

    assert len(charges(paystack)) == 4
    assert [text for text in told if "712345678" in text] == []


def test_refused_prompt_shows_an_error_without_an_alert(
    visitor: Payer, paystack: FakePaystack
):
    paystack.key = "sk_another"

    page = prompted(visitor)

    assert "The prompt could not be sent" in page
    assert FORM in page
    assert not OperatorAlert.objects.exists()


def test_prompt_that_gets_no_answer_alerts(visitor: Payer, paystack: FakePaystack):
    paystack.faults.path, paystack.faults.status = "/charge", 500

    sent(visitor)

    assert OperatorAlert.objects.get().kind == "UNOPENED"


def test_prompt_that_needs_more_input_offers_another_way(
    visitor: Payer, paystack: FakePaystack
):
    paystack.prompt_status = "send_otp"

    page = prompted(visitor)

    assert "The prompt could not be sent" in page
    assert "pay in another way" in page


def test_provider_without_prompts_shows_no_form(live_api: Api, settings: Any):
    for _ in run_provider(FakeStripe(), settings):
        visitor = create_payer(live_api)

        assert FORM not in visitor.reads()
        assert FORM not in prompted(visitor)


def test_sandbox_plays_the_phone(api: Api):
    visitor = create_payer(api)
    assert "Play the phone" in prompted(visitor)
    path = f"/sandbox/checkout/{visitor.checkout.pk}"
    assert "Wrong PIN" in visitor.browser.get(path).content.decode()

    visitor.choose("pay", path)
    poll_checkouts(visitor.checkout)

    assert "You paid KES 250.00" in visitor.reads()


def test_sandbox_plays_each_failure_of_the_phone(api: Api):
    visitor = create_payer(api)
    for choice, failure in [
        ("cancel", "CANCELLED"),
        ("no-money", "NO_MONEY"),
        ("wrong-pin", "WRONG_PIN"),
        ("not-reached", "NOT_REACHED"),
    ]:
        checkout = sent(visitor)
        visitor.choose(choice, f"/sandbox/checkout/{checkout.pk}")
        poll_checkouts(checkout)

        assert checkout.failure == failure


def test_phones_are_purged_after_90_days(visitor: Payer, paystack: FakePaystack):
    made = sent(visitor).created_at
    for days, phone in ((89, PHONE), (91, None)):
        with time_machine.travel(made + timedelta(days=days)):
            purge_payment_events()
        assert visitor.checkout.phone == phone
