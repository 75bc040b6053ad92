"""Orders of members: typed texts become a request item of the API, a quote, an order.

Nothing here knows a page. A form, and each row of a file, has texts by the name of an
`Input`; `build_item` makes the API's own item of them. `read_orders` validates it,
`quote` prices it, and `create_reports` creates it, as they do for a request of a key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.utils.translation import gettext_lazy as _

from verification import links
from verification.batches.repairs import repair_number, repair_phone
from verification.checks.models import (
    CheckDefinition,
    CheckPackage,
    CheckResult,
    ResultStatus,
)
from verification.checks.packages import Packages
from verification.consents.links import consent_links
from verification.consents.models import Consent, is_consent_refused
from verification.payments.links import payment_links
from verification.payments.models import PAYABLE_STATUSES, Payment
from verification.reports import launch as launches
from verification.reports.create import NewReport, create_reports
from verification.reports.drafts import as_item, edit_draft, price_edit
from verification.reports.ends import UNCALLED, cancel
from verification.reports.hosted_links import is_over
from verification.reports.idempotency import IdempotencyKey, run_once
from verification.reports.models import (
    NAME_PARTS,
    SUBJECT_LABELS,
    PaymentMode,
    Report,
    ReportStatus,
    Subject,
    SubjectType,
)
from verification.reports.pricing import (
    OrderLine,
    check_prices,
    may_reuse,
    quote,
)
from verification.reports.request import (
    COMPANY_MEMBERS,
    COMPANY_NUMBERS,
    PERSON_MEMBERS,
    SUBJECT_MEMBERS,
    Catalogue,
    Fault,
    Order,
    RuleContext,
    catalogue,
    named_packages,
    named_return_hosts,
    read_orders,
)
from verification.reports.status import (
    ConsentGap,
    LaunchObstacle,
    NotRetryable,
    lock_report,
)
from verification.settings.providers import HOME_COUNTRY
from verification.values import formats
from verification.values.clock import now
from verification.values.identifiers import shape_of
from verification.values.local_time import NAIROBI
from verification.web.pages import INVALID_EMAIL, REQUIRED_ERROR
from workspaces.models import Client

Values = Mapping[str, str]
Item = dict[str, Any]
# The fingerprint of an order's Idempotency-Key begins with this.
REQUEST = "console order"
# An order page points out reports about the same subject that are newer than this.
SAME_SUBJECT = timedelta(days=1)
MOST_OTHERS = 3
MOMENT_FORMAT = "%Y-%m-%dT%H:%M"
ON = "on"
# A Kenyan mobile number that a spreadsheet took for a number
MOBILE_WITHOUT_ZERO = re.compile(r"[17]\d{8}")
# Members of a subject to which we write
CONTACTS = ("email", "phone")

COMPANY_NAME = _("Registered name")
PHONE_HINT = _("Such as 0712 345 678, or with the country code of another country")
# A check compares it with what the referee says.
HINTS = {"employmentEnd": _("Leave it empty if the person still works there")}
METHODS: list[tuple[str, Any]] = [
    (Consent.Method.CUSTOMER_WEB_FORM, _("A form on your web site")),
    (Consent.Method.CUSTOMER_MOBILE_APP, _("Your app")),
    (Consent.Method.PAPER_FORM, _("A form on paper")),
    (Consent.Method.VERBAL_RECORDED, _("Spoken and recorded")),
    (Consent.Method.EMAIL, _("By e-mail")),
    (Consent.Method.OTHER, _("In another way")),
]


class QuoteChanged(Exception):
    """Price, reuse or known reports differ from what the member has seen."""


class CancellationChanged(Exception):
    """State or credit of a report differ from what the member has seen."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The checks and the packages that a workspace knows, by their names."""

    checks: Catalogue
    packages: Packages

    @classmethod
    def to(cls, client: Client) -> Offer:
        packages = CheckPackage.objects.known_to(client.workspace.pk)
        return cls(catalogue(), {package.name: package for package in packages})


