"""Packages by the names that clients, reports and rules have for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from django.db.models import Q

from verification.checks.models import CheckPackage

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
