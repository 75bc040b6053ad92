"""Security rules of the payment page."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest
import time_machine
from django.contrib.staticfiles import finders
from django.test import Client, RequestFactory
from django.utils.timezone import now

from tests.hosted.test_pages import PAGE_BYTES, size_of
from tests.world.clients import Api
from tests.world.orders import PAYER, count_rows
from tests.world.payer import Payer, create_payer, poll_providers
from tests.world.threads import run_at_once
from verification.hosted import payment
from verification.notifications.models import Notification
from verification.payments.models import Checkout
from verification.payments.settlement import MIN_POLL_INTERVAL

pytestmark = pytest.mark.django_db

PLACES = ["", "pay", "new-link", "receipt.pdf", "state", "?lang=sw", "?unavailable"]
SCRIPT = "<script>alert(1)</script>{{ 7 }}"
TURNED = "Acme\u202e\n\n\u2066DO NOT PAY\u2028<b>"


def test_visit_opens_no_other_payment(api: Api):
    mine = create_payer(api)
    another = create_payer(api, subject={**person_of(mine), "idNumber": "87654321"})
    stranger = Client()
    stranger.cookies["visit"] = mine.browser.cookies["visit"].value

    assert stranger.get(mine.page).status_code == 200
    assert stranger.get(another.page).status_code == 403
    assert stranger.post(another.page + "pay").status_code == 403


def person_of(visitor: Payer):
    return {
        name: value
        for name, value in visitor.payment.report.subject.items()
        if name not in {"country", "id"}
    }


def test_visit_ends_after_an_hour(api: Api):
    visitor = create_payer(api)

    with time_machine.travel(now() + timedelta(seconds=3601)):
        page = visitor.get()

    assert page.status_code == 403
    assert b"what you paid is counted all the same" in page.content


def test_get_requests_change_nothing(api: Api):
    visitor = create_payer(api)
    visitor.pay()
    back = f"back/{visitor.checkout.pk}"
    before, told = count_rows(), Notification.objects.count()
    visitor.open()
    for place in [*PLACES, back, f"?back={visitor.checkout.pk}", "?back=%00"]:
        visitor.get(place)
    visitor.browser.head(visitor.page)
    visitor.browser.get(f"/sandbox/checkout/{visitor.checkout.pk}")
    poll_providers()

    # Only the job that asks the provider is woken.
    after = count_rows()
    assert {name for name in after if after[name] != before[name]} == {"jobs.Job"}
    assert (visitor.payment.status, visitor.payment.generation) == ("PENDING", 1)
    assert visitor.checkout.status == "OPEN"
    assert Notification.objects.count() == told


def test_return_polls_once_in_five_seconds(api: Api):
    visitor = create_payer(api)
    visitor.pay()
    back = f"{visitor.page}back/{visitor.checkout.pk}"
    looks = []
    for seconds in (0, 1, 3, 6, 8, 20):
        with time_machine.travel(now() + timedelta(seconds=seconds)):
            Client().get(back)
            looks.append(visitor.checkout.next_poll_at <= now())
            poll_providers()

    assert timedelta(seconds=5) == MIN_POLL_INTERVAL
    assert looks == [True, False, False, True, False, True]


def test_return_to_an_unknown_checkout_is_harmless(api: Api):
    visitor = create_payer(api)

    page = visitor.come_back(f"{visitor.page}back/{uuid4()}?since=9")

    assert "Pay KES 250.00" in page


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 14, "²"])
def test_return_at_no_time_is_now(since: str):
    with time_machine.travel(now(), tick=False):
        request = RequestFactory().get("/", {"since": since})
        assert payment.since(request) == now()


def test_return_shows_no_other_payment(api: Api):
    mine = create_payer(api)
    another = create_payer(api, subject={**person_of(mine), "idNumber": "87654321"})
    another.choose("pay")

    page = mine.come_back(f"{mine.page}back/{another.checkout.pk}")

    assert "Pay KES 250.00" in page
    assert "We are asking" not in page


def test_double_click_and_two_tabs_lead_to_one_checkout(api: Api):
    visitor = create_payer(api)

    first, second = visitor.pay(), visitor.pay()

    assert first == second
    assert Checkout.objects.count() == 1


def test_paying_again_after_it_is_paid_opens_nothing(api: Api):
    visitor = create_payer(api)
    at = visitor.pay()
    visitor.choose("pay", at)
    poll_providers()

    assert visitor.post("pay")["Location"] == visitor.page
    again = visitor.browser.get(at)
    assert b"This checkout is paid already" in again.content
    visitor.choose("pay", at)
    visitor.choose("fail", at)
    poll_providers()
    assert Checkout.objects.count() == 1
    assert visitor.payment.status == "PAID"


@pytest.mark.django_db(transaction=True)
def test_simultaneous_clicks_keep_money_once(api: Api):
    visitor = create_payer(api)
    cookies = visitor.browser.cookies

    def click(number: int) -> str:
        browser = Client()
        browser.cookies = cookies
        return browser.post(visitor.page + "pay")["Location"]

    for at in set(run_at_once(4, click)):
        visitor.choose("pay", "/" + at.split("/", 3)[3])
    poll_providers()

    assert visitor.payment.status == "PAID"
    assert Checkout.objects.filter(is_counted=True).count() == 1


def test_checkouts_of_one_link_are_limited(api: Api, monkeypatch):
    monkeypatch.setattr(payment, "CHECKOUTS_PER_MINUTE", 2)
    visitor = create_payer(api)

    # Within one minute of the clock.
    with time_machine.travel(now().replace(second=1), tick=False):
        visitor.open()
        statuses = [visitor.post("pay").status_code for _ in range(3)]

    assert statuses == [303, 303, 429]


def test_form_of_70_kb_is_refused(api: Api):
    visitor = create_payer(api)
    large = {"x": "y" * 70_000}

    for path in (visitor.page + "pay", "/t/v/x/", "/sandbox/checkout/x"):
        assert visitor.browser.post(path, large).status_code == 413


def test_script_runs_only_after_a_return(api: Api):
    visitor = create_payer(api)
    visitor.pay()
    assert b"<script" not in visitor.get().content

    visitor.come_back(f"{visitor.page}back/{visitor.checkout.pk}")
    page = visitor.browser.get(visitor.path)

    policy = page["Content-Security-Policy"].split("; ")
    assert {"script-src 'self'", "connect-src 'self'"} <= set(policy)
    assert b"http-equiv" not in page.content
    script = re.search(rb'data-ask="([^"]*)".*?data-state="([^"]*)"', page.content)
    ask = script[1].decode().replace("&amp;", "&")
    assert visitor.browser.get(ask).content == script[2]
    visitor.choose("pay", f"/sandbox/checkout/{visitor.checkout.pk}")
    poll_providers()
    assert visitor.browser.get(ask).content != script[2]
    with open(finders.find("verification/poll.js"), "rb") as file:
        assert len(file.read()) < 512


def test_scripts_and_reversed_names_are_plain_text(api: Api):
    api.workspace.name = f"{TURNED}{SCRIPT}"
    api.workspace.save()
    third = {"paymentMode": "THIRD_PARTY", "payer": {**PAYER, "name": TURNED}}
    visitor = create_payer(api, purpose=TURNED, reference=SCRIPT, **third)

    pages = [visitor.text()]
    at = visitor.pay()
    pages.append(visitor.browser.get(at).content.decode())
    visitor.choose("pay", at)
    poll_providers()
    pages.append(visitor.text())

    for page in pages:
        assert "<script>" not in page
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", page)
        assert "Acme DO NOT PAY" in page
    for page in (pages[0], pages[2]):
        names = page.count("Acme DO NOT PAY")
        assert names == page.count("<bdi>Acme DO NOT PAY") > 2


def test_page_is_small_and_needs_few_queries(api: Api, django_assert_max_num_queries):
    visitor = create_payer(api, checksRequested=["IDENTITY", "KRA_PIN", "CRB_SCORE"])
    visitor.choose("twice")
    poll_providers()
    with django_assert_max_num_queries(7):
        page = visitor.get()

    assert size_of(page) < PAGE_BYTES


def test_pages_are_in_kiswahili(api: Api):
    visitor = create_payer(api, paymentMode="THIRD_PARTY", payer=PAYER)
    visitor.get(lang="sw")

    page = visitor.reads()
    assert "Lipa KES 250.00" in page
    assert "Kitambulisho cha taifa KES 50.00" in page
    visitor.choose("pay", visitor.pay())
    poll_providers()
    assert "Umelipa KES 250.00" in visitor.reads()
    assert visitor.checkout.language == "sw"