@dataclass(frozen=True, slots=True)
class Choice:
    """The ordered checks without the subject: a page's address may hold it."""

    subject_type: str
    country: str
    checks: tuple[str, ...]
    # The name of a package, which then names the checks
    package: str
    # A mode of consent; empty if the consent comes later, which makes a draft.
    consent: str
    payment_mode: str

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Choice:
        """Return the choice that a valid item, or one of `build_item`, has made."""
        subject, consent = item["subject"], item.get("consent") or {}
        return cls(
            subject_type=subject["subjectType"],
            country=subject.get("country", HOME_COUNTRY),
            checks=tuple(item.get("checksRequested") or ()),
            package=item.get("package") or "",
            consent=consent.get("mode", ""),
            payment_mode=item.get("paymentMode", PaymentMode.SELF),
        )

    @property
    def is_company(self) -> bool:
        return self.subject_type == SubjectType.COMPANY

    def definitions(self, offer: Offer) -> list[CheckDefinition]:
        package = offer.packages.get(self.package)
        names = package.checks if package else self.checks
        return [offer.checks[name] for name in names if name in offer.checks]

    def needs_consent(self, offer: Offer) -> bool:
        return any(one.requires_consent for one in self.definitions(offer))

    def is_hosted(self, offer: Offer) -> bool:
        """Return whether our page asks the subject for consent."""
        is_hosted = self.consent == Consent.Mode.SERVICE_HOSTED
        return is_hosted and self.needs_consent(offer)

    def is_draft_only(self, offer: Offer) -> bool:
        return not self.consent and self.needs_consent(offer)


@dataclass(frozen=True, slots=True)
class Input:
    """A member of the item that somebody types, for this choice.

    `kind` is the type of a check's input, or MOMENT, FLAG, METHOD or NOTE (more than a
    line).
    """

    path: tuple[str, ...]
    label: Any
    kind: str = "TEXT"
    is_required: bool = False
    hint: Any = ""
    # The label of another input that will do in place of this one
    other: Any = ""

    @property
    def name(self) -> str:
        return "-".join(self.path)

    @property
    def section(self) -> str:
        """Return "subject", "consent", "payer" or, for the rest, "order"."""
        return self.path[0] if len(self.path) > 1 else "order"


def inputs_of(choice: Choice, offer: Offer) -> list[Input]:
    """Return what the chosen checks, consent and payer need, in the form's order."""
    return [
        *_subject_inputs(choice, offer),
        *_consent_inputs(choice, offer),
        *_payer_inputs(choice),
        Input(
            ("purpose",),
            _("Purpose"),
            "NOTE",
            is_required=True,
            hint=_("Why you check it; the subject reads it"),
        ),
        Input(
            ("reference",),
            _("Your reference"),
            hint=_("Such as a loan or a staff number, to find the report by"),
        ),
        Input(
            ("reuse",),
            _("Use earlier results that are still fresh: they cost nothing"),
            "FLAG",
        ),
    ]


def _subject_inputs(choice: Choice, offer: Offer) -> Iterator[Input]:
    definitions = choice.definitions(offer)
    foreign = PERSON_MEMBERS if choice.is_company else COMPANY_MEMBERS
    found = {
        entry["key"]: _check_input(entry, choice, definitions)
        for definition in definitions
        for entry in definition.required_inputs
        if entry["key"] not in foreign
    }
    required = {key for key, one in found.items() if one.is_required}
    has_number = not required.isdisjoint(COMPANY_NUMBERS)
    if choice.is_company and choice.is_hosted(offer) and not has_number:
        # The hosted page asks the company's representative for a number.
        found["registrationNumber"] = _subject_input("registrationNumber", True)
        required.add("registrationNumber")
    found.pop("fullName", None)
    has_name = choice.is_company and "registrationNumber" in required
    yield Input(
        ("subject", "fullName"),
        COMPANY_NAME if choice.is_company else SUBJECT_LABELS["fullName"],
        is_required="fullName" in required or not has_name,
    )
    # Each consent mode has links, notices and copies of decisions for the subject.
    yield from (one for key, one in found.items() if key not in CONTACTS)
    for key in CONTACTS:
        yield found.get(key) or _subject_input(key)


def _check_input(
    entry: Mapping[str, Any], choice: Choice, definitions: Sequence[CheckDefinition]
) -> Input:
    """Return the input, which is required if any of the checks requires it."""
    key = entry["key"]
    entries = [e for d in definitions for e in d.required_inputs if e["key"] == key]
    mine = [e for e in entries if choice.subject_type in e.get("requiredFor", ())]
    others = [e["unless"] for e in mine if e.get("unless")]
    is_required = any(e["required"] for e in entries) or len(mine) > len(others)
    return Input(
        ("subject", key),
        SUBJECT_LABELS.get(key, entry["label"]),
        entry["type"],
        is_required,
        hint=PHONE_HINT if entry["type"] == "PHONE" else HINTS.get(key, ""),
        other=""
        if is_required or not others
        else SUBJECT_LABELS.get(others[0], others[0]),
    )


