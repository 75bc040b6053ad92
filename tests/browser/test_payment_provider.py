"""Payers of real money go to the provider's pages and come back."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_consent import sees
from tests.browser.test_payment import POLLED_MS, expect_heading, link_of, reloaded
from tests.fakes.paystack import FakePaystack
from tests.service.conftest import Client
from tests.world.employer import employment_item

pytestmark = pytest.mark.slow

DUE = "Pay KES 500.00"
BY_PAGE, BY_PROMPT = "Pay another way", f"{DUE} by M-Pesa"
# A check that needs no source: this installation has none.
ORDER = {
    **employment_item(email="w@subject.test"),
    "paymentMode": "CANDIDATE",
    "reuse": False,
}

PROMPTED = "Type your M-Pesa PIN on your phone"


@pytest.fixture(scope="module")
def paystack():
    with FakePaystack() as fake:
        yield fake


@pytest.fixture(autouse=True)
def nothing_from_elsewhere(browser, service, paystack, monkeypatch):
    """Allow requests to the provider's pages only, as the security policy does."""
    asked, refused = [], []
    new_context = browser.new_context

    def watched(**arguments):
        context = new_context(**arguments)
        context.on("request", lambda request: asked.append(request.url))
        context.on("console", lambda message: refused.append(message.text))
        return context

    monkeypatch.setattr(browser, "new_context", watched)
    yield
    ours = (service.url, paystack.url)
    assert [url for url in asked if not url.startswith(ours)] == []
    assert [text for text in refused if "Content Security" in text] == []


@pytest.fixture(scope="module")
def shop(service, paystack):
    """Return a client of an installation that takes payments by Paystack."""
    with service.changed(
        PAYMENT_PROVIDER="paystack",
        PAYSTACK_SECRET_KEY=paystack.key,
        PAYSTACK_URL=paystack.url,
        PAYSTACK_CHECKOUT_URL=paystack.url,
        PAYSTACK_FALLBACK_EMAIL="pay.example.org",
        PAYMENT_DEV_HOSTS=paystack.host,
    ):
        yield Client(service, "production")


def test_payer_pays_on_the_pages_of_paystack(page, shop, paystack):
    report = shop.order(ORDER)[0]
    page.goto(link_of(report))
    sees(page, DUE)
    expect(page.get_by_text("You pay on the page of Paystack")).to_be_visible()

    page.get_by_role("button", name=BY_PAGE).click()
    page.wait_for_url(f"{paystack.url}/**")
    page.get_by_role("button", name="Fail").click()
    page.get_by_role("button", name="Pay").click()

    expect_heading(page, "You paid KES 500.00")
    expect(page.get_by_text("(Paystack)").first).to_be_visible()
    assert shop.get(f"/reports/{report['id']}").json()["paymentState"]["status"] == (
        "PAID"
    )


def test_payer_pays_by_an_mpesa_prompt(page, shop, paystack):
    report = shop.order(ORDER)[0]
    page.goto(link_of(report))
    page.get_by_label("Your M-Pesa number").fill("0712 345")
    page.get_by_role("button", name=BY_PROMPT).click()
    page.get_by_role("link", name="Enter a Kenyan mobile number").click()
    expect(page.get_by_label("Your M-Pesa number")).to_be_focused()

    page.get_by_label("Your M-Pesa number").fill("0712 345 678")
    page.get_by_role("button", name=BY_PROMPT).click()
    sees(page, PROMPTED)
    expect(page.get_by_text("A prompt was sent to +254••••678")).to_be_visible()
    # By the script alone.
    paystack.end_prompt([*paystack.transactions][-1], "Request cancelled by user")
    expect_heading(page, "The payment failed")
    expect(page.get_by_text("The prompt was cancelled on the phone.")).to_be_visible()

    page.get_by_role("link", name="Kiswahili").click()
    page.get_by_label("Nambari yako ya M-Pesa").fill("0712 345 678")
    page.get_by_role("button", name="Lipa KES 500.00 kwa M-Pesa").click()
    sees(page, "Andika PIN yako ya M-Pesa kwenye simu yako")
    page.get_by_role("link", name="English").click()
    page.get_by_role("link", name="Check now").click()
    expect(page.get_by_text("Not paid yet.")).to_be_visible(timeout=POLLED_MS)
    paystack.pay([*paystack.transactions][-1])
    expect_heading(page, "You paid KES 500.00")


def test_prompt_needs_no_script(browser, shop, paystack):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    report = shop.order(ORDER)[0]
    page.goto(link_of(report))
    page.get_by_label("Your M-Pesa number").fill("0712 345 678")
    page.get_by_role("button", name=BY_PROMPT).click()
    sees(page, PROMPTED)
    paystack.pay([*paystack.transactions][-1])

    page.get_by_role("link", name="Check now").click()
    reloaded(page, "You paid KES 500.00")
    context.close()
