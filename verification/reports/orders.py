"""From a request body to orders, or to all that is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connection
from pydantic import BaseModel, ValidationError

from verification.checks.models import CheckDefinition
from verification.payments.registry import accepts_payments
from verification.reports.models import SubjectType
from verification.reports.request import (
    MAX_FAULTS,
    ConsentInput,
    Fault,
    InvalidRequest,
    MemberPath,
    PayerInput,
    ReportItem,
    ReportsEnvelope,
    RuleContext,
    find_faults,
    shape_faults,
)
from verification.reports.subject import Subject

Catalogue = Mapping[str, CheckDefinition]
_cached_catalogue: tuple[str, Catalogue] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One report as it was asked for, every rule kept."""

    subject: Subject
    definitions: list[CheckDefinition]
    purpose: str
    consent: ConsentInput | None
    payment_mode: str
    payer: PayerInput | None
    draft: bool
    reuse: bool
    reference: str | None
    # The monitoring rule whose run it is.
    monitoring_id: UUID | None = None


def catalogue() -> Catalogue:
    """The definitions by name; made anew when one was changed, and else kept.

    Each request needs them, and making the objects takes longer than all its checks.
    """
    global _cached_catalogue
    with connection.cursor() as cursor:
        # Who wrote each row and where it stands: no change leaves both as they were.
        cursor.execute(
            "SELECT string_agg(xmin::text || ctid::text, ',' ORDER BY id) "
            "FROM checks_checkdefinition"
        )
        version = cursor.fetchone()[0]
    if _cached_catalogue is None or _cached_catalogue[0] != version:
        definitions = {d.name: d for d in CheckDefinition.objects.all()}
        _cached_catalogue = version, definitions
    return _cached_catalogue[1]


def read_orders(
    body: Mapping[str, Any],
    environment: str,
    definitions: Catalogue,
    *,
    unanswered: bool = False,
) -> list[Order]:
    """The orders of a create request, or InvalidRequest with their faults.

    The search for faults ends once there are more than are told.
    `unanswered` accepts checks that no source answers.
    """
    faults: list[Fault] = []
    draft = body.get("draft", False) is True
    faults += _envelope_faults(body)
    orders: list[Order] = []
    reports = body.get("reports")
    if not faults or not any(f.path[:1] == ("reports",) for f in faults):
        for number, item in enumerate(reports or ()):
            if len(faults) > MAX_FAULTS:
                break
            found = read_order(
                item,
                environment,
                definitions,
                draft=draft,
                at=("reports", number),
                unanswered=unanswered,
            )
            if isinstance(found, Order):
                orders.append(found)
            else:
                faults += found
    if faults:
        raise InvalidRequest(faults)
    return orders


def read_order(
    item: Any,
    environment: str,
    definitions: Catalogue,
    *,
    draft: bool,
    at: MemberPath = (),
    unanswered: bool = False,
) -> Order | list[Fault]:
    """One item; `draft` is what holds where the item does not say it."""
    if isinstance(item, dict) and isinstance(item.get("draft"), bool):
        draft = item["draft"]
    known = RuleContext(
        definitions, draft, environment, accepts_payments(environment), unanswered
    )
    try:
        request = ReportItem.model_validate(item)
    except ValidationError as e:
        faults = shape_faults(e, at)
        wrong = {fault.path for fault in faults}
        readable = _null_faulty_members(item, [path[len(at) :] for path in wrong])
        if isinstance(readable, dict):
            faults += [
                f for f in _find_item_faults(readable, known, at) if f.path not in wrong
            ]
        return faults
    if faults := _find_item_faults(item, known, at):
        return faults
    return _order(request, definitions, draft)


def _envelope_faults(body: Mapping[str, Any]) -> list[Fault]:
    try:
        ReportsEnvelope.model_validate(body)
    except ValidationError as e:
        return shape_faults(e)
    return []


def _find_item_faults(
    item: Mapping[str, Any], known: RuleContext, at: MemberPath
) -> list[Fault]:
    found = islice(find_faults(item, known), MAX_FAULTS + 1)
    return [Fault((*at, *f.path), f.code, f.detail) for f in found]


def _null_faulty_members(value: Any, wrong: Collection[MemberPath]) -> Any:
    """The value with null for all that is wrong in itself.

    Only the way to what is wrong is walked: a stranger decides how deep the rest is.
    """
    if () in wrong:
        return None
    if not (wrong and isinstance(value, dict | list)):
        return value
    below: dict[Any, list[MemberPath]] = defaultdict(list)
    for step, *rest in wrong:
        below[step].append(tuple(rest))
    rewritten = copy(value)
    for step, paths in below.items():
        # What is missing is wrong where there is nothing.
        if isinstance(value, list) or step in value:
            rewritten[step] = _null_faulty_members(value[step], paths)
    return rewritten


def _order(request: ReportItem, definitions: Catalogue, draft: bool) -> Order:
    return Order(
        subject=Subject.of(_members(request.subject)),
        definitions=[definitions[name] for name in request.checks_requested],
        purpose=request.purpose,
        consent=request.consent,
        payment_mode=request.payment_mode.value,
        payer=request.payer,
        draft=draft,
        reuse=request.reuse,
        reference=request.reference,
    )


def _members(shape: BaseModel) -> dict[str, Any]:
    members = shape.model_dump(by_alias=True, exclude_none=True)
    members["subjectType"] = SubjectType(members["subjectType"]).value
    return members
