"""The payment page: its stages, its views, and the context of each.

Each view calls one verb and redirects to the page. A payment is paid when the provider
confirms it. A browser cannot confirm one: the return from a provider's page polls the
provider and redirects to the page, whose query `since` is the time of the return.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _
from django.views.decorators.http import require_safe

from verification import links
from verification.checks.models import ordered_results
from verification.consents.models import is_consent_refused
from verification.consents.subject_messages import addresses_of, is_reachable
from verification.documents.receipts import payment_receipt_pdf
from verification.hosted.blocks import block_page
from verification.hosted.brand import return_context
from verification.hosted.forms import PhoneForm
from verification.hosted.hosted_pages import (
    HostedPages,
    View,
    VisitCookie,
    client_context,
    hosted,
    initials,
    qr_code,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.templatetags.bdi import bdi
from verification.notifications.models import Kind
from verification.payments import checkouts as payment_checkouts
from verification.payments.checkouts import SOURCES_CHANGED, closed_reason
from verification.payments.links import PaymentNotRenewable, payment_links
from verification.payments.models import (
    UNFINISHED_STATUSES,
    Checkout,
    CheckoutStatus,
    DisputeStatus,
    Payment,
    PaymentStatus,
    RefundStatus,
    ReviewFlag,
)
from verification.payments.payer_messages import payer_of, receipt_of
from verification.payments.refunds import (
    abandon_payment,
    is_left_to_staff,
    unfinished_part,
)
from verification.payments.registry import (
    LABELS,
    NoPaymentProvider,
    can_prompt,
    checkout_provider,
    payment_methods,
)
from verification.payments.settlement import is_being_polled, poll_soon
from verification.providers.payment_provider import PaymentMethod, PromptFailure
from verification.reports.hosted_links import link_end
from verification.reports.models import PaymentMode, ReportStatus
from verification.values.clock import now
from verification.values.masking import mask_end
from verification.web.pages import allow_sources, attachment
from workspaces.models import Environment, Workspace


class Stage(StrEnum):
    DUE = "due"
    # The payer has paid a part.
    PART = "part"
    # A person reviews a checkout.
    EXAMINED = "examined"
    WAITS = "waits"
    # The payer has come back, and no poll has ended since.
    CONFIRMING = "confirming"
    # An M-Pesa prompt waits on the payer's phone.
    PROMPTED = "prompted"
    FAILED = "failed"
    PAID = "paid"
    REFUNDED = "refunded"
    EXPIRED = "expired"
    SUSPENDED = "suspended"
    # A check has lost the sources that the subject agreed to.
    SOURCES_CHANGED = "sources_changed"
    REPLACED = "replaced"
    ENDED = "ended"


# Result of `closed_reason` -> stage; for any other result the report has ended.
STAGE_BY_CLOSURE = {
    "WAITS_FOR_CONSENT": Stage.WAITS,
    "REPLACED": Stage.REPLACED,
    PaymentStatus.EXPIRED: Stage.EXPIRED,
    "SUSPENDED": Stage.SUSPENDED,
    SOURCES_CHANGED: Stage.SOURCES_CHANGED,
    "EXAMINED": Stage.EXAMINED,
}
# Statuses of pages whose link takes no payment; other pages have 200.
STATUS_CODES = {Stage.EXPIRED: 410, Stage.REPLACED: 410, Stage.ENDED: 410}
# Stages whose page has the button to pay.
PAYABLE = frozenset({Stage.DUE, Stage.PART, Stage.FAILED})
POLLED_STAGES = PAYABLE | {Stage.EXPIRED, Stage.SUSPENDED, Stage.SOURCES_CHANGED}


@dataclass(frozen=True, slots=True)
class ProviderReturn:
    """The return of a payer from a checkout, at the time `since`."""

    checkout: Checkout
    since: datetime

    @property
    def is_polled(self) -> bool:
        """Return whether a poll has ended after the payer came back."""
        polled_at = self.checkout.polled_at
        return polled_at is not None and polled_at >= self.since

    @property
    def is_asked(self) -> bool:
        """Return whether a poll is under way or about to start."""
        checkout = self.checkout
        # A payer may answer a prompt at the last moment.
        can_change = checkout.failure in {"", PromptFailure.TIMED_OUT}
        is_unfinished = checkout.status in UNFINISHED_STATUSES
        if not (can_change and is_unfinished and checkout.next_poll_at):
            return False
        is_due = not self.is_polled or bool(checkout.unanswered)
        return is_due or is_being_polled(checkout)


def stage_of(
    payment: Payment,
    generation: int,
    came_back: ProviderReturn | None,
    at: datetime,
    *,
    has_parts: bool = False,
) -> Stage:
    # A paid payment shows as paid by every link, also by a replaced one.
    if payment.status == PaymentStatus.PAID:
        return Stage.PAID
    if payment.status == PaymentStatus.REFUNDED:
        return Stage.REFUNDED
    if reason := closed_reason(payment.report, payment, generation, at):
        stage = STAGE_BY_CLOSURE.get(reason, Stage.ENDED)
    elif has_parts:
        stage = Stage.PART
    else:
        is_failed = payment.status == PaymentStatus.FAILED
        stage = Stage.FAILED if is_failed else Stage.DUE
    if came_back and stage in POLLED_STAGES:
        if came_back.checkout.is_waiting_prompt:
            return Stage.PROMPTED
        if came_back.is_asked:
            return Stage.CONFIRMING
    return stage


# Names of checks for the translators. Staff may rename a check: the page shows that.
CHECKS = (
    _("National identity"),
    _("KRA PIN"),
    _("Employer reference"),
    _("Business registration"),
    _("CRB score"),
    _("CRB standard report"),
    _("CRB full report"),
    _("Credit bureau score"),
    _("Credit bureau status"),
    _("Credit bureau company report"),
    _("Sanctions and watch lists"),
)
# Item on a receipt of a top-up, from `payments.payer_messages`, for the translators.
RECEIPT_ITEMS = (_("Top-up of the balance"),)
# Methods of the provider's page -> their names in a sentence.
PAYMENT_METHODS = {
    (PaymentMethod.MPESA, PaymentMethod.CARD): _("M-Pesa or a card"),
    (PaymentMethod.CARD,): _("a card"),
    (PaymentMethod.MPESA,): _("M-Pesa"),
}
DESCRIPTIONS = (_("Verification report for %(name)s"), _("Top-up for %(name)s"))


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
    has_parts = bool(waiting_parts(checkouts))
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
    return ProviderReturn(checkout, since(request)) if checkout else None


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
        allow_sources(response, form_action=[checkout_origin(environment)])
    if visited.came_back:
        allow_script(response)
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


# Milliseconds of any time up to the year 2286 have fewer.
MAX_TIMESTAMP_DIGITS = 14
SCRIPTS = {"script_src": ["'self'"], "connect_src": ["'self'"]}


def make_return_view(page: Callable[[UUID, UUID, str], str]) -> View:
    """Return the view of a payer's return; `page(row, checkout, query)` is its URL."""

    @require_safe
    @hosted
    def view(request: HttpRequest, row: UUID, checkout: UUID) -> HttpResponse:
        at = now()
        if not poll_soon(checkout):
            # The last poll is seconds old: show its result.
            rows = Checkout.objects.filter(pk=checkout)
            at = rows.values_list("polled_at", flat=True).first() or at
        return see_other(page(row, checkout, f"since={int(at.timestamp() * 1000)}"))

    return view


