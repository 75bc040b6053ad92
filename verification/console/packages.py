"""Packages: the list that a workspace can order, and the forms of its own."""

from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckDefinition, CheckPackage
from verification.checks.packages import (
    InvalidPackage,
    check_choices,
    create_package,
    edit_package,
    set_package_active,
)
from verification.console.base import Place, Text, member_required, post_required
from verification.console.fields import (
    ChoicesForm,
    Option,
    name_field,
    text_field,
)
from verification.reports.models import SubjectType
from verification.reports.pricing import price_of_package
from verification.reports.request import Catalogue, catalogue
from verification.values.shapes import CURRENCY
from workspaces.members import Permission


class PackageForm(ChoicesForm):
    display_name = name_field(
        _("Title"),
        100,
        help_text=_("People of your company see it, such as Loan applicant"),
    )
    checks = forms.MultipleChoiceField(
        label=_("Checks"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Reports and rules that you have made keep their checks"),
        error_messages={
            "required": _("Choose a check"),
            "invalid_choice": _("One of these checks is not offered"),
        },
    )


class NewPackageForm(PackageForm):
    name = text_field(
        _("Name"),
        40,
        help_text=_("Your systems send it; it can never be changed"),
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
    )
    field_order = ("name", "display_name", "checks")


KINDS: dict[str, Text] = {
    SubjectType.INDIVIDUAL: _("Person"),
    SubjectType.COMPANY: _("Company"),
}


def _option(check: CheckDefinition) -> Option:
    """Return the check with its subjects and its price."""
    kinds = ", ".join(str(KINDS[kind]) for kind in check.subject_types)
    return Option(check.title, kinds, f"{check.currency} {check.price:,.2f}")


@member_required()
def list_packages(place: Place) -> HttpResponse:
    known = CheckPackage.objects.known_to(place.workspace.pk)
    definitions = catalogue()
    shown = [
        _package_context(package, definitions)
        for package in known
        if package.active or not package.is_of_operator
    ]
    more = {"packages": shown, "currency": CURRENCY}
    return place.render("settings/packages", more)


def _package_context(package: CheckPackage, definitions: Catalogue) -> dict[str, Any]:
    known = [definitions[name] for name in package.checks if name in definitions]
    return {
        "row": package,
        "checks": [definition.title for definition in known],
        "price": price_of_package(package, definitions),
        "is_complete": len(known) == len(package.checks)
        and all(definition.active for definition in known),
    }


@member_required(Permission.MANAGE_SETTINGS)
def create(place: Place) -> HttpResponse:
    choices = {"checks": check_choices(None, _option)}
    form = NewPackageForm(place.posted, choices=choices)
    if form.is_valid():
        try:
            with transaction.atomic():
                made = create_package(place.workspace, **form.cleaned_data)
                place.record("package.created", made)
        except InvalidPackage as e:
            _show_faults(form, e)
        else:
            success = _("The package is made. Orders can name it now.")
            return place.to("settings-packages", success=success)
    return place.render("settings/package", {"form": form})


@member_required(Permission.MANAGE_SETTINGS)
def edit(place: Place, package: UUID) -> HttpResponse:
    found = place.workspace.packages.get(pk=package)
    initial = {"display_name": found.display_name, "checks": found.checks}
    choices = {"checks": check_choices(found, _option)}
    form = PackageForm(place.posted, initial=initial, choices=choices)
    if form.is_valid():
        try:
            with transaction.atomic():
                edited = edit_package(place.workspace, found.pk, **form.cleaned_data)
                place.record("package.changed", edited, *form.changed_data)
        except InvalidPackage as e:
            _show_faults(form, e)
        else:
            return place.to("settings-packages", success=_("Saved."))
    return place.render("settings/package", {"form": form, "package": found})


@post_required(Permission.MANAGE_SETTINGS)
def switch(place: Place, package: UUID, active: bool) -> HttpResponse:
    """Let new orders name a package again, or no longer."""
    found = place.workspace.packages.get(pk=package)
    with transaction.atomic():
        if set_package_active(place.workspace, found.pk, active=active):
            verb = "activated" if active else "deactivated"
            place.record(f"package.{verb}", found)
    done = _("New orders can no longer name the package.")
    if active:
        done = _("Orders can name it again.")
    return place.to("settings-packages", success=done)


def _show_faults(form: PackageForm, error: InvalidPackage) -> None:
    for field, fault in error.faults.items():
        form.add_error(field, fault.label)