def _subject_input(key: str, is_required: bool = False) -> Input:
    kinds = {"email": "EMAIL", "phone": "PHONE"}
    hint = PHONE_HINT if key == "phone" else ""
    kind = kinds.get(key, "TEXT")
    return Input(("subject", key), SUBJECT_LABELS[key], kind, is_required, hint)


def _consent_inputs(choice: Choice, offer: Offer) -> list[Input]:
    is_attested = choice.consent == Consent.Mode.CUSTOMER_ATTESTED
    if not (is_attested and choice.needs_consent(offer)):
        return []

    def of(name: str, label: Any, kind: str = "TEXT", **more: Any) -> Input:
        return Input(("consent", name), label, kind, **{"is_required": True, **more})

    return [
        of("obtained", _("You have the consent of the subject"), "FLAG"),
        of("obtainedAt", _("When it was given"), "MOMENT"),
        of("method", _("How it was given"), "METHOD"),
        of(
            "policyVersion",
            _("Version of the text that they agreed to"),
            hint=_("Such as 2026-01, so that you find the text again"),
        ),
        of(
            "evidenceReference",
            _("Where you keep the proof"),
            is_required=False,
            hint=_("Such as the number of a file or a call"),
        ),
    ]


def _payer_inputs(choice: Choice) -> list[Input]:
    if choice.payment_mode != PaymentMode.THIRD_PARTY:
        return []
    email, phone = _("E-mail address of the payer"), _("Phone number of the payer")
    return [
        Input(("payer", "name"), _("Name of the payer"), is_required=True),
        Input(("payer", "email"), email, "EMAIL", other=phone),
        Input(("payer", "phone"), phone, "PHONE", hint=PHONE_HINT, other=email),
    ]


def build_item(choice: Choice, values: Values, offer: Offer) -> Item:
    """Return the request item of these texts. The rules of the API judge it."""
    item: Item = {
        "subject": {"subjectType": choice.subject_type, "country": choice.country},
        "paymentMode": choice.payment_mode,
    }
    if choice.package:
        item["package"] = choice.package
    else:
        item["checksRequested"] = list(choice.checks)
    if choice.consent and choice.needs_consent(offer):
        item["consent"] = {"mode": choice.consent}
    if choice.payment_mode == PaymentMode.THIRD_PARTY:
        item["payer"] = {}
    for one in inputs_of(choice, offer):
        text = repair(values.get(one.name, "").strip(), one, choice)
        value = _parse(one, text)
        if value is not None:
            *way, last = one.path
            place = item.setdefault(way[0], {}) if way else item
            place[last] = value
    if item["reuse"]:
        # A ticked box is the default. Left out, it never reuses reserved numbers.
        del item["reuse"]
    return item


def repair(text: str, one: Input, choice: Choice) -> str:
    """Put a number right that was damaged or typed with spaces; leave other texts."""
    if one.kind == "PHONE":
        text = repair_phone(text, partial(is_phone, choice))
        is_short = choice.country == "KE" and MOBILE_WITHOUT_ZERO.fullmatch(text)
        return f"0{text}" if is_short else text
    shape = shape_of(one.path[-1], choice.country) if one.kind == "TEXT" else None
    return repair_number(text, shape) if shape else text


def is_phone(choice: Choice, text: str) -> bool:
    """Return whether the text is a phone number, as the form or a file takes it."""
    if choice.country == "KE" and MOBILE_WITHOUT_ZERO.fullmatch(text):
        return True
    for read in (formats.kenyan_mobile, formats.phone):
        with suppress(ValueError):
            return bool(read(text))
    return False


def _parse(one: Input, text: str) -> Any:
    """Return the member of the item, or None to leave it out.

    An invalid date or number stays a text: the API's rules reject it.
    """
    if one.kind == "FLAG":
        return text == ON
    if not text:
        return None
    try:
        if one.kind == "MOMENT":
            typed = datetime.fromisoformat(text)
            return (
                typed if typed.tzinfo else typed.replace(tzinfo=NAIROBI)
            ).isoformat()
        if one.kind == "NUMBER":
            return int(text) if text.lstrip("-").isdecimal() else float(text)
        if one.kind == "PHONE":
            return formats.kenyan_mobile(text)
    except (ValueError, OverflowError):
        pass
    return text


