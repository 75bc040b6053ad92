"""The parts that all fake payment providers share: payments, pages, return URLs.

paystack.pay("PR-1")                  # the payer pays, as by the page's button
paystack.fees = 283                   # ... and bears the fees
"""

from abc import abstractmethod
from html import escape

from tests.fakes.server import Answer, FakeServer, Request


class CheckoutServer(FakeServer):
    """A fake payment provider; the subclass makes answers, signatures and pages."""

    def __init__(self) -> None:
        super().__init__()
        # Amount (in cents) and currency of the payment, in place of the requested ones.
        self.pays: int | None = None
        self.currency: str | None = None
        # Refunds are accepted, and fail in `settle_refunds`.
        self.refund_fails = False

    @abstractmethod
    def page(self, request: Request) -> Answer: ...

    @abstractmethod
    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]: ...


def page(title: str, text: str, choices: dict[str, str] | None = None) -> str:
    """Return a checkout page; `choices` are buttons, value -> label."""
    buttons = "".join(
        f'<button name="choice" value="{value}">{escape(label)}</button>\n'
        for value, label in (choices or {}).items()
    )
    form = f'<form method="post">{buttons}</form>' if buttons else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{escape(title)}</title><main><h1>{escape(title)}</h1>"
        f'<p role="status">{escape(text)}</p>{form}</main></html>'
    )


def back(url: str) -> Answer:
    return Answer(302, headers={"Location": url})
