"""Views of the payment page: each calls one verb and redirects to the page.

A payment is paid when the provider confirms it. A browser cannot confirm one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from verification.consents.subject_messages import addresses_of
from verification.documents.receipts import payment_receipt_pdf
from verification.hosted import payment_page
from verification.hosted.blocks import block_page
from verification.hosted.brand import return_context
from verification.hosted.forms import PhoneForm
from verification.hosted.hosted_pages import (
    HostedPages,
    VisitCookie,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.payment_page import (
    PAYABLE,
    STATUS_CODES,
    ProviderReturn,
    Stage,
    stage_of,
)
from verification.payments import checkouts as payment_checkouts
from verification.payments.links import PaymentNotRenewable, payment_links
from verification.payments.models import Checkout, Payment, PaymentStatus, ReviewFlag
from verification.payments.payer_messages import payer_of
from verification.payments.refunds import abandon_payment
from verification.payments.registry import NoPaymentProvider
from verification.values.clock import now
from verification.web.pages import allow_sources, attachment

CHECKOUTS_PER_MINUTE = 30
# The page lists the newest checkouts only.
MAX_CHECKOUTS = 20
UNAVAILABLE = "?unavailable"
TOO_MANY = _("Too many prompts were sent. Try again later, or pay another way")
# The phone may belong to another person, so the error names neither person nor reason.
PHONE_BLOCKED = _(
    "This number takes no prompts from this client. Use another, or pay another way"
)
# At these stages a payer can have a paid part back at once.
PART_PAID_STAGES = {Stage.PART, Stage.SUSPENDED, Stage.SOURCES_CHANGED}
SETTLED = {PaymentStatus.PAID, PaymentStatus.REFUNDED}


@dataclass(frozen=True, slots=True)
class OpenPayment:
    """A payment that this browser has opened by the link of this generation."""

    payment: Payment
    generation: int
    # Checkouts that paid come first, then parts, then the newest.
    checkouts: list[Checkout]
    came_back: ProviderReturn | None
    stage: Stage


def _open_payment(
    request: HttpRequest, payment_id: UUID, generation: int
) -> OpenPayment:
    rows = Payment.objects.select_related("report__workspace")
    payment = rows.get(pk=payment_id)
    checkouts = _checkouts_of(payment)
    if payment.status not in SETTLED and any(c.is_counted for c in checkouts):
        # The payment may have been paid between the two reads.
        payment = rows.get(pk=payment_id)
    came_back = _find_return(request, checkouts)
    has_parts = bool(payment_page.waiting_parts(checkouts))
    stage = stage_of(payment, generation, came_back, now(), has_parts=has_parts)
    is_doubted = any(ReviewFlag.OTHER_CURRENCY in c.review_flags for c in checkouts)
    if stage == Stage.EXAMINED and not is_doubted:
        # The flag was raised between the two reads.
        checkouts = _checkouts_of(payment)
    return OpenPayment(payment, generation, checkouts, came_back, stage)


def _checkouts_of(payment: Payment) -> list[Checkout]:
    found = Checkout.objects.filter(payment_id=payment.pk)
    found = found.order_by("-is_counted", "-is_part", "-id")
    checkouts = list(found.prefetch_related("refunds", "disputes")[:MAX_CHECKOUTS])
    for checkout in checkouts:
        checkout.report = payment.report
    return checkouts


def _find_return(
    request: HttpRequest, checkouts: list[Checkout]
) -> ProviderReturn | None:
    """Return the waiting prompt, or the checkout that the payer comes back from."""
    prompts = (c.reference for c in checkouts if c.is_waiting_prompt)
    reference = next(prompts, None) or request.GET.get("back")
    checkout = next((c for c in checkouts if c.reference == reference), None)
    return ProviderReturn(checkout, payment_page.since(request)) if checkout else None


class PaymentPages(HostedPages[OpenPayment]):
    cookie = VisitCookie("/p/v/", "hosted.payment", seconds=3600)
    over = "payment/over"
    conflicts = (
        payment_checkouts.PaymentClosed,
        PaymentNotRenewable,
        Payment.DoesNotExist,
    )

    def find(self, request: HttpRequest, row: UUID) -> OpenPayment | None:
        generation = self.cookie.value_of(request, row)
        return None if generation is None else _open_payment(request, row, generation)


pages = PaymentPages()
open_link = pages.link_view(Payment)


@pages.read
def show(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Show the page of the payment's stage."""
    return _render_page(
        request, visited, PhoneForm(), STATUS_CODES.get(visited.stage, 200)
    )


def _render_page(
    request: HttpRequest, visited: OpenPayment, form: PhoneForm, status: int = 200
) -> HttpResponse:
    shown = {**_page_context(request, visited), "form": form}
    if visited.payment.status in SETTLED:
        shown |= return_context(shown.get("brand"), visited.payment.report)
    response = render_page(request, f"payment/{visited.stage}", shown, status)
    if visited.stage in PAYABLE:
        environment = visited.payment.report.environment
        allow_sources(response, form_action=[payment_page.checkout_origin(environment)])
    if visited.came_back:
        payment_page.allow_script(response)
    return response