def read_values(item: Mapping[str, Any], offer: Offer) -> dict[str, str]:
    """Return the texts of an item, from which `build_item` makes it again."""
    values = {}
    for one in inputs_of(Choice.of(item), offer):
        *way, last = one.path
        place = (item.get(way[0]) or {}) if way else item
        if one.name == "reuse":
            place = {last: item.get(last) is not False}
        if text := _text(one, place.get(last)):
            values[one.name] = text
    return values


def _text(one: Input, value: Any) -> str:
    if one.kind == "FLAG":
        return ON if value else ""
    if one.kind == "MOMENT" and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        return moment.astimezone(NAIROBI).strftime(MOMENT_FORMAT)
    return "" if value is None else str(value)


def item_to_repeat(report: Report, offer: Offer) -> Item:
    """Return the item that orders the report again, as far as it is offered still.

    The client attests the consent again: the old one may be too old for another order.
    """
    item = as_item(report)
    kind = item["subject"]["subjectType"]
    item["checksRequested"] = [
        name
        for name in report.checks_requested
        if is_offered(offer.checks.get(name), kind)
    ]
    package = offer.packages.get(report.package or "")
    if package and is_package_offered(package, kind, offer):
        item["package"] = package.name
        del item["checksRequested"]
    for name in ("obtained", "obtainedAt"):
        item.get("consent", {}).pop(name, None)
    return item


def is_package_offered(package: CheckPackage, subject_type: str, offer: Offer) -> bool:
    checks = (offer.checks.get(name) for name in package.checks)
    return package.active and all(is_offered(one, subject_type) for one in checks)


