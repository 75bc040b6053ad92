"""The pages of a payment link: look up, call one verb, lead back to the page.

What is paid is only what the provider says; nothing that a browser brings counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _
from django.views.decorators.http import require_safe

from verification import links
from verification.consents.messages import addresses_of
from verification.consents.models import RetiredLink
from verification.documents.receipts import payment_receipt_pdf
from verification.hosted import payment_page
from verification.hosted import payment_page as context
from verification.hosted.blocks import block_page
from verification.hosted.forms import PhoneForm
from verification.hosted.pages import (
    VisitCookie,
    hosted,
    make_visit_required,
    render_page,
    retired_link,
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
from verification.payments.messages import payer_of
from verification.payments.models import Checkout, Payment, PaymentStatus, ReviewFlag
from verification.payments.refunds import abandon_payment
from verification.payments.registry import NoPaymentProvider
from verification.web.security_policy import allow
from workspaces import rate_limits

COOKIE = VisitCookie("/p/v/", "hosted.payment", seconds=3600)
CHECKOUTS_PER_MINUTE = 30
# The newest; nobody opens more, and a page shows no end of them.
MAX_CHECKOUTS = 20
UNAVAILABLE = "?unavailable"
TOO_MANY = _("Too many prompts were sent. Try again later, or pay another way")
# The phone may be somebody else's: neither who blocked the client nor why is said.
PHONE_BLOCKED = _(
    "This number takes no prompts from this client. Use another, or pay another way"
)
# At these a payer who paid a part can have it back at once.
PART_PAID_STAGES = {Stage.PART, Stage.SUSPENDED, Stage.SOURCES_CHANGED}
SETTLED = {PaymentStatus.PAID, PaymentStatus.REFUNDED}


@dataclass(frozen=True, slots=True)
class OpenPayment:
    """A payment, opened by the link of this generation in this browser."""

    payment: Payment
    generation: int
    # First those that paid, and parts that are kept; then the newest.
    checkouts: list[Checkout]
    came_back: ProviderReturn | None
    stage: Stage


def _open_payment(request: HttpRequest, payment_id: UUID) -> OpenPayment | None:
    generation = COOKIE.value_of(request, payment_id)
    if generation is None:
        return None
    rows = Payment.objects.select_related("report__workspace")
    payment = rows.get(pk=payment_id)
    checkouts = _checkouts_of(payment)
    if payment.status not in SETTLED and any(one.is_counted for one in checkouts):
        # It may have been paid between the two looks.
        payment = rows.get(pk=payment_id)
    came_back = _find_return(request, checkouts)
    has_parts = bool(context.waiting_parts(checkouts))
    stage = stage_of(payment, generation, came_back, now(), has_parts=has_parts)
    is_doubted = any(ReviewFlag.OTHER_CURRENCY in one.review_flags for one in checkouts)
    if stage == Stage.EXAMINED and not is_doubted:
        # It came between the two looks.
        checkouts = _checkouts_of(payment)
    return OpenPayment(payment, generation, checkouts, came_back, stage)


def _checkouts_of(payment: Payment) -> list[Checkout]:
    found = Checkout.objects.filter(payment_id=payment.pk)
    found = found.order_by("-is_counted", "-is_part", "-id")
    checkouts = list(found.prefetch_related("refunds", "disputes")[:MAX_CHECKOUTS])
    for one in checkouts:
        one.report = payment.report
    return checkouts


def _find_return(
    request: HttpRequest, checkouts: list[Checkout]
) -> ProviderReturn | None:
    """Of the prompt that waits, if any, however its payer has come here."""
    prompts = (one.reference for one in checkouts if one.is_waiting_prompt)
    left = next(prompts, None) or request.GET.get("back")
    mine = (one for one in checkouts if one.reference == left)
    checkout = next(mine, None)
    return ProviderReturn(checkout, payment_page.since(request)) if checkout else None


visit_required = make_visit_required(
    COOKIE,
    _open_payment,
    over="payment/over",
    overtaken=(
        payment_checkouts.PaymentClosed,
        PaymentNotRenewable,
        Payment.DoesNotExist,
    ),
)


@require_safe
@hosted
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    digest = links.digest(token)
    found = Payment.objects.filter(token_digest=digest).only("id", "generation")
    if payment := found.first():
        return _redirect_with_visit(payment.pk, payment.generation)
    if retired := retired_link(RetiredLink.Purpose.PAYMENT, digest):
        return _redirect_with_visit(retired.row_id, retired.generation)
    return render_page(request, "unknown", status=404)


@require_safe
@visit_required
def show(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """The page of the stage that the payment is at."""
    return _render_page(
        request, visited, PhoneForm(), STATUS_CODES.get(visited.stage, 200)
    )


def _render_page(
    request: HttpRequest, visited: OpenPayment, form: PhoneForm, status: int = 200
) -> HttpResponse:
    shown = {**_page_context(request, visited), "form": form}
    response = render_page(request, f"payment/{visited.stage}", shown, status)
    if visited.stage in PAYABLE:
        environment = visited.payment.report.environment
        allow(response, form_action=[context.checkout_origin(environment)])
    if visited.came_back:
        payment_page.allow_script(response)
    return response


@visit_required
def pay(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """To the provider's page. Nothing is taken here, however often it is asked."""
    payment = visited.payment
    if request.method != "POST" or visited.stage not in PAYABLE:
        return redirect_to_page(payment.pk)
    # By link: many phones share one address of their carrier.
    if rate_limits.count(f"checkouts:{payment.pk}", CHECKOUTS_PER_MINUTE).exceeded:
        return render_page(request, "too_many", status=429)
    try:
        checkout = payment_checkouts.open_checkout(payment.pk, visited.generation)
        url = checkout.url or payment_checkouts.open_at_provider(
            checkout, get_language() or "en"
        )
    except (payment_checkouts.CheckoutNotOpened, NoPaymentProvider):
        return redirect_to_page(payment.pk, UNAVAILABLE)
    return see_other(url)


