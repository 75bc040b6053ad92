"""A visitor with a top-up link pays into the account and sees no balance."""

from decimal import Decimal
from uuid import uuid4

import pytest
import time_machine
from django.test import Client
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.hosted.test_payment_provider import form_action
from tests.world.clients import Api
from tests.world.payer import is_due, poll_providers
from tests.world.refunds import paystack_api as paystack_api
from tests.world.subject import Visitor, visible_text
from verification import links
from verification.hosted.top_up import AmountForm
from verification.payments.checkouts import PaymentClosed, open_top_up
from verification.payments.models import Checkout, SandboxCheckout
from verification.payments.settlement import MIN_POLL_INTERVAL
from workspaces.models import LedgerEntry

pytestmark = pytest.mark.django_db


def owner(api: Api) -> Visitor:
    visitor = Visitor(links.top_up_url(api.account.pk))
    visitor.open()
    return visitor


def test_suspended_workspace_takes_no_top_up(api: Api):
    visitor = owner(api)
    api.workspace.suspend("fraud")

    page = visible_text(visitor.text())
    answer = visitor.post("", amount="5000")

    assert "This cannot be paid at the moment" in page
    assert "This cannot be paid at the moment" in answer.content.decode()
    api.account.workspace.refresh_from_db()
    with pytest.raises(PaymentClosed, match="SUSPENDED"):
        open_top_up(api.account, Decimal(5000), "owner")
    assert not Checkout.objects.exists()


def paid(visitor: Visitor, choice: str, amount: str = "5000") -> str:
    """Pay by this button of the sandbox; return the page after the payer's return."""
    at = visitor.post("", amount=amount)["Location"]
    back = visitor.browser.post(path_of(at), {"choice": choice})["Location"]
    answer = visitor.browser.get(path_of(back), follow=True)
    visitor.path = (answer.redirect_chain or [(path_of(back), 0)])[-1][0]
    return visible_text(answer.content.decode())


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def reload(visitor: Visitor) -> str:
    return visible_text(visitor.browser.get(visitor.path).content.decode())


def test_page_names_the_account_without_its_balance(api: Api):
    LedgerEntry.objects.all().delete()
    type(api.account).objects.filter(pk=api.account.pk).update(balance=7654)
    api.workspace.contact = "privacy@acacia.test"
    api.workspace.save()

    page = visible_text(owner(api).text())

    for said in (
        "Acacia Lenders",
        "Sandbox, with play money",
        "KES 100.00",
        "privacy@",
    ):
        assert said in page
    assert "7654" not in page.replace(",", "")
    assert "privacy@acacia.test" in page
    assert "owner@acacia.test" not in page
    type(api.account).objects.filter(pk=api.account.pk).update(balance=0)


def test_amount_is_read_as_people_write_it(api: Api):
    for typed in ("5000", "5,000", "5 000.00", " 5000.0 "):
        form = AmountForm(api.account, {"amount": typed})

        assert form.is_valid(), typed
        assert form.cleaned_data["amount"] == 5000


def test_top_up_raises_the_balance(api: Api):
    visitor = owner(api)

    # The return replaces a lost event.
    assert "We are asking whether you have paid" in paid(visitor, "lost", "5,000")
    poll_providers()

    page = reload(visitor)
    assert "KES 5,000.00 was added to the balance of Acacia Lenders" in page
    (entry,) = LedgerEntry.objects.all()
    assert (entry.kind, entry.amount) == ("TOP_UP", Decimal(5000))
    assert entry.actor == "top-up page"
    assert Checkout.objects.get().number in page


def test_failed_top_up_adds_nothing(api: Api):
    visitor = owner(api)

    paid(visitor, "fail")
    poll_providers()

    assert "The payment failed" in reload(visitor)
    assert not LedgerEntry.objects.exists()


def test_top_up_in_another_currency_waits_for_review(api: Api):
    visitor = owner(api)

    paid(visitor, "pay")
    SandboxCheckout.objects.update(currency="USD")
    poll_providers()

    page = reload(visitor)
    assert "A person looks at your payment" in page
    assert "USD 5,000.00 came in, and not KES 5,000.00" in page
    # Nobody pays again beside that.
    assert "Top up once more" not in page
    assert not LedgerEntry.objects.exists()


@pytest.mark.parametrize(
    ("choice", "came"), [("more", "KES 5,001.00"), ("less", "KES 2,500.00")]
)
def test_top_up_of_another_amount_adds_the_paid_amount(api: Api, choice, came):
    visitor = owner(api)

    paid(visitor, choice)
    poll_providers()

    page = reload(visitor)
    assert f"{came} was added to the balance" in page
    assert "You were asked for KES 5,000.00" in page
    assert LedgerEntry.objects.get().amount == Checkout.objects.get().paid_amount