def is_offered(definition: CheckDefinition | None, subject_type: str) -> bool:
    return bool(
        definition and definition.active and subject_type in definition.subject_types
    )


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """One check of an order, and when the result that it reuses was found."""

    label: str
    price: Decimal
    reused_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of orders; `digest` changes with price and reuse."""

    # One line for each check
    lines: list[QuotedLine]
    # The amount that the workspace itself pays at once
    charge: Decimal
    digest: str
    # Empty before their subjects are known
    orders: Sequence[Order] = ()

    @property
    def total(self) -> Decimal:
        return sum((line.price for line in self.lines), Decimal(0))

    @property
    def may_reuse(self) -> bool:
        return all(may_reuse(one.reuse, one.subject) for one in self.orders)


def covers(client: Client, charge: Decimal) -> bool:
    """Return whether the workspace can pay this amount now."""
    spendable = client.account.spendable
    return not charge or spendable is None or charge <= spendable


PricedCheck = tuple[str, Decimal, UUID | None]
RefusedLaunch = tuple[Report, list[LaunchObstacle], ConsentGap | None, list[Fault]]


def digest_of(reports: Iterable[Iterable[PricedCheck]]) -> str:
    """Return a digest of (check, price, id of the reused result), by report."""
    texts = (
        ";".join(f"{name} {price:.2f} {reused or ''}" for name, price, reused in one)
        for one in reports
    )
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def quote_items(client: Client, items: Sequence[Item], *, draft: bool) -> Quote:
    """Quote the items; nothing is stored. Raises InvalidRequest."""
    quoted = quote(client, _read_orders(client, items, draft))
    own = [one for one in quoted if one.order.payment_mode == PaymentMode.SELF]
    charged = [x.price for one in own if not one.order.draft for x in one.lines]
    return Quote(
        lines=[*chain(*_quoted_lines([one.lines for one in quoted]))],
        charge=sum(charged, Decimal(0)),
        digest=digest_of(_costs(one.lines) for one in quoted),
        orders=[one.order for one in quoted],
    )


def quote_edit(
    client: Client, report: Report, choice: Choice, values: Values, offer: Offer
) -> Quote:
    """Quote a draft as `save_draft` would leave it. Raises InvalidRequest."""
    changed = _changes(report, choice, values, offer)
    order, priced, _is_paid = price_edit(client, report, changed)
    return Quote(
        lines=_quoted_lines([priced.lines])[0],
        charge=Decimal(0),
        digest=digest_of([_costs(priced.lines)]),
        orders=[order],
    )


def _read_orders(client: Client, items: Sequence[Item], draft: bool) -> list[Order]:
    packages = named_packages(client.workspace.pk, list(items))
    hosts = named_return_hosts(client.workspace.pk, list(items))
    context = RuleContext(catalogue(), client.environment, packages, hosts)
    return read_orders(_body(items, draft), context)


def _body(items: Sequence[Item], draft: bool) -> dict[str, Any]:
    return {"reports": list(items), "draft": draft}


def _costs(lines: Iterable[OrderLine | CheckResult]) -> list[PricedCheck]:
    return [(one.definition.name, one.price, one.reused_from_id) for one in lines]


def _quoted_lines(
    orders: Sequence[Sequence[OrderLine | CheckResult]],
) -> list[list[QuotedLine]]:
    """Return the lines of each order, with the times of the results that are reused."""
    reused = {x.reused_from_id for lines in orders for x in lines if x.reused_from_id}
    found = CheckResult.every.filter(pk__in=reused)
    times: dict[UUID | None, Any] = dict(found.values_list("pk", "completed_at"))
    return [
        [
            QuotedLine(one.definition.title, one.price, times.get(one.reused_from_id))
            for one in lines
        ]
        for lines in orders
    ]


def same_subject_reports(client: Client, orders: Sequence[Order]) -> list[Report]:
    """Return newer reports about the subjects, which might be the same orders."""
    return list(_newer_reports(client, [x.subject for x in orders])[:MOST_OTHERS])


def _newer_reports(client: Client, subjects: Sequence[Subject]) -> QuerySet[Report]:
    ids = [one.in_workspace(*client.where).id for one in subjects]
    about = Q(subject_id__in=ids)
    # Such a person has another id in each report.
    if names := [one.search_name for one in subjects if one.has_name_alone]:
        about |= Q(search_name__in=names, subject_type=SubjectType.INDIVIDUAL)
    found = Report.objects.filter(
        about,
        **client.lookups,
        created_at__gt=now() - SAME_SUBJECT,
        erased_at=None,
    )
    return found.exclude(status=ReportStatus.CANCELLED).order_by("-id")


def estimate_price(choice: Choice, offer: Offer) -> Quote:
    """Price a choice before its subject is known; it reuses no earlier results."""
    definitions = choice.definitions(offer)
    prices = check_prices(definitions, offer.packages.get(choice.package))
    pairs = list(zip(definitions, prices, strict=True))
    is_own = choice.payment_mode == PaymentMode.SELF and not choice.is_draft_only(offer)
    return Quote(
        lines=[QuotedLine(one.title, price) for one, price in pairs],
        charge=sum(prices, Decimal(0)) if is_own else Decimal(0),
        digest=digest_of([[(one.name, price, None) for one, price in pairs]]),
    )


def require_known(
    client: Client, created: Iterable[NewReport], known: Iterable[str]
) -> None:
    """Raise QuoteChanged if another report is about a subject and not `known` by id."""
    reports = [new.report for new in created]
    found = _newer_reports(client, [Subject(one.subject or {}) for one in reports])
    others = found.exclude(pk__in=[report.pk for report in reports])
    newest = others.values_list("pk", flat=True)[:MOST_OTHERS]
    if not {str(pk) for pk in newest} <= set(known):
        raise QuoteChanged


def place_order(
    client: Client,
    items: Sequence[Item],
    *,
    draft: bool,
    key: str,
    digest: str,
    also: Callable[[list[NewReport]], None],
) -> tuple[list[UUID], bool]:
    """Create the reports of a quote, once for each key.

    Returns their ids, and whether an earlier request has created them.
    `also` is called in the same transaction: it checks permission and writes the trail.
    Raises QuoteChanged if a launched report would cost something else than the quote
    with this digest, and what `read_orders`, `create_reports` and `run_once` raise;
    then nothing is ordered.
    """

    def carry_out() -> dict[str, Any]:
        created = create_reports(client, _read_orders(client, items, draft))
        if not draft:
            require_quoted((new.report.pk for new in created), digest)
        also(created)
        return {"reports": [str(new.report.pk) for new in created]}

    body = _body(items, draft)
    done = run_once(IdempotencyKey.read(key, client, REQUEST, body), carry_out)
    return [UUID(report) for report in done.body["reports"]], done.replayed


def require_quoted(report_ids: Iterable[UUID], digest: str) -> None:
    """Raise QuoteChanged if new reports cost something else than the quote."""
    if digest_of(_priced_checks(report_ids).values()) != digest:
        raise QuoteChanged


def _priced_checks(report_ids: Iterable[UUID]) -> dict[UUID, list[PricedCheck]]:
    """Return what each check of these reports costs."""
    lines: dict[UUID, list[PricedCheck]] = {pk: [] for pk in report_ids}
    for row in CheckResult.objects.filter(report__in=list(lines)).order_by("position"):
        lines[row.report_id].append((row.name, row.price, row.reused_from_id))
    return lines


def save_draft(
    client: Client, report: Report, choice: Choice, values: Values, offer: Offer
) -> list[str]:
    """Change a draft by the API's verb; return the names of the changed members.

    Only what differs is sent: an edit of a member that the notice shows voids the
    subject's consent, even with the same value. Raises as `edit_draft`.
    """
    changed = _changes(report, choice, values, offer)
    if changed:
        edit_draft(client, report.pk, changed)
    return sorted(changed)


def _changes(
    report: Report, choice: Choice, values: Values, offer: Offer
) -> dict[str, Any]:
    """Return the members of the draft that differ from the form."""
    old = as_item(report)
    before = build_item(Choice.of(old), read_values(old, offer), offer)
    after = build_item(choice, values, offer)
    # The reference is no member of an edit.
    changed = {
        name: value
        for name, value in after.items()
        if name != "reference" and before.get(name) != value
    }
    if before.get("reuse") is False and "reuse" not in after:
        changed["reuse"] = True
    if "subject" in changed:
        changed["subject"] = _keep_unseen(
            old["subject"], after["subject"], choice, offer
        )
    return changed


def _keep_unseen(
    old: Mapping[str, Any], new: dict[str, Any], choice: Choice, offer: Offer
) -> dict[str, Any]:
    """Add members of the subject that the form does not show, if they still fit."""
    if old["subjectType"] != choice.subject_type:
        return new
    seen = {one.path[-1] for one in inputs_of(choice, offer)}
    if old.get("fullName") != new.get("fullName"):
        seen |= set(NAME_PARTS)
    asked = {e["key"] for d in choice.definitions(offer) for e in d.required_inputs}
    kept = {
        key: value
        for key, value in old.items()
        if key not in seen and key in SUBJECT_MEMBERS | asked
    }
    return kept | new


def quote_launch(
    client: Client, drafts: Sequence[Report]
) -> tuple[list[list[QuotedLine]], str]:
    """Return what the launch of each draft costs now, and the digest of all that."""
    prefetch_related_objects(drafts, "payment", "results__definition")
    lines: dict[UUID, Sequence[OrderLine | CheckResult]]
    lines = {draft.pk: list(draft.results.all()) for draft in drafts}
    # A payment keeps the price that its link shows.
    unpriced = [
        (draft, [result.definition for result in draft.results.all()])
        for draft in drafts
        if not launches.has_price(draft)
    ]
    quoted = launches.quote_drafts(client, unpriced, now())
    for (draft, _definitions), each in zip(unpriced, quoted, strict=True):
        lines[draft.pk] = each
    costs = {pk: _costs(each) for pk, each in lines.items()}
    return _quoted_lines(list(lines.values())), _digest_of_drafts(costs)


def _digest_of_drafts(priced: Mapping[UUID, list[PricedCheck]]) -> str:
    return digest_of(
        [(str(pk), Decimal(0), None), *priced[pk]] for pk in sorted(priced)
    )


@transaction.atomic
def launch_as_quoted(client: Client, report_ids: Sequence[UUID], digest: str) -> None:
    """Launch drafts for the price that was shown, all or none.

    Raises as `launch_together`, or QuoteChanged.
    """
    launches.launch_together(client, report_ids)
    if _digest_of_drafts(_priced_checks(report_ids)) != digest:
        raise QuoteChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchQuote(Quote):
    """The price to launch several drafts, and the drafts that cannot be launched."""

    drafts: list[Report]
    # Drafts with codes of `launch_blockers`, or with faults
    refused: list[RefusedLaunch]


def quote_launches(client: Client, report_ids: Sequence[UUID]) -> LaunchQuote:
    """Return what the launch of the drafts among these reports costs now."""
    found = Report.objects.filter(pk__in=report_ids, status=ReportStatus.DRAFT)
    places = {pk: place for place, pk in enumerate(report_ids)}
    reports = sorted(
        found.prefetch_related("consent", "payment", "results__definition"),
        key=lambda report: places[report.pk],
    )
    drafts: list[Report] = []
    refused: list[RefusedLaunch] = []
    for report in reports:
        results = list(report.results.all())
        blockers = launches.launch_blockers(report, results)
        faults = launches.find_launch_faults(report)
        if blockers or faults:
            gap = launches.consent_gap(report, results)
            refused.append((report, blockers, gap, faults))
        else:
            drafts.append(report)
    lines, digest = quote_launch(client, drafts)
    unasked = [
        draft
        for draft, each in zip(drafts, lines, strict=True)
        if launches.owes_unasked(draft, (line.price for line in each))
    ]
    if unasked:
        unpaid = [LaunchObstacle.PAYMENT_OUTSTANDING]
        refused += [(draft, unpaid, None, []) for draft in unasked]
        drafts = [draft for draft in drafts if draft not in unasked]
        lines, digest = quote_launch(client, drafts)
    charged = [
        line.price
        for draft, each in zip(drafts, lines, strict=True)
        if draft.payment_mode == PaymentMode.SELF
        for line in each
    ]
    return LaunchQuote(
        drafts=drafts,
        lines=[*chain(*lines)],
        charge=sum(charged, Decimal(0)),
        digest=digest,
        refused=refused,
    )


def quote_retry(report: Report) -> tuple[list[QuotedLine], str]:
    """Return the failed checks with their prices, and a digest of this attempt."""
    failed = sorted(launches.failed_checks(report), key=lambda result: result.position)
    lines = [QuotedLine(r.definition.title, r.price) for r in failed]
    return lines, digest_of([[(f"{r.pk} {r.attempt}", r.price, None) for r in failed]])


@transaction.atomic
def retry_as_quoted(client: Client, report_id: UUID, digest: str) -> Report:
    """Run the failed checks that were shown again, once.

    Raises as `retry`, or QuoteChanged if a retry has run since.
    """
    report = lock_report(client, report_id)
    launches.check_retryable(report, launches.failed_checks(report))
    if quote_retry(report)[1] != digest:
        raise QuoteChanged
    return launches.retry(client, report_id)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The checks that a cancellation stops, and its credit for the workspace."""

    uncalled: list[CheckResult]
    credit: Decimal
    # The digest of checks, credit and the report's status
    digest: str


