"""Pages of orders: choose checks, type the details, see the quote, order or save.

A choice of checks is in the address of the form. Details of a subject never are: each
step posts them to the next one, and nothing is stored before the order or the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.console.base import Place, Text, member_required
from verification.console.fields import COUNTRIES
from verification.console.order_form import (
    ChoiceForm,
    DetailsForm,
    choice_context,
)
from verification.console.orders import (
    METHODS,
    Choice,
    Item,
    QuoteChanged,
    build_item,
    covers,
    inputs_of,
    item_to_repeat,
    place_order,
    quote_items,
    read_values,
    same_subject_reports,
    save_draft,
)
from verification.notifications.sms import sms_is_configured
from verification.payments.registry import accepts_payments
from verification.reports.create import NewReport
from verification.reports.drafts import as_item
from verification.reports.idempotency import IdempotencyKeyReused, RequestInProgress
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.request import Fault, InvalidRequest
from verification.reports.status import NotEditable
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_present

ORDERS_PER_MINUTE = 60
# Shorter than the time for which orders are remembered by their key.
QUOTE_LIFETIME = 24 * 3600
CHANGED = _(
    "The price, or what is used again, has changed. Nothing was ordered: look again."
)
SENT_BEFORE = _(
    "You have sent another order from this page. Nothing was ordered: look again."
)
NOT_COVERED = _("The balance does not cover it. Nothing was ordered.")


@dataclass(frozen=True, slots=True)
class Carried:
    """An order between two pages; a quote gives it a key and a digest."""

    item: Item
    key: str = ""
    digest: str = ""


def _seal(place: Place, carried: Carried) -> str:
    """Return the order as a signed text for a hidden field.

    Another member, workspace or environment cannot use it.
    """
    values = [carried.item, carried.key, carried.digest]
    return signing.dumps(values, salt=_salt(place), compress=True)


def _salt(place: Place) -> str:
    return f"console order {place.member.pk} {place.environment}"


def _carried(place: Place) -> Carried | None:
    """Return the order in the hidden field, or None without a genuine one."""
    text, salt = place.request.POST.get("order", ""), _salt(place)
    if not text:
        return None
    try:
        item, key, digest = signing.loads(text, salt=salt, max_age=QUOTE_LIFETIME)
    except signing.SignatureExpired:
        # Its key may be forgotten: the quote is shown again.
        item, key, digest = signing.loads(text, salt=salt)[0], "", ""
    except signing.BadSignature:
        return None
    return Carried(item, key, digest)


@member_required(Permission.ORDER)
def order(place: Place) -> HttpResponse:
    """Lead through an order; the pressed button of a POST names the step."""
    place.require_live()
    if place.posted is None:
        return _open(place)
    require_order_rate(place)
    step, carried = place.posted.get("step", ""), _carried(place)
    if carried and step in {"order", "draft"}:
        return _place(place, carried, draft=step == "draft")
    return _go_on(place, step, carried)


@member_required(Permission.ORDER)
def repeat(place: Place, report: UUID) -> HttpResponse:
    """Show the form of an order with the details of an earlier report."""
    found = place.get_report(report)
    place.require_live()
    if found.subject is None:
        erased = _("The details of the subject were erased.")
        return place.to("reports-detail", error=erased, report=found.pk)
    place.record("report.opened", found)
    item = item_to_repeat(found, place.offer)
    if item.get("package") or item["checksRequested"]:
        return _show_details(place, item)
    return _render_choice(place, choice_form(place, None, item), Carried(item))


@member_required(Permission.ORDER)
def edit(place: Place, report: UUID) -> HttpResponse:
    """Edit a draft by the steps of an order; the last one saves it."""
    draft = place.get_report(report)
    if draft.status != ReportStatus.DRAFT or draft.subject is None:
        error = _("Only a draft can be edited.")
        return place.to("reports-detail", error=error, report=report)
    if place.posted is None:
        place.record("report.opened", draft)
        return _show_details(place, as_item(draft), draft)
    require_order_rate(place)
    return _go_on(place, place.posted.get("step", ""), _carried(place), draft)


def require_order_rate(place: Place) -> None:
    place.require_rate(ORDERS_PER_MINUTE, f"orders:{place.member.pk}")


def _open(place: Place) -> HttpResponse:
    """Show the choice, or the form for the choice that the address holds."""
    if "step" not in place.request.GET:
        return _render_choice(place, choice_form(place, None))
    form = choice_form(place, place.request.GET)
    if not form.is_valid():
        return _render_choice(place, form)
    inputs = inputs_of(form.choice, place.offer)
    details = DetailsForm(None, inputs, initial={"reuse": True})
    return _render_details(place, form.choice, details)


def _go_on(
    place: Place, step: str, carried: Carried | None, draft: Report | None = None
) -> HttpResponse:
    """Answer the steps before an order, and the one that saves a draft."""
    chosen = choice_form(
        place, place.request.POST if step == "details" else place.request.GET
    )
    if step == "details":
        if not chosen.is_valid():
            return _render_choice(place, chosen, carried, draft)
        item = _with_choice(carried.item if carried else {}, chosen.choice)
        return _show_details(place, item, draft)
    if carried:
        item = carried.item
    elif not chosen.is_valid():
        return _render_choice(place, chosen, None, draft)
    else:
        form = DetailsForm(place.posted, inputs_of(chosen.choice, place.offer))
        if not form.is_valid():
            return _render_details(place, chosen.choice, form, draft)
        item = build_item(chosen.choice, form.values, place.offer)
        if step == "save" and draft:
            return _save(place, draft, chosen.choice, form)
    if step == "choose":
        form_of_item = choice_form(place, None, item)
        return _render_choice(place, form_of_item, Carried(item), draft)
    if step == "quote" and draft is None:
        return _show_quote(place, item)
    return _show_details(place, item, draft)


def _with_choice(item: Item, choice: Choice) -> Item:
    """Return the item with another choice; what the new fields take stays typed."""
    kind = {"subjectType": choice.subject_type, "country": choice.country}
    consent = {**(item.get("consent") or {}), "mode": choice.consent}
    return {
        **item,
        "subject": {**item.get("subject", {}), **kind},
        "checksRequested": list(choice.checks),
        "package": choice.package,
        "paymentMode": choice.payment_mode,
        "consent": consent if choice.consent else None,
    }


def choice_form(place: Place, typed: Any, item: Item | None = None) -> ChoiceForm:
    """Return the form of the first step, for the choice that the item has made."""
    chosen = Choice.of(item) if item else None
    source = typed if typed is not None else place.request.GET
    kind = chosen.subject_type if chosen else source.get("subject_type", "")
    return ChoiceForm(
        typed,
        subject_type=kind if kind in SubjectType.values else SubjectType.INDIVIDUAL,
        environment=place.environment,
        offer=place.offer,
        chosen=chosen,
    )


def _render_choice(
    place: Place,
    form: ChoiceForm,
    carried: Carried | None = None,
    draft: Report | None = None,
) -> HttpResponse:
    kind = form.data.get("subject_type") or form.initial["subject_type"]
    shown = {
        "form": form,
        "is_company": kind == SubjectType.COMPANY,
        "sealed": _seal(place, carried) if carried else "",
        "takes_payments": accepts_payments(place.environment),
        "draft": draft,
    }
    return place.render("reports/choice", shown)


def _show_details(
    place: Place,
    item: Item,
    draft: Report | None = None,
    faults: Sequence[Fault] = (),
) -> HttpResponse:
    """Show the form with the texts of the item, and its faults if there are any."""
    choice = Choice.of(item)
    texts, inputs = read_values(item, place.offer), inputs_of(choice, place.offer)
    form = DetailsForm(texts if faults else None, inputs, initial=texts)
    form.add_faults(faults)
    return _render_details(place, choice, form, draft)


def _render_details(
    place: Place, choice: Choice, form: DetailsForm, draft: Report | None = None
) -> HttpResponse:
    shown = {**choice_context(choice, place.offer), "form": form, "draft": draft}
    return place.render("reports/details", shown)


def _show_quote(place: Place, item: Item, error: Text = "") -> HttpResponse:
    """Show what the order would cost and do. It gets a new key and a digest."""
    choice = Choice.of(item)
    is_draft = choice.is_draft_only(place.offer)
    try:
        quote = quote_items(place.client, [item], draft=is_draft)
    except InvalidRequest as e:
        return _show_details(place, item, None, e.faults)
    texts = read_values(item, place.offer)
    rows = [(x, texts.get(x.name)) for x in inputs_of(choice, place.offer)]
    (quoted,) = quote.orders
    payer = item.get("payer") or item["subject"]
    shown = {
        "error": error,
        "quote": quote,
        "quoted": quoted,
        **choice_context(choice, place.offer),
        "country": dict(COUNTRIES)[choice.country],
        "subject": [(x.label, text) for x, text in rows if x.section == "subject"],
        "item": item,
        "method": dict(METHODS).get((item.get("consent") or {}).get("method", "")),
        "reached": _addresses(item["subject"]),
        "payer_addresses": _addresses(payer),
        "attested_at": quoted.attested_at,
        "days": settings.CONSENT_LINK_DAYS,
        "is_covered": covers(place.client, quote.charge),
        "others": same_subject_reports(place.client, [quoted.order]),
        "sealed": _seal(place, Carried(item, uuid4().hex, quote.digest)),
    }
    return place.render("reports/quote", shown)


def _addresses(person: dict[str, Any]) -> list[str]:
    """Return where messages with a link to this subject or payer go."""
    phone = person.get("phone") if sms_is_configured() else None
    return [address for address in (person.get("email"), phone) if address]


def _place(place: Place, carried: Carried, *, draft: bool) -> HttpResponse:
    """Order what the quote showed, or save it as a draft; then open the report."""
    item = carried.item
    if not carried.key:
        return _show_quote(place, item)
    try:
        ids, is_repeat = place_order(
            place.client,
            [item],
            draft=draft,
            key=f"console {place.member.pk} {carried.key}",
            digest=carried.digest,
            also=partial(_record, place, "drafted" if draft else "ordered"),
        )
    except InvalidRequest as e:
        return _show_details(place, item, None, e.faults)
    except QuoteChanged:
        return _show_quote(place, item, CHANGED)
    except IdempotencyKeyReused:
        return _show_quote(place, item, SENT_BEFORE)
    except InsufficientBalance:
        return _show_quote(place, item, NOT_COVERED)
    except RequestInProgress:
        wait = _("Your order is being carried out. It stands in this list at once.")
        return place.to("reports", success=wait)
    if is_repeat:
        done = _("You had sent this already: it was ordered once, and this is it.")
    else:
        done = _("The draft is saved.") if draft else _("It is ordered.")
    return place.to("reports-detail", success=done, report=ids[0])


def _record(place: Place, done: str, created: Sequence[NewReport]) -> None:
    """Write the audit trail. Raises NotAllowed if the member's role was taken."""
    require_present(place.member, Permission.ORDER)
    for new in created:
        place.record(f"report.{done}", new.report)


def _save(
    place: Place, draft: Report, choice: Choice, form: DetailsForm
) -> HttpResponse:
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            changed = save_draft(place.client, draft, choice, form.values, place.offer)
            if changed:
                place.record("report.edited", draft, *changed)
    except InvalidRequest as e:
        form.add_faults(e.faults)
        return _render_details(place, choice, form, draft)
    except NotEditable as e:
        error = _("Only a draft can be edited.")
        if e.status == ReportStatus.DRAFT:
            error = _("It is paid already: price and payer stay as they are.")
        return place.to("reports-detail", error=error, report=draft.pk)
    done = _("The draft is changed.") if changed else _("Nothing was changed.")
    return place.to("reports-detail", success=done, report=draft.pk)