def test_return_without_payment_says_so(api: Api):
    visitor = owner(api)
    visitor.post("", amount="5000")
    back = f"{visitor.page}back/{Checkout.objects.get().pk}"

    answer = visitor.browser.get(back, follow=True)
    visitor.path = answer.redirect_chain[-1][0]
    poll_providers()

    assert "Not paid yet" in reload(visitor)
    assert not LedgerEntry.objects.exists()


def test_invalid_amount_is_an_error(api: Api):
    for typed, error in [
        ("", "Enter an amount"),
        ("lots", "Enter the amount in numbers"),
        ("1e5", "Enter the amount in numbers"),
        ("NaN", "Enter the amount in numbers"),
        ("٢٣٢٣", "Enter the amount in numbers"),
        ("-5000", "Enter the amount in numbers"),
        ("100.001", "Enter the amount in numbers"),
        ("1500,50", "Enter the amount in numbers"),
        ("1,50", "Enter the amount in numbers"),
        ("5000\0", "Null characters"),
        ("99.99", "Enter at least KES\N{NO-BREAK SPACE}100.00"),
        ("1000000.01", "Enter at most KES\N{NO-BREAK SPACE}1,000,000.00"),
        ("9" * 50, "at most 20"),
    ]:
        (told,) = AmountForm(api.account, {"amount": typed}).errors["amount"]
        assert error in told, typed


def test_invalid_amount_shows_the_form_again(api: Api):
    page = owner(api).post("", amount="lots").content.decode()

    assert "<title>Error: " in page
    assert page.count("Enter the amount in numbers") == 2
    assert 'href="#id_amount"' in page
    assert not Checkout.objects.exists()


def test_link_leads_to_no_other_account(api: Api, live_api: Api):
    token = links.top_up_url(api.account.pk).rpartition("/")[2]
    gone = uuid4()

    for path in (
        f"{live_api.account.pk}/{token}",
        f"{gone}/{token}",
        f"{gone}/{links.token('top-up', gone, 1)}",
    ):
        assert Client().get(f"/t/{path}").status_code == 404


def test_visit_opens_no_other_account_and_shows_no_other_checkout(
    api: Api, another_api: Api
):
    mine, another = owner(api), owner(another_api)
    another.post("", amount="777")
    checkout = Checkout.objects.get()
    assert b"777.00" in another.get(f"paid?back={checkout.pk}").content
    stranger = Client()
    stranger.cookies["visit"] = mine.browser.cookies["visit"].value

    assert stranger.get(another.page).status_code == 403
    for query in (f"paid?back={checkout.pk}", "paid?back=x", "paid"):
        answer = mine.browser.get(mine.page + query, follow=True)
        assert b"777.00" not in answer.content
    assert mine.get("state", back=str(checkout.pk)).content == b"unknown"


def test_get_requests_open_nothing(api: Api):
    visitor = owner(api)

    for place in ("", "paid", "state", "?amount=5000", f"back/{uuid4()}"):
        visitor.get(place)
        visitor.browser.head(visitor.page + place)

    assert not Checkout.objects.exists()


def test_real_money_is_paid_at_the_real_provider(
    paystack_api: Api, paystack: FakePaystack
):
    visitor = owner(paystack_api)
    page = visitor.get()
    assert form_action(page) == f"'self' {paystack.url}"
    assert b"Production" in page.content
    assert b"This is a test" not in page.content

    at = visitor.post("", amount="5000")["Location"]
    assert at.startswith(paystack.url)
    paystack.faults.status = 500
    answer = visitor.browser.post(visitor.page, {"amount": "5000"}, follow=True)
    assert b"could not be opened. Nothing was taken" in answer.content
    assert b"<title>Error: " in answer.content


def test_pages_are_in_kiswahili(api: Api):
    visitor = owner(api)
    visitor.get(lang="sw")

    assert "Ongeza salio la Acacia Lenders" in visible_text(visitor.text())
    assert "Andika kiasi" in visitor.post("", amount="").content.decode()


def test_waiting_payer_sees_the_result_of_the_poll(api: Api):
    visitor = owner(api)
    visitor.post("", amount="5000")
    back = f"{visitor.page}back/{Checkout.objects.get().pk}"
    path = visitor.browser.get(back)["Location"]
    shall_reload = visitor.script(path)
    assert not shall_reload()
    poll_providers()

    with time_machine.travel(now() + 2 * MIN_POLL_INTERVAL):
        assert shall_reload()
        assert not is_due(Checkout.objects.get())
        page = visible_text(visitor.browser.get(path).content.decode())
        assert "Nothing has been paid so far" in page
        # That page continues to poll.
        assert not visitor.script(path)()
        assert is_due(Checkout.objects.get())
