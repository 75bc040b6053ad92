"""The numbers on papers, such as `P-1234-ABCD-5678`: which reports they lead to.

People read these numbers out from a PDF, a receipt or a message. Each is made from the
id of its row, and the first letter says what the paper is.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Func, Model, UUIDField
from django.db.models.expressions import Combinable

from verification.consents.models import Consent, ConsentRecord
from verification.db.ids import filter_by_number
from verification.decisions.models import AdverseNotice
from verification.payments.models import Checkout
from verification.privacy.models import Erasure, SubjectRequest
from verification.providers.registry import REFEREE_CHECK
from verification.references.models import Reference
from verification.reports.models import PaymentMode, Report


class _Each(Func):
    """The members of an array, each as a row."""

    function = "unnest"
    set_returning = True
    output_field = UUIDField()


REPORT = F("report_id")
# (letter, model, the reports of a row). Each table has an index of its numbers.
PAPERS: list[tuple[str, type[Model], Combinable]] = [
    ("R", Report, F("id")),
    ("R", Reference, REPORT),
    ("C", ConsentRecord, REPORT),
    ("P", Checkout, REPORT),
    ("N", AdverseNotice, REPORT),
    ("D", SubjectRequest, REPORT),
    # A request to be erased is about all reports of its person.
    ("D", SubjectRequest, _Each("erasure__report_ids")),
    ("E", Erasure, _Each("report_ids")),
]


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper about a report that somebody may read a number from."""

    letter: str
    number: str
    at: datetime


def papers_of(report: Report) -> list[Paper]:
    """Return the receipts of the subject, the payer and the referees, oldest first."""
    found: list[Any] = []
    consent = getattr(report, "consent", None)
    if consent and consent.mode == Consent.Mode.SERVICE_HOSTED:
        found += report.consent_records.defer("evidence")
    if report.payment_mode != PaymentMode.SELF:
        found += report.checkouts.filter(paid_at__isnull=False)
    if REFEREE_CHECK in report.checks_requested:
        answered = report.references.exclude(submitted_at=None, declined_at=None)
        found += answered.defer("answers", "evidence")
    papers = [Paper(row.number[0], row.number, _time_of(row)) for row in found]
    return sorted(papers, key=lambda paper: paper.at)


def _time_of(row: ConsentRecord | Checkout | Reference) -> datetime:
    if isinstance(row, Checkout):
        return row.paid_at or row.created_at
    if isinstance(row, Reference):
        return row.submitted_at or row.declined_at or row.created_at
    return row.created_at


def find_reports_by_number(typed: str) -> list[UUID]:
    """Return the ids of the reports that a paper with this number is about.

    The id of a report itself counts, too: its search entry goes with its subject.

    They are of any workspace: the caller's query has to be of one, or by staff.
    """
    found: set[UUID | None] = set()
    with suppress(ValueError):
        found.add(UUID(typed.strip()))
    for letter, model, reports in PAPERS:
        rows = filter_by_number(model._default_manager.all(), letter, typed)
        if rows is not None:
            found.update(rows.values_list(reports, flat=True))
    return [report_id for report_id in found if report_id]
