"""Packages: found by name, created and edited.

Staff edit those of the operator in the admin, members those of their workspace in the
console.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from verification.checks.models import (
    MAX_CHECKS,
    PACKAGE_NAME,
    CheckDefinition,
    CheckPackage,
)
from verification.reports.models import SubjectType
from workspaces.models import Workspace

# The packages of one workspace, which the API lists on one page
MAX_PACKAGES = 100
# The packages that a workspace can name, by their names
Packages = Mapping[str, CheckPackage]
NO_PACKAGES: Packages = {}


class OrderedByPackage(Protocol):
    """A report or a rule, which names the package that it was ordered by."""

    pk: UUID
    workspace_id: UUID
    package: str | None


def find_packages(workspace_id: UUID, names: Collection[str]) -> Packages:
    """Return the packages with these names, without a query if there are none."""
    if not names:
        return NO_PACKAGES
    found = CheckPackage.objects.known_to(workspace_id).filter(name__in=names)
    return {package.name: package for package in found}


def packages_of(rows: Iterable[OrderedByPackage]) -> dict[UUID, CheckPackage]:
    """Return the present package of each report or rule that was ordered by one.

    The keys are those of the rows, which may belong to several workspaces.
    """
    ordered = [row for row in rows if row.package]
    if not ordered:
        return {}
    workspaces = {row.workspace_id for row in ordered}
    found = {
        (package.workspace_id, package.name): package
        for package in CheckPackage.objects.filter(
            Q(workspace=None) | Q(workspace__in=workspaces),
            name__in={row.package for row in ordered},
        )
    }
    return {
        row.pk: found[owner, name]
        for row in ordered
        for owner in (row.workspace_id, None)
        if (name := row.package) and (owner, name) in found
    }


def package_of(row: OrderedByPackage) -> CheckPackage | None:
    """Return the present package of one report or rule."""
    return packages_of([row]).get(row.pk)


class PackageFault(models.TextChoices):
    NAME = (
        "NAME",
        _("Use small letters, digits and single hyphens, such as loan-applicant"),
    )
    TAKEN = "TAKEN", _("There is a package of this name")
    FULL = "FULL", _("A workspace has at most 100 packages")
    NO_CHECK = "NO_CHECK", _("Choose a check")
    TOO_MANY = "TOO_MANY", _("Choose at most 10 checks")
    TWICE = "TWICE", _("Choose each check once")
    NOT_OFFERED = "NOT_OFFERED", _("One of these checks is not offered")
    NO_SUBJECT = "NO_SUBJECT", _("Choose checks of people, or checks of companies")
    NEGATIVE = "NEGATIVE", "The price is 0 or more"
    PRICED = (
        "PRICED",
        _("These checks have a price together: make another package for others"),
    )


class InvalidPackage(Exception):
    """The package breaks rules, and nothing was changed."""

    def __init__(self, faults: Mapping[str, PackageFault]) -> None:
        self.faults = faults
        super().__init__(", ".join(faults.values()))


@transaction.atomic
def create_package(
    workspace: Workspace, name: str, display_name: str, checks: list[str]
) -> CheckPackage:
    """Create a package of a workspace. Raises InvalidPackage."""
    package = CheckPackage(
        workspace=workspace, name=name, display_name=display_name, checks=checks
    )
    faults = find_package_faults(package)
    if workspace.packages.count() >= MAX_PACKAGES:
        faults["name"] = PackageFault.FULL
    if faults:
        raise InvalidPackage(faults)
    try:
        with transaction.atomic():
            package.save(force_insert=True)
    except IntegrityError as e:
        # Another request has taken the name since.
        raise InvalidPackage({"name": PackageFault.TAKEN}) from e
    return package


@transaction.atomic
def edit_package(
    workspace: Workspace, package_id: UUID, display_name: str, checks: list[str]
) -> CheckPackage:
    """Edit a workspace's own package. Reports and rules keep the checks that they have.

    Raises InvalidPackage, also if the operator has set a price for its present checks.
    """
    package = lock_package(workspace, package_id)
    kept, package.checks = package.checks, checks
    package.display_name = display_name
    faults = find_package_faults(package, kept)
    if checks != kept and package.price is not None:
        faults["checks"] = PackageFault.PRICED
    if faults:
        raise InvalidPackage(faults)
    package.save(update_fields=["display_name", "checks", "updated_at"])
    return package


@transaction.atomic
def set_package_active(workspace: Workspace, package_id: UUID, *, active: bool) -> bool:
    """Offer a workspace's own package, or no longer. Returns False if it was so."""
    package = lock_package(workspace, package_id)
    if package.active == active:
        return False
    package.active = active
    package.save(update_fields=["active", "updated_at"])
    return True


def lock_package(workspace: Workspace, package_id: UUID) -> CheckPackage:
    """Return the workspace's own package, locked. Raises CheckPackage.DoesNotExist."""
    return workspace.packages.select_for_update(of=("self",)).get(pk=package_id)


def find_package_faults(
    package: CheckPackage, kept: Collection[str] = ()
) -> dict[str, PackageFault]:
    """Return the fault of each field of an unsaved package.

    `kept` are the checks that it has had, which may have been withdrawn since.
    """
    faults = {
        "name": _name_fault(package) if package._state.adding else None,
        "checks": _checks_fault(package.checks, kept),
        "price": PackageFault.NEGATIVE if (package.price or 0) < 0 else None,
    }
    return {field: fault for field, fault in faults.items() if fault}


def _name_fault(package: CheckPackage) -> PackageFault | None:
    if not re.fullmatch(PACKAGE_NAME, package.name):
        return PackageFault.NAME
    same = CheckPackage.objects.filter(name=package.name)
    if package.workspace_id is not None:
        same = same.known_to(package.workspace_id)
    return PackageFault.TAKEN if same.exists() else None


def _checks_fault(checks: list[str], kept: Collection[str]) -> PackageFault | None:
    if not checks:
        return PackageFault.NO_CHECK
    if len(checks) > MAX_CHECKS:
        return PackageFault.TOO_MANY
    if len(set(checks)) < len(checks):
        return PackageFault.TWICE
    definitions = CheckDefinition.objects.filter(name__in=checks)
    offered = {d.name for d in definitions if d.active} | {*kept}
    if not offered.issuperset(checks):
        return PackageFault.NOT_OFFERED
    accepted = [set(definition.subject_types) for definition in definitions]
    common = set(SubjectType.values).intersection(*accepted)
    return None if common else PackageFault.NO_SUBJECT


def check_choices(
    package: CheckPackage | None, label: Callable[[CheckDefinition], Any]
) -> list[tuple[str, Any]]:
    """Return (name, label) of the checks that a form offers: first the package's."""
    definitions = {d.name: d for d in CheckDefinition.objects.all()}
    own = package.checks if package else []
    offered = (name for name, definition in definitions.items() if definition.active)
    return [
        (name, label(definitions[name]) if name in definitions else name)
        for name in dict.fromkeys([*own, *offered])
    ]