@pages.post_at(*PAYABLE)
def pay(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Redirect to the provider's page. No money moves here."""
    payment = visited.payment
    # The limit is by link, as many phones share one address of their carrier.
    require_rate(f"checkouts:{payment.pk}", CHECKOUTS_PER_MINUTE)
    try:
        checkout = payment_checkouts.open_checkout(payment.pk, visited.generation)
        url = checkout.url or payment_checkouts.open_at_provider(
            checkout, get_language() or "en"
        )
    except (payment_checkouts.CheckoutNotOpened, NoPaymentProvider):
        return pages.redirect(payment.pk, UNAVAILABLE)
    return see_other(url)


@pages.post_at(*PAYABLE)
def send_prompt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Send a prompt to the payer's phone, unless another one waits."""
    payment = visited.payment
    form = PhoneForm(request.POST)
    if not form.is_valid():
        return _render_page(request, visited, form)
    phone, language = form.cleaned_data["phone"], get_language() or "en"
    try:
        checkout = payment_checkouts.open_prompt(
            payment.pk, visited.generation, phone, language
        )
    except payment_checkouts.TooManyPrompts:
        form.add_error("phone", gettext(TOO_MANY))
        return _render_page(request, visited, form, 429)
    except payment_checkouts.PhoneBlocked:
        form.add_error("phone", gettext(PHONE_BLOCKED))
        return _render_page(request, visited, form)
    except (payment_checkouts.CheckoutNotOpened, NoPaymentProvider):
        return pages.redirect(payment.pk, UNAVAILABLE)
    payment_checkouts.send_prompt(checkout)
    return pages.redirect(payment.pk)


@pages.post_at(Stage.PROMPTED)
def abandon_prompt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """End an overdue prompt, so that the payer can pay another way."""
    payment_checkouts.end_overdue_prompt(visited.payment.pk)
    return pages.redirect(visited.payment.pk)


@pages.post_at(*PART_PAID_STAGES)
def refund_parts(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Give the payer their parts back; they do not want to pay the rest."""
    abandon_payment(visited.payment.pk)
    return pages.redirect(visited.payment.pk)


@pages.post_at(Stage.EXPIRED)
def renew_link(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Send a new link; the page then says that this one was replaced."""
    if payment_links.can_visitor_renew(visited.payment.report):
        payment_links.renew(visited.payment.pk)
    return pages.redirect(visited.payment.pk)


@pages.visit_required
def request_link(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Ask the client for a link that the payer cannot renew."""
    if request.method == "POST":
        payment_links.ask_client(visited.payment.pk, visited.generation)
    return pages.redirect(visited.payment.pk)


@pages.visit_required
def block(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    payment = visited.payment
    if visited.stage == Stage.REPLACED:
        return pages.redirect(payment.pk)
    addresses = addresses_of(payer_of(payment.report))
    return block_page(request, payment.report, addresses, pages.path_of(payment.pk))


@pages.read
def receipt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    counted = _counted_checkouts(visited)
    if not counted:
        return pages.redirect(visited.payment.pk)
    checkout = counted[0]
    pdf = payment_receipt_pdf(checkout, get_language() or "en")
    return attachment(pdf, f"receipt-{checkout.number}.pdf")


return_view = payment_page.make_return_view(
    lambda row, checkout, query: f"{pages.path_of(row)}?back={checkout}&{query}"
)


@pages.read
def state(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Answer the script of a waiting page, and poll the provider again."""
    answer = payment_page.state_response(*_state(visited))
    if visited.came_back is None:
        return answer
    return payment_page.poll_again(request, visited.came_back.checkout, answer)


def _page_context(request: HttpRequest, visited: OpenPayment) -> dict[str, Any]:
    payment, counted = visited.payment, _counted_checkouts(visited)
    shown = {
        **payment_page.base_context(
            payment.report.workspace, payment.report.environment
        ),
        **payment_page.order_context(payment, visited.checkouts),
        "payment": payment,
        "path": pages.path_of(payment.pk),
        "stop": visited.stage != Stage.REPLACED
        and reverse("payment:block", args=[payment.pk]),
        "extras": payment_page.extra_payments(visited.checkouts),
        "earlier": payment_page.find_open_checkout(visited.checkouts),
        "latest": max(visited.checkouts, key=lambda c: c.pk, default=None),
        "came_back": visited.came_back,
        "prompt": payment_page.prompt_context(visited.checkouts),
        "query": request.META.get("QUERY_STRING", ""),
        "report": payment.report,
        "state": payment_page.state_response(*_state(visited)).content.decode(),
        "unavailable": "unavailable" in request.GET,
        "too_soon": "too-soon" in request.GET,
        **payment_page.renewal_context(payment, visited.stage),
    }
    if counted:
        shown |= payment_page.receipt_context(payment, counted)
    return shown


def _state(visited: OpenPayment) -> tuple[object, ...]:
    """Return values that change when the page would change."""
    count, came_back = len(visited.checkouts), visited.came_back
    if came_back is None:
        return visited.stage, None, count
    checkout, is_prompted = came_back.checkout, visited.stage == Stage.PROMPTED
    # After "Check now" the page says that nothing is paid yet.
    says_unpaid = is_prompted and came_back.is_polled
    is_overdue = checkout.is_overdue_prompt
    return visited.stage, checkout.status, count, is_overdue, says_unpaid


def _counted_checkouts(visited: OpenPayment) -> list[Checkout]:
    """Return the checkouts that paid a paid payment; the settling one comes first."""
    if visited.stage not in {Stage.PAID, Stage.REFUNDED}:
        return []
    counted = (c for c in visited.checkouts if c.is_counted)
    return sorted(counted, key=lambda c: c.is_part)
