"""The payer, who follows the link, pays, and comes back."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.payments import candidate_item, open_page
from tests.world.subject import Visitor, visible_text
from verification import links
from verification.payments.models import Checkout, Payment, SandboxCheckout
from verification.payments.settlement import poll_due_checkouts
from verification.sandbox.payments import play_choice


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
        """Return the newest checkout."""
        found = Checkout.objects.filter(report_id=self.report_id)
        return found.order_by("-id")[0]

    def pay(self) -> str:
        """Press the button; return the path of the provider's page."""
        answer = self.post("pay")
        assert answer.status_code == 303, answer.content
        return answer["Location"].removeprefix(settings.BASE_URL)

    def choose(self, choice: str, at: str = "") -> str:
        """Choose an outcome at the sandbox's provider; return the path back.

        It does so on this page of the provider, or else by the verbs of the pages,
        which take half of the time.
        """
        if not at:
            checkout = open_page({"id": self.report_id})
            known = SandboxCheckout.objects.get(pk=checkout.reference)
            play_choice(checkout, known, choice)
            back = known.cancel_url if choice == "cancel" else known.return_url
            return back.removeprefix(settings.BASE_URL)
        answer = self.browser.post(at, {"choice": choice})
        assert answer.status_code == 303, answer.content
        return answer["Location"].removeprefix(settings.BASE_URL)

    def come_back(self, path: str) -> str:
        """Follow the path back; return the text of the last page."""
        answer = self.browser.get(path, follow=True)
        self.path = answer.redirect_chain[-1][0] if answer.redirect_chain else path
        return visible_text(answer.content.decode())

    def reload(self) -> str:
        return visible_text(self.browser.get(self.path).content.decode())

    def reads(self, **query: str) -> str:
        return visible_text(self.get(**query).content.decode())


def create_payer(api: Api, **item: Any) -> Payer:
    """Create a report that a payer pays, and open the payment page."""
    made = api.create(candidate_item(**item))
    found = Payer(made["id"])
    found.open()
    return found


def is_due(checkout: Checkout) -> bool:
    """Return whether the checkout is due for a poll."""
    return checkout.next_poll_at is not None and checkout.next_poll_at <= now()


def poll_providers() -> None:
    """Run the job that polls providers."""
    poll_due_checkouts()