return_view = make_return_view(
    lambda row, checkout, query: f"{pages.path_of(row)}?back={checkout}&{query}"
)


@pages.read
def state(request: HttpRequest, visited: OpenPayment) -> HttpResponse:
    """Answer the script of a waiting page, and poll the provider again."""
    answer = state_response(*_state(visited))
    if visited.came_back is None:
        return answer
    return poll_again(request, visited.came_back.checkout, answer)


def _page_context(request: HttpRequest, visited: OpenPayment) -> dict[str, Any]:
    payment, counted = visited.payment, _counted_checkouts(visited)
    open_checkouts = (
        c for c in visited.checkouts if c.status == CheckoutStatus.OPEN and c.url
    )
    shown = {
        **base_context(payment.report.workspace, payment.report.environment),
        **order_context(payment, visited.checkouts),
        "payment": payment,
        "path": pages.path_of(payment.pk),
        "stop": visited.stage != Stage.REPLACED
        and reverse("payment:block", args=[payment.pk]),
        "extras": extra_payments(visited.checkouts),
        # A checkout that the payer has left without a known outcome
        "earlier": next(open_checkouts, None),
        "latest": max(visited.checkouts, key=lambda c: c.pk, default=None),
        "came_back": visited.came_back,
        "prompt": prompt_context(visited.checkouts),
        "query": request.META.get("QUERY_STRING", ""),
        "report": payment.report,
        "state": state_response(*_state(visited)).content.decode(),
        "unavailable": visited.stage in PAYABLE and UNAVAILABLE[1:] in request.GET,
        "too_soon": "too-soon" in request.GET,
        **renewal_context(payment, visited.stage),
    }
    if counted:
        shown |= receipt_context(payment, counted)
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