def quote_cancellations(reports: Iterable[Report]) -> dict[UUID, Cancellation]:
    """Return the effects that a cancellation would have now, by report ID."""
    by_id = {report.pk: report for report in reports}
    uncalled: dict[UUID, list[CheckResult]] = {pk: [] for pk in by_id}
    results = CheckResult.objects.filter(UNCALLED, report__in=list(by_id))
    for result in results.select_related("definition").order_by("position"):
        uncalled[result.report_id].append(result)
    return {
        pk: _quote_cancellation(report, uncalled[pk]) for pk, report in by_id.items()
    }


def _quote_cancellation(report: Report, uncalled: list[CheckResult]) -> Cancellation:
    is_billed = report.status != ReportStatus.DRAFT
    is_own = is_billed and report.payment_mode == PaymentMode.SELF
    prices = [one.price for one in uncalled] if is_own else []
    lines = [(str(one.pk), one.price, None) for one in uncalled]
    return Cancellation(
        uncalled=uncalled,
        credit=sum(prices, Decimal(0)),
        digest=digest_of([[(report.status, Decimal(0), None), *lines]]),
    )


@transaction.atomic
def cancel_as_quoted(client: Client, report_id: UUID, digest: str) -> Report:
    """Cancel a report in the state and for the credit that were shown.

    Raises as `cancel`, or CancellationChanged if checks have begun since.
    """
    report = lock_report(client, report_id)
    shown = quote_cancellations([report])[report.pk].digest
    if not report.is_ended and shown != digest:
        raise CancellationChanged
    return cancel(client, report_id)


