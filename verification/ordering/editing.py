"""Editing a draft: nothing is billed and no check runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import repeat
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now
from pydantic import ValidationError

from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.ordering.client import Client
from verification.ordering.creating import (
    RESULT_COLUMNS,
    consent_for,
    payment_for,
    result_rows,
)
from verification.ordering.faults import InvalidRequest, shape_faults
from verification.ordering.holding import hold
from verification.ordering.intake import Order, catalogue, read_order
from verification.ordering.pricing import Line, price_orders, total
from verification.ordering.refusals import NotEditable
from verification.ordering.requests import DraftEdit
from verification.payments.models import PaymentStatus
from verification.reports.models import Report, ReportStatus
from verification.reports.search import entry_rows
from verification.tables import Rows, insert

# An edit of what the subject was shown voids a consent it gave.
SHOWN_TO_SUBJECT = ("subject", "checksRequested", "purpose")


@transaction.atomic
def edit_draft(client: Client, report_id: UUID, body: Mapping[str, Any]) -> Report:
    """Replace the members that the body has; the others stay.

    Raises InvalidRequest, or NotEditable when the report is no draft, or when the edit
    would change an amount that was paid already.
    """
    report = hold(client, report_id)
    if report.status != ReportStatus.DRAFT:
        raise NotEditable(report.status, "Only a draft can be edited.")
    try:
        DraftEdit.model_validate(body)
    except ValidationError as e:
        raise InvalidRequest(shape_faults(e)) from e
    order = _merged(client, report, body)
    at = now()
    lines = price_orders([order], client.workspace.pk, client.environment, at)[0]
    _replace_payment(report, order, lines, body, at)
    _replace_consent(report, order, body, at)
    _replace_results(report, lines, at)
    _rewrite(client, report, order, at)
    return report


def _merged(client: Client, report: Report, body: Mapping[str, Any]) -> Order:
    item = {**as_item(report), **{k: v for k, v in body.items() if v is not None}}
    if "paymentMode" in body and "payer" not in body:
        item.pop("payer", None)
    order = read_order(item, client.environment, catalogue(), draft=True)
    if isinstance(order, list):
        raise InvalidRequest(order)
    return order


def as_item(report: Report) -> dict[str, Any]:
    """The report as the request item that would make it."""
    item: dict[str, Any] = {
        "subject": report.subject,
        "checksRequested": report.checks_requested,
        "purpose": report.purpose,
        "paymentMode": report.payment_mode,
        "reuse": report.reuse,
    }
    if report.reference:
        item["reference"] = report.reference
    if consent := getattr(report, "consent", None):
        item["consent"] = {"mode": consent.mode}
        if consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
            attested = consent.status == Consent.Status.ATTESTED
            item["consent"] |= {"obtained": attested, **(consent.attestation or {})}
    payment = getattr(report, "payment", None)
    if payment and payment.payer:
        item["payer"] = payment.payer
    return item


def _replace_payment(
    report: Report,
    order: Order,
    lines: list[Line],
    body: Mapping[str, Any],
    at: datetime,
) -> None:
    old, amount = getattr(report, "payment", None), total(lines)
    if old and old.status == PaymentStatus.PAID:
        if old.amount != amount or order.payment_mode != report.payment_mode:
            raise NotEditable(
                report.status,
                f"{old.amount} {old.currency} was paid for this draft, and the edit "
                f"would change that to {amount}.",
            )
        return
    if old and old.amount == amount and not {"payer", "paymentMode"} & body.keys():
        return
    if old:
        old.delete()
        del report.payment
    if payment := payment_for(report, order, amount, at):
        payment.save(force_insert=True)


def _replace_consent(
    report: Report, order: Order, body: Mapping[str, Any], at: datetime
) -> None:
    old = getattr(report, "consent", None)
    voided = (
        old
        and old.mode == Consent.Mode.SERVICE_HOSTED
        and old.status != Consent.Status.PENDING
        and any(member in body for member in SHOWN_TO_SUBJECT)
    )
    if "consent" not in body and not voided:
        return
    if old:
        old.delete()
        del report.consent
    if consent := consent_for(report, order, at):
        consent.save(force_insert=True)


def _replace_results(report: Report, lines: list[Line], at: datetime) -> None:
    report.results.all().delete()
    insert(
        Rows(CheckResult, RESULT_COLUMNS, result_rows(report, lines, repeat(at), at))
    )


def _rewrite(client: Client, report: Report, order: Order, at: datetime) -> None:
    subject = order.subject
    report.subject = subject.members
    report.subject_id = subject.in_workspace(client.workspace.pk, client.environment).id
    report.subject_type, report.country = subject.type, subject.country
    report.subject_name = subject.name
    report.checks_requested = [definition.name for definition in order.definitions]
    report.purpose, report.payment_mode = order.purpose, order.payment_mode
    report.reuse, report.updated_at = order.reuse, at
    report.save()
    report.search_entry.delete()
    found_by = iter([(report.pk, subject, report.reference)])
    insert(
        entry_rows(client.workspace.pk, client.environment, found_by, report.created_at)
    )