@visit_required
def send_prompt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Have a prompt sent to the payer's phone. While one waits no other is sent."""
    payment = visited.payment
    if request.method != "POST" or visited.stage not in PAYABLE:
        return redirect_to_page(payment.pk)
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
        return redirect_to_page(payment.pk, UNAVAILABLE)
    payment_checkouts.send_prompt(checkout)
    return redirect_to_page(payment.pk)


@visit_required
def abandon_prompt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Back to the ways to pay, from a prompt that is overdue."""
    if request.method == "POST" and visited.stage == Stage.PROMPTED:
        payment_checkouts.end_overdue_prompt(visited.payment.pk)
    return redirect_to_page(visited.payment.pk)


@visit_required
def refund_parts(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """All that came of less than was asked for, instead of the rest."""
    if request.method == "POST" and visited.stage in PART_PAID_STAGES:
        abandon_payment(visited.payment.pk)
    return redirect_to_page(visited.payment.pk)


@visit_required
def renew_link(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """The page then says that this link was replaced."""
    is_asked = request.method == "POST" and visited.stage == Stage.EXPIRED
    if is_asked and payment_links.can_visitor_renew(visited.payment.report):
        payment_links.renew(visited.payment.pk)
    return redirect_to_page(visited.payment.pk)


@visit_required
def request_link(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """For a link in place of one that neither we nor the payer can renew."""
    if request.method == "POST":
        payment_links.ask_client(visited.payment.pk, visited.generation)
    return redirect_to_page(visited.payment.pk)


@visit_required
def block(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    payment = visited.payment
    if visited.stage == Stage.REPLACED:
        return redirect_to_page(payment.pk)
    addresses = addresses_of(payer_of(payment.report))
    return block_page(request, payment.report, addresses, COOKIE.path_of(payment.pk))


@require_safe
@visit_required
def receipt(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    counted = _counted_checkouts(visited)
    if not counted:
        return redirect_to_page(visited.payment.pk)
    checkout = counted[0]
    pdf = payment_receipt_pdf(checkout, get_language() or "en")
    name = f"receipt-{checkout.number}.pdf"
    return HttpResponse(
        pdf,
        content_type="application/pdf",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


return_view = payment_page.make_return_view(
    lambda row, checkout, query: f"{COOKIE.path_of(row)}?back={checkout}&{query}"
)


@require_safe
@visit_required
def state(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """For the script of who waits; has the provider asked again as well."""
    told = payment_page.state_response(*_state(visited))
    left = visited.came_back
    return payment_page.poll_again(request, left.checkout, told) if left else told


def redirect_to_page(payment_id: UUID, query: str = "") -> HttpResponse:
    return see_other(COOKIE.path_of(payment_id) + query)


def _redirect_with_visit(payment_id: UUID, generation: int) -> HttpResponse:
    response = redirect_to_page(payment_id)
    COOKIE.remember(response, payment_id, generation)
    return response


def _page_context(request: HttpRequest, visited: OpenPayment) -> dict[str, Any]:
    payment, counted = visited.payment, _counted_checkouts(visited)
    shown = {
        **context.base_context(payment.report),
        **context.order_context(payment, visited.checkouts),
        "payment": payment,
        "path": COOKIE.path_of(payment.pk),
        "stop": visited.stage != Stage.REPLACED
        and reverse("payment:block", args=[payment.pk]),
        "extras": context.extra_payments(visited.checkouts),
        "earlier": context.find_open_checkout(visited.checkouts),
        "latest": max(visited.checkouts, key=lambda one: one.pk, default=None),
        "came_back": visited.came_back,
        "prompt": context.prompt_context(visited.checkouts),
        "query": request.META.get("QUERY_STRING", ""),
        "report": payment.report,
        "state": payment_page.state_response(*_state(visited)).content.decode(),
        "unavailable": "unavailable" in request.GET,
        "too_soon": "too-soon" in request.GET,
        **context.renewal_context(payment, visited.stage),
    }
    return {**shown, **context.receipt_context(payment, counted)} if counted else shown


def _state(visited: OpenPayment) -> tuple[object, ...]:
    """Changes when the page would be another one."""
    count, came_back = len(visited.checkouts), visited.came_back
    if came_back is None:
        return visited.stage, None, count
    left, is_prompted = came_back.checkout, visited.stage == Stage.PROMPTED
    # The payer who pressed "Check now" is told that nothing was paid yet.
    is_told = is_prompted and came_back.is_polled
    return visited.stage, left.status, count, left.is_overdue_prompt, is_told


def _counted_checkouts(visited: OpenPayment) -> list[Checkout]:
    """The checkouts whose money paid, where it is paid; first the one that settled."""
    if visited.stage not in {Stage.PAID, Stage.REFUNDED}:
        return []
    counted = (one for one in visited.checkouts if one.is_counted)
    return sorted(counted, key=lambda one: one.is_part)
