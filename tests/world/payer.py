"""A payer with a browser, without one: follows the link, pays, and comes back."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.payments import candidate
from tests.world.subject import Visitor, words
from verification import links
from verification.payments.models import Checkout, Payment
from verification.payments.settlement import poll_due_checkouts


class Payer(Visitor):
    def __init__(self, report_id: str, **headers: str) -> None:
        self.report_id = report_id
        payment = self.payment
        super().__init__(links.payment_url(payment.pk, payment.generation), **headers)

    @property
    def payment(self) -> Payment:
        return Payment.objects.get(report_id=self.report_id)

    @property
    def checkout(self) -> Checkout:
        """The newest."""
        found = Checkout.objects.filter(report_id=self.report_id)
        return found.order_by("-id")[0]

    def pay(self) -> str:
        """Click the button; the path of the provider's page it leads to."""
        answer = self.post("pay")
        assert answer.status_code == 303, answer.content
        return answer["Location"].removeprefix(settings.BASE_URL)

    def choose(self, choice: str, at: str = "") -> str:
        """Pay in the sandbox; the path that its page sends back to."""
        answer = self.browser.post(at or self.pay(), {"choice": choice})
        assert answer.status_code == 303, answer.content
        return answer["Location"].removeprefix(settings.BASE_URL)

    def come_back(self, path: str) -> str:
        """Follow it; what is read in the end."""
        answer = self.browser.get(path, follow=True)
        self.path = answer.redirect_chain[-1][0] if answer.redirect_chain else path
        return words(answer.content.decode())

    def reload(self) -> str:
        return words(self.browser.get(self.path).content.decode())

    def reads(self, **query: str) -> str:
        return words(self.get(**query).content.decode())


def payer(api: Api, **item: Any) -> Payer:
    """Who was asked to pay, with the page open."""
    made = api.create(candidate(**item))
    found = Payer(made["id"])
    found.open()
    return found


def is_due(checkout: Checkout) -> bool:
    """Whether its provider is to be asked now."""
    return checkout.next_poll_at is not None and checkout.next_poll_at <= now()


def work() -> None:
    """What the jobs do that ask providers."""
    poll_due_checkouts()
