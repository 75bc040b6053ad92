"""Turn a request body into orders, or raise InvalidRequest with its faults."""

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
    """The validated request for one report."""

    subject: Subject
    definitions: list[CheckDefinition]
    purpose: str
    consent: ConsentInput | None
    payment_mode: str
    payer: PayerInput | None
    draft: bool
    reuse: bool
    reference: str | None
    # The monitoring rule, if the report is one of its runs
    monitoring_id: UUID | None = None


def catalogue() -> Catalogue:
    """Return the check definitions by name, cached until one of them changes.

    The cache saves more time than the validation of a request takes.
    """
    global _cached_catalogue
    with connection.cursor() as cursor:
        # Every update gives a row another xmin or ctid.
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
    """Return the orders of a create request, or raise InvalidRequest.

    The search stops at more than MAX_FAULTS faults. `unanswered` accepts checks that
    no source answers.
    """
    faults = _envelope_faults(body)
    orders: list[Order] = []
    is_readable = not any(fault.path[:1] == ("reports",) for fault in faults)
    for number, item in enumerate(body["reports"] if is_readable else ()):
        if len(faults) > MAX_FAULTS:
            break
        order = read_order(
            item,
            environment,
            definitions,
            draft=body.get("draft") is True,
            at=("reports", number),
            unanswered=unanswered,
        )
        if isinstance(order, Order):
            orders.append(order)
        else:
            faults += order
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
    """Return the item's order or its faults, whose paths start with `at`.

    `draft` is the default for items that leave it out.
    """
    if isinstance(item, dict) and isinstance(item.get("draft"), bool):
        draft = item["draft"]
    context = RuleContext(
        definitions, draft, environment, accepts_payments(environment), unanswered
    )
    try:
        request = ReportItem.model_validate(item)
    except ValidationError as e:
        faults = shape_faults(e, at)
        wrong = {fault.path for fault in faults}
        readable = _null_faulty_members(item, [path[len(at) :] for path in wrong])
        if isinstance(readable, dict):
            further = _find_item_faults(readable, context, at)
            faults += [fault for fault in further if fault.path not in wrong]
        return faults
    if faults := _find_item_faults(item, context, at):
        return faults
    return _order(request, definitions, draft)


def _envelope_faults(body: Mapping[str, Any]) -> list[Fault]:
    try:
        ReportsEnvelope.model_validate(body)
    except ValidationError as e:
        return shape_faults(e)
    return []


def _find_item_faults(
    item: Mapping[str, Any], context: RuleContext, at: MemberPath
) -> list[Fault]:
    faults = islice(find_faults(item, context), MAX_FAULTS + 1)
    return [Fault((*at, *f.path), f.code, f.detail) for f in faults]


def _null_faulty_members(value: Any, wrong: Collection[MemberPath]) -> Any:
    """Return a copy of the value with null at these paths.

    It walks along these paths only, as the client decides how deep its body is.
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
        # The path of a missing member leads nowhere.
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