def format_money(amount: Decimal | None, currency: str) -> str:
    # The space does not break, so that currency and amount stay on one line.
    return f"{currency}\N{NO-BREAK SPACE}{amount or 0:,.2f}"


def _price_line(name: str, price: Decimal, currency: str) -> tuple[str, str]:
    """Return name and agreed price of a check; "" for one that reuses a result."""
    return gettext(name), format_money(price, currency) if price else ""


def base_context(workspace: Workspace, environment: str) -> dict[str, Any]:
    return {
        **client_context(workspace, environment),
        "is_play": environment == Environment.SANDBOX,
    }


def order_context(payment: Payment, checkouts: list[Checkout]) -> dict[str, Any]:
    """Return what the payer pays for, and by when."""
    report = payment.report
    came = sum((part.refundable for part in waiting_parts(checkouts)), Decimal(0))
    return {
        "amount": format_money(payment.amount, payment.currency),
        "came": format_money(came, payment.currency),
        "has_parts": came > 0,
        "missing": format_money(payment.amount - came, payment.currency),
        "checks": [
            _price_line(row.definition.display_name, row.price, payment.currency)
            for row in ordered_results(report)
        ],
        "purpose": report.purpose,
        "reference": report.reference,
        # Only a third party needs them.
        "about": initials(report.subject_name)
        if report.payment_mode == PaymentMode.THIRD_PARTY
        else "",
        "expires_at": link_end(payment),
        "provider": provider_label(report.environment),
        "ways": payment_methods_text(report.environment),
        "can_prompt": can_prompt(
            report.environment, payment.amount - came, payment.currency
        ),
    }


def provider_label(environment: str) -> str | None:
    """Return the provider's name; "" in the sandbox, None if there is no provider."""
    try:
        name = checkout_provider(environment).name
    except NoPaymentProvider:
        return None
    return LABELS.get(name, "")


def payment_methods_text(environment: str) -> str:
    """Return the provider's methods as part of a sentence; "" in the sandbox."""
    text = PAYMENT_METHODS.get(payment_methods(environment))
    return gettext(text) if text else ""


def checkout_origin(environment: str) -> str:
    """Return the origin of the provider's page, for the form-action policy.

    Chromium applies the policy to redirects of a form as well.
    """
    try:
        origin = checkout_provider(environment).checkout_origin
    except NoPaymentProvider:
        origin = ""
    base = urlsplit(settings.BASE_URL)
    return origin or f"{base.scheme}://{base.netloc}"


def prompt_context(checkouts: list[Checkout]) -> dict[str, Any] | None:
    """Return the prompt that waits on the payer's phone, if there is one."""
    prompt = next((c for c in checkouts if c.is_waiting_prompt), None)
    if prompt is None:
        return None
    return {
        "checkout": prompt,
        # Masked, as other people may have the link too.
        "phone": f"+254{mask_end(str(prompt.phone or ''), 3)}",
        "amount": format_money(prompt.amount, prompt.currency),
        "is_sent": bool(prompt.session),
        "is_overdue": prompt.is_overdue_prompt,
        "ends_at": prompt.prompt_ends_at,
    }


def waiting_parts(checkouts: list[Checkout]) -> list[Checkout]:
    """Return the parts whose rest is unpaid."""
    return [c for c in checkouts if c.is_part and not c.is_counted]


def extra_payments(checkouts: list[Checkout]) -> list[dict[str, Any]]:
    """Return the payments that do not count towards the amount."""
    return [
        {
            "number": checkout.number,
            "amount": format_money(checkout.paid_amount, checkout.paid_currency),
            "is_other": checkout.paid_currency != checkout.currency,
            "is_short": (checkout.paid_amount or Decimal(0)) < checkout.amount,
            "given_back": refund_lines(checkout),
            "left": unreturned_amounts(checkout),
        }
        for checkout in checkouts
        if checkout.status == CheckoutStatus.PAID
        and not (checkout.is_counted or checkout.is_part)
    ]


def refund_lines(checkout: Checkout) -> list[dict[str, Any]]:
    """Return the refunds that are on their way to the payer, or done."""
    shown = {RefundStatus.APPROVED, RefundStatus.DONE}
    return [
        {
            "amount": format_money(refund.amount, checkout.paid_currency),
            "is_done": refund.status == RefundStatus.DONE,
            "at": refund.ended_at,
        }
        for refund in sorted(checkout.refunds.all(), key=lambda refund: refund.pk)
        if refund.status in shown
    ]


