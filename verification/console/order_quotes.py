"""What an order, a launch, a retry or a cancellation costs, as a page shows it.

Each quote has a digest, by which the verb in `orders.py` sees that it costs the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import prefetch_related_objects

from verification.checks.models import CheckResult
from verification.console.order_inputs import Choice, Item, Offer, Values, draft_changes
from verification.reports import launch as launches
from verification.reports.drafts import price_edit
from verification.reports.ends import UNCALLED
from verification.reports.models import PaymentMode, Report, ReportStatus
from verification.reports.pricing import OrderLine, check_prices, may_reuse, quote
from verification.reports.request import (
    Fault,
    Order,
    RuleContext,
    catalogue,
    named_packages,
    named_return_hosts,
    read_orders,
)
from verification.reports.status import ConsentGap, LaunchObstacle
from verification.values.clock import now
from workspaces.models import Client


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
    quoted = quote(client, read_items(client, items, draft))
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
    changed = draft_changes(report, choice, values, offer)
    order, priced, _is_paid = price_edit(client, report, changed)
    return Quote(
        lines=_quoted_lines([priced.lines])[0],
        charge=Decimal(0),
        digest=digest_of([_costs(priced.lines)]),
        orders=[order],
    )


def read_items(client: Client, items: Sequence[Item], draft: bool) -> list[Order]:
    packages = named_packages(client.workspace.pk, list(items))
    hosts = named_return_hosts(client.workspace.pk, list(items))
    context = RuleContext(catalogue(), client.environment, packages, hosts)
    return read_orders(request_body(items, draft), context)


def request_body(items: Sequence[Item], draft: bool) -> dict[str, Any]:
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
    return _quoted_lines(list(lines.values())), digest_of_drafts(costs)


def digest_of_drafts(priced: Mapping[UUID, list[PricedCheck]]) -> str:
    return digest_of(
        [(str(pk), Decimal(0), None), *priced[pk]] for pk in sorted(priced)
    )


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
