"""The page of an order: choose checks, type the details, see the price, order or save.

A choice of checks may be in the address of the page. Details of a subject never are:
they are posted, and nothing is stored before the order or the draft.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.core import signing
from django.db import transaction
from django.db.models import Sum
from django.http import HttpResponse, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from verification.console import orders
from verification.console.base import Place, Text, member_required
from verification.console.order_faults import path_in_item
from verification.console.order_form import (
    ChoiceForm,
    DetailsForm,
    OrderForm,
    choice_context,
    query_of,
)
from verification.console.order_inputs import (
    ON,
    Choice,
    Item,
    build_item,
    inputs_of,
    item_to_repeat,
    read_values,
)
from verification.console.order_quotes import (
    covers,
    estimate_price,
    quote_edit,
    quote_items,
)
from verification.console.templatetags.console import moment, money
from verification.payments.registry import accepts_payments
from verification.reports.create import NewReport
from verification.reports.drafts import as_item
from verification.reports.idempotency import IdempotencyKeyReused, RequestInProgress
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.request import InvalidRequest
from verification.reports.status import NotEditable
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_present
from workspaces.models import LedgerEntry

ORDERS_PER_MINUTE = 60
# The price follows the form while somebody types.
PRICES_PER_MINUTE = 180
# Shorter than the time for which orders are remembered by their key.
QUOTE_LIFETIME = 24 * 3600
LOOK = _("Nothing is ordered yet. Look at the price, then order.")
CHANGED = _("Nothing is ordered yet: the price has changed. Look again.")
REPEATED = _(
    "Nothing is ordered yet: there is a report about this subject from {time}."
)
SENT_BEFORE = _(
    "Nothing is ordered yet: another order was sent from this page. Look again."
)
NOT_COVERED = _("Nothing is ordered: the balance does not cover it.")


@dataclass(frozen=True, slots=True)
class SeenQuote:
    """The quote on the page: its key, the digest of the price, known reports."""

    key: str
    digest: str
    known: list[str]


def seal_quote(place: Place, digest: str, known: Sequence[str] = ()) -> str:
    """Return a quote, with a new key, as a signed text for a hidden field.

    Another member, workspace or environment cannot use it.
    """
    values = [uuid4().hex, digest, list(known)]
    return signing.dumps(values, salt=_salt(place), compress=True)


def _salt(place: Place) -> str:
    return f"console order {place.member.pk} {place.environment}"


def shown_quote(place: Place) -> SeenQuote | None:
    """Return the quote that the page has shown, or None if it is missing or too old."""
    text = place.request.POST.get("quote", "")
    try:
        return SeenQuote(
            *signing.loads(text, salt=_salt(place), max_age=QUOTE_LIFETIME)
        )
    except signing.BadSignature:
        return None


@member_required(Permission.ORDER)
def order(place: Place) -> HttpResponse:
    """Show the page of an order; the pressed button of a POST names what to do."""
    place.require_live()
    if place.posted is None:
        typed = place.request.GET if "step" in place.request.GET else None
        return _show(place, choice_form(place, typed), {"reuse": ON})
    if place.posted.get("step") not in {"order", "draft"}:
        return _update(place)
    form = _read(place)
    if form.errors:
        return _render(place, form)
    return _place(place, form, is_draft=place.posted["step"] == "draft")


@member_required(Permission.ORDER)
def repeat(place: Place, report: UUID) -> HttpResponse:
    """Show the page of an order with the details of an earlier report."""
    found = place.get_report(report)
    place.require_live()
    if found.subject is None:
        erased = _("The details of the subject were erased.")
        return place.to_report(found.pk, error=erased)
    place.record("report.opened", found)
    return _show_item(place, item_to_repeat(found, place.offer))


@member_required(Permission.ORDER)
def edit(place: Place, report: UUID) -> HttpResponse:
    """Edit a draft by the page of an order, which saves it."""
    draft = place.get_report(report)
    if draft.status != ReportStatus.DRAFT or draft.subject is None:
        return place.to_report(report, error=_("Only a draft can be edited."))
    if place.posted is None:
        place.record("report.opened", draft)
        return _show_item(place, as_item(draft), draft)
    if place.posted.get("step") != "save":
        return _update(place, draft)
    form = _read(place)
    return _render(place, form, draft) if form.errors else _save(place, draft, form)


def require_order_rate(place: Place) -> None:
    place.require_rate(ORDERS_PER_MINUTE, f"orders:{place.member.pk}")


def require_price_rate(place: Place) -> None:
    place.require_rate(PRICES_PER_MINUTE, f"prices:{place.member.pk}")


def choice_form(
    place: Place,
    typed: Any,
    item: Item | None = None,
    *,
    may_be_empty: bool = False,
) -> ChoiceForm:
    """Return the form of a choice: as typed, or as the item has made it."""
    chosen = Choice.of(item) if item else None
    source = typed if typed is not None else place.request.GET
    kind = chosen.subject_type if chosen else source.get("subject_type", "")
    return ChoiceForm(
        typed,
        subject_type=kind if kind in SubjectType.values else SubjectType.INDIVIDUAL,
        environment=place.environment,
        offer=place.offer,
        chosen=chosen,
        may_be_empty=may_be_empty,
    )


def _show_item(place: Place, item: Item, draft: Report | None = None) -> HttpResponse:
    texts = read_values(item, place.offer)
    return _show(place, choice_form(place, None, item), texts, draft)


def _show(
    place: Place,
    chosen: ChoiceForm,
    texts: Mapping[str, str],
    draft: Report | None = None,
) -> HttpResponse:
    """Show the page with these texts, which nobody has sent yet."""
    inputs = inputs_of(chosen.choice, place.offer)
    details = DetailsForm(None, inputs, initial=dict(texts))
    return _render(place, OrderForm(chosen, details), draft, texts=texts)


def _update(place: Place, draft: Report | None = None) -> HttpResponse:
    """Show the page for an unfinished form; missing fields are no error yet."""
    require_price_rate(place)
    typed = still_offered(place, place.request.POST)
    chosen = choice_form(place, typed, may_be_empty=True)
    details = DetailsForm(place.posted, inputs_of(chosen.choice, place.offer))
    form = OrderForm(chosen, details)
    return _render(place, form, draft, shows_faults=details.is_valid())


def still_offered(place: Place, typed: QueryDict) -> QueryDict:
    """Return the form without checks and a package that its kind of subject lacks."""
    offered = choice_form(place, typed).fields
    kept = typed.copy()
    for name in ("checks", "package"):
        field = offered.get(name)
        codes = {code for code, _label in field.choices} if field else set()  # type: ignore[attr-defined]
        kept.setlist(name, [code for code in typed.getlist(name) if code in codes])
    return kept


def _read(place: Place) -> OrderForm:
    """Return the sent form with its faults."""
    require_order_rate(place)
    chosen = choice_form(place, place.posted)
    details = DetailsForm(place.posted, inputs_of(chosen.choice, place.offer))
    if details.errors and not chosen.errors:
        # Add the faults that the API finds in the other fields.
        item = build_item(chosen.choice, details.values, place.offer)
        try:
            is_draft = place.request.POST["step"] != "order"
            quote_items(place.client, [item], draft=is_draft)
        except InvalidRequest as e:
            details.add_faults(e.faults)
    return OrderForm(chosen, details)


def _render(
    place: Place,
    form: OrderForm,
    draft: Report | None = None,
    *,
    texts: Mapping[str, str] | None = None,
    shows_faults: bool = False,
    error: Text = "",
    changed: SeenQuote | None = None,
) -> HttpResponse:
    """Show the page with its price: of the item, or without its subject.

    The page says what differs from a quote that has `changed`.
    """
    choice, offer = form.choice.choice, place.offer
    price = estimate_price(choice, offer)
    others: list[Report] = []
    if choice.definitions(offer) and (texts is not None or not form.errors):
        values = form.details.values if texts is None else texts
        try:
            if draft:
                price = quote_edit(place.client, draft, choice, values, offer)
            else:
                item = build_item(choice, values, offer)
                is_draft = choice.is_draft_only(offer)
                price = quote_items(place.client, [item], draft=is_draft)
            others = orders.same_subject_reports(place.client, price.orders)
        except InvalidRequest as e:
            if shows_faults:
                # A field that nobody has filled in yet has no fault.
                typed = (f for f in e.faults if values.get("-".join(path_in_item(f))))
                form.details.add_faults(typed)
    if changed:
        new = [one for one in others if str(one.pk) not in changed.known]
        error = CHANGED
        if new:
            error = format_html(str(REPEATED), time=moment(new[0].created_at))
    known = [str(report.pk) for report in others]
    shown = {
        **choice_context(choice, offer),
        "form": form,
        "draft": draft,
        "error": error,
        "price": price,
        "others": [one for one in others if one != draft],
        "is_covered": covers(place.client, price.charge),
        "sealed": seal_quote(place, price.digest, known),
        "takes_payments": accepts_payments(place.environment),
    }
    return place.render("reports/order", shown)


def _place(place: Place, form: OrderForm, *, is_draft: bool) -> HttpResponse:
    """Order for the price that the page showed, or save a draft; open the report."""
    choice, offer = form.choice.choice, place.offer
    item = build_item(choice, form.details.values, offer)
    quote = shown_quote(place)
    if quote is None:
        return _render(place, form, error=LOOK)
    try:
        ids, is_repeat = orders.place_order(
            place.client,
            [item],
            draft=is_draft,
            key=f"console {place.member.pk} {quote.key}",
            digest=quote.digest,
            also=partial(_record, place, None if is_draft else quote),
        )
    except InvalidRequest as e:
        form.details.add_faults(e.faults)
        return _render(place, form)
    except orders.QuoteChanged:
        return _render(place, form, changed=quote)
    except IdempotencyKeyReused:
        return _render(place, form, error=SENT_BEFORE)
    except InsufficientBalance:
        return _render(place, form, error=NOT_COVERED)
    except RequestInProgress:
        wait = _("Your order is being carried out. It stands in this list at once.")
        return place.to("reports", success=wait)
    if is_repeat:
        done: Text = _("You sent this before: it was ordered once, and this is it.")
    else:
        done = _("The draft is saved.") if is_draft else _ordered(place, choice, ids[0])
    return place.to_report(ids[0], success=done)


def _ordered(place: Place, choice: Choice, report_id: UUID) -> SafeString:
    """Return the message after an order: its price, and the way to the next one."""
    paid = LedgerEntry.objects.filter(account=place.account, report_id=report_id)
    charge = -(paid.aggregate(sum=Sum("amount"))["sum"] or 0)
    done: Text = _("Ordered.")
    if charge:
        price = {"currency": place.account.currency, "price": money(charge)}
        done = _("Ordered for %(currency)s %(price)s.") % price
    another = f"{place.url('reports-new')}?{query_of(choice)}"
    link = _("Order another report")
    return format_html('{} <a href="{}">{}</a>', done, another, link)


def _record(
    place: Place, quote: SeenQuote | None, created: Sequence[NewReport]
) -> None:
    """Write the audit trail of an order by a quote, or of a draft without one.

    Raises NotAllowed if the member's role was taken, and as `require_known`.
    """
    require_present(place.member, Permission.ORDER)
    if quote:
        orders.require_known(place.client, created, quote.known)
    for new in created:
        place.record("report.ordered" if quote else "report.drafted", new.report)


def _save(place: Place, draft: Report, form: OrderForm) -> HttpResponse:
    choice, values = form.choice.choice, form.details.values
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            changed = orders.save_draft(
                place.client, draft, choice, values, place.offer
            )
            if changed:
                place.record("report.edited", draft, *changed)
    except InvalidRequest as e:
        form.details.add_faults(e.faults)
        return _render(place, form, draft)
    except NotEditable as e:
        error = _("Only a draft can be edited.")
        if e.status == ReportStatus.DRAFT:
            error = _("It is paid already: price and payer stay as they are.")
        return place.to_report(draft.pk, error=error)
    done = _("The draft is saved.") if changed else _("Nothing was changed.")
    return place.to_report(draft.pk, success=done)
