"""What the fake payment providers share: what is paid, pages, and their way back.

paystack.pay("PR-1")                  # the payer pays, as by the page's button
paystack.fees = 283                   # ... and bears the fees
"""

from abc import abstractmethod
from html import escape

from tests.fakes.server import Answer, FakeServer, Request


class CheckoutServer(FakeServer):
    """A fake payment provider; the subclass says what it answers, signs and shows."""

    def __init__(self) -> None:
        super().__init__()
        # What is paid instead of the amount asked for, in cents, and its currency.
        self.pays: int | None = None
        self.currency: str | None = None
        # Refunds are taken, and come to nothing when `settle_refunds` is called.
        self.refund_fails = False

    @abstractmethod
    def page(self, request: Request) -> Answer: ...

    @abstractmethod
    def sign(self, body: bytes, secret: str | None = None) -> dict[str, str]: ...


def page(title: str, told: str, choices: dict[str, str] | None = None) -> str:
    """A checkout page; `choices` are buttons, value -> label."""
    buttons = "".join(
        f'<button name="choice" value="{value}">{escape(label)}</button>\n'
        for value, label in (choices or {}).items()
    )
    form = f'<form method="post">{buttons}</form>' if buttons else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{escape(title)}</title><main><h1>{escape(title)}</h1>"
        f'<p role="status">{escape(told)}</p>{form}</main></html>'
    )


def back(url: str) -> Answer:
    return Answer(302, headers={"Location": url})