def actions_of(
    report: Report, results: list[CheckResult] | None = None
) -> dict[str, Any]:
    """Return the verbs that the report's status and links allow now.

    `blockers` are codes of why a draft cannot be launched. `results` are those of the
    report with their definitions, if the caller has them.
    """
    is_draft = report.status == ReportStatus.DRAFT
    if results is None:
        has_verbs = is_draft or report.is_ended
        rows = report.results.select_related("definition")
        results = list(rows) if has_verbs else []
    blockers = launches.launch_blockers(report, results) if is_draft else []
    failed = [one for one in results if one.status == ResultStatus.FAILED]
    consent = getattr(report, "consent", None)
    payment = getattr(report, "payment", None)
    return {
        "launch": is_draft and not blockers,
        "blockers": blockers,
        "consent_gap": launches.consent_gap(report, results),
        "edit": is_draft and report.subject is not None,
        "cancel": not report.is_ended,
        "retry": _may_retry(report, failed),
        "resend_consent": consent_links.can_renew(report, consent),
        "resend_payment": payment_links.can_renew(report, payment),
        "repeat": report.subject is not None,
    }


def links_of(report: Report) -> dict[str, str]:
    """Return the links that work now, for members who hand them over themselves."""
    at, found = now(), {}
    consent = getattr(report, "consent", None)
    if consent and not report.is_ended and _waits(consent, at):
        is_pending = consent.status == Consent.Status.PENDING
        if is_pending and consent.mode == Consent.Mode.SERVICE_HOSTED:
            found["consent_url"] = links.consent_url(consent.pk, consent.generation)
    payment = getattr(report, "payment", None)
    is_payable = report.status in PAYABLE_STATUSES and not is_consent_refused(report)
    if payment and payment.is_outstanding and is_payable and _waits(payment, at):
        found["payment_url"] = links.payment_url(payment.pk, payment.generation)
    return found


