"""The faults of the API in an order, in words for members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from verification.console.order_inputs import Input
from verification.reports.request import Fault
from verification.web.pages import INVALID_EMAIL, REQUIRED_ERROR

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