def unreturned_amounts(checkout: Checkout) -> dict[str, str]:
    """Return the amounts of disputed and idle money that no refund returns, by reason.

    Money that pays the report is idle only beyond its price.
    """
    currency, idle = checkout.paid_currency, checkout.refundable
    if checkout.is_counted:
        idle = max(idle - checkout.counted_amount, Decimal(0))
    is_kept = checkout.reason_to_keep and not checkout.review_flags
    requested = [
        refund.amount
        for refund in checkout.refunds.all()
        if refund.status == RefundStatus.REQUESTED
    ]
    amounts = {
        "disputed": _disputed_amount(checkout, DisputeStatus.OPEN),
        "lost": _disputed_amount(checkout, DisputeStatus.LOST),
        "examined": sum(requested, Decimal(0 if is_kept else idle)),
        "kept": idle if is_kept else Decimal(0),
    }
    return {
        why: format_money(amount, currency) for why, amount in amounts.items() if amount
    }


def _disputed_amount(checkout: Checkout, status: DisputeStatus) -> Decimal:
    disputes = checkout.disputes.all()
    amounts = (d.held_amount for d in disputes if d.status == status)
    return sum(amounts, Decimal(0))


def receipt_context(payment: Payment, counted: list[Checkout]) -> dict[str, Any]:
    """Return the receipt as of the payment, without later edits of the report.

    Several checkouts may have paid it together.
    """
    url = links.payment_url(payment.pk, payment.generation)
    checkout, *_parts = counted
    receipt = receipt_of(checkout)
    paid = sum((c.counted_amount for c in counted), Decimal(0))
    surplus = (checkout.paid_amount or Decimal(0)) - checkout.counted_amount
    return {
        "client": bdi(receipt["requester"]),
        "purpose": receipt["purpose"],
        "reference": receipt["reference"],
        "about": initials(receipt.get("about", "")),
        "checks": [
            _price_line(item["name"], Decimal(item["price"]), checkout.paid_currency)
            for item in receipt["checks"]
        ],
        "provider": LABELS.get(checkout.provider, ""),
        "checkout": checkout,
        "payments": [
            (c, format_money(c.counted_amount, c.paid_currency))
            for c in sorted(counted, key=lambda c: c.pk)
        ],
        "amount": format_money(paid, checkout.paid_currency),
        "surplus": format_money(surplus, checkout.paid_currency) if surplus else "",
        "given_back": [line for c in counted for line in refund_lines(c)],
        "unreturned": [
            (c.number, amounts) for c in counted if (amounts := unreturned_amounts(c))
        ],
        "is_refused": payment.report.status == ReportStatus.DRAFT
        and is_consent_refused(payment.report),
        "is_left_to_staff": any(
            unfinished_part(c) and is_left_to_staff(c) for c in counted
        ),
        "url": url,
        "qr": qr_code(url),
    }


def renewal_context(payment: Payment, stage: Stage) -> dict[str, Any]:
    """Return what the page of a closed link says about new links and messages."""
    report = payment.report
    if stage in {Stage.WAITS, Stage.EXAMINED}:
        kind = Kind.PAYMENT_REQUEST if stage == Stage.WAITS else Kind.PAYMENT_REFUNDED
        return {"is_reached": is_reachable(report, kind, payer_of(report))}
    if stage not in {Stage.EXPIRED, Stage.SOURCES_CHANGED}:
        return {}
    return {
        "can_renew": stage == Stage.EXPIRED and payment_links.can_visitor_renew(report),
        "ask_path": reverse("payment:ask-client", args=[payment.pk]),
        "can_ask": bool(payment_links.client_action_needed(report, payment, now())),
        "has_asked": payment.link_requested_at is not None,
    }


def since(request: HttpRequest) -> datetime:
    text = request.GET.get("since", "")
    if not (text.isascii() and text.isdigit() and len(text) < MAX_TIMESTAMP_DIGITS):
        return now()
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def state_response(*values: object) -> HttpResponse:
    """Return a text; the script reloads the page when it changes."""
    return HttpResponse("/".join(map(str, values)), content_type="text/plain")


def poll_again(
    request: HttpRequest, checkout: Checkout, answer: HttpResponse
) -> HttpResponse:
    """Return the answer to the script, and poll the provider if the page is current.

    For an old page there is no poll: the reloaded page would again say that a poll is
    under way, and so on without end.
    """
    if request.GET.get("seen") == answer.content.decode():
        poll_soon(checkout.pk)
    return answer


def allow_script(response: HttpResponse) -> HttpResponse:
    allow_sources(response, **SCRIPTS)
    return response