def _waits(row: Consent | Payment, at: datetime) -> bool:
    return row.expires_at is not None and not is_over(row, at)


def _may_retry(report: Report, failed: list[CheckResult]) -> bool:
    try:
        launches.check_retryable(report, failed)
    except NotRetryable:
        return False
    return True


BY_PLACE: dict[tuple[str, str], Any] = {
    ("subject-idNumber", "invalid-format"): _(
        "Enter the number as on the ID card. In Kenya it is 1 to 9 digits"
    ),
    ("subject-kraPin", "invalid-format"): _(
        "Enter a letter, nine digits and a letter, such as P051234567X"
    ),
    ("subject-registrationNumber", "invalid-format"): _(
        "Enter the number as on the certificate, such as PVT-AB12CD3"
    ),
    ("payer-email", "required"): _("Enter an e-mail address or a phone number"),
    ("consent", "consent-required"): _("The chosen checks need a consent"),
    ("consent-obtained", "consent-required"): _(
        "Confirm it, as the checks need a consent"
    ),
    ("consent-obtainedAt", "consent-required"): _(
        "The subject objected after that: a newer consent is needed"
    ),
    ("consent-mode", "not-allowed-here"): _(
        "The subject is under 18: a parent consents, and you attest it"
    ),
}
BY_KIND: dict[tuple[str, str], Any] = {
    ("EMAIL", "invalid-format"): INVALID_EMAIL,
    ("PHONE", "invalid-format"): _("Enter a number such as +254712345678"),
    ("DATE", "invalid-format"): _("Choose a day"),
    ("MOMENT", "invalid-format"): _("Choose a day and a time"),
    ("NUMBER", "invalid-type"): _("Enter a number"),
    ("DATE", "out-of-range"): _("Choose a past day, not before 1900"),
    ("MOMENT", "out-of-range"): _("Choose a time in the past"),
    ("TEXT", "not-allowed-here"): _("This number is for the sandbox only"),
}
BY_CODE: dict[str, Any] = {
    **dict.fromkeys(("required", "missing-input"), REQUIRED_ERROR["required"]),
    "too-long": _("Use at most {most} characters"),
    "invalid-choice": _("Choose one from the list"),
    "inactive-check": _("A chosen check is not offered any more"),
    "unknown-check": _("A chosen check is not offered any more"),
    "inactive-package": _("The chosen package is not offered any more"),
    "unknown-package": _("The chosen package is not offered any more"),
    "subject-type-not-accepted": _("A chosen check is not for this kind of subject"),
    "check-not-available": _("No source answers a chosen check in this country"),
}


def path_in_item(fault: Fault) -> tuple[str, ...]:
    """Return the path within its item: without `reports` and the item's number."""
    path = fault.path[2:] if fault.path[:1] == ("reports",) else fault.path
    return tuple(str(step) for step in path)


def fault_text(fault: Fault, inputs: Mapping[str, Input]) -> str:
    """Return the text of the fault for a member; `inputs` has the inputs by name."""
    place = "-".join(path_in_item(fault))
    kind = inputs[place].kind if place in inputs else ""
    text = str(
        BY_PLACE.get((place, fault.code))
        or BY_KIND.get((kind, fault.code))
        or BY_CODE.get(fault.code)
        or fault.detail
    )
    return text.format(most=fault.most) if fault.most else text
