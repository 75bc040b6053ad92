"""What members type for an order, and the request item of the API made of it.

Nothing here knows a page. A form, and each row of a file, has texts by the name of an
`Input`: `build_item` makes the API's item of them, and `read_values` reads them from
an item again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.utils.translation import gettext_lazy as _

from verification.batches.repairs import repair_number, repair_phone
from verification.checks.models import CheckDefinition, CheckPackage
from verification.checks.packages import Packages
from verification.consents.models import Consent
from verification.reports.drafts import as_item
from verification.reports.models import (
    NAME_PARTS,
    SUBJECT_LABELS,
    PaymentMode,
    Report,
    SubjectType,
)
from verification.reports.request import (
    COMPANY_MEMBERS,
    COMPANY_NUMBERS,
    PERSON_MEMBERS,
    SUBJECT_MEMBERS,
    Catalogue,
    catalogue,
)
from verification.settings.providers import HOME_COUNTRY
from verification.values import formats
from verification.values.identifiers import shape_of
from verification.values.local_time import NAIROBI
from workspaces.models import Client

Values = Mapping[str, str]
Item = dict[str, Any]
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


def draft_changes(
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
