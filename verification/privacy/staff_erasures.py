"""Erasures that staff request, and that a second person approves.

They mean the subject of one report in its workspace, or, by document numbers, a person
or company in all workspaces. A request that nobody decides is rejected by the clock, so
that the numbers are not kept for ever. If the person is not erased, it becomes an open
entry of the register.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from monitoring.models import Rule
from verification.backoffice import audit
from verification.backoffice.approvals import (
    DecisionRefused,
    StaffActor,
    record_approval,
    record_rejection,
)
from verification.db.ids import uuid7
from verification.jobs.claims import sweep
from verification.jobs.queue import job
from verification.privacy.erasure import ErasureHeld, open_erasure
from verification.privacy.models import Origin, RequestKind, StaffErasure
from verification.privacy.people import Found, Person, carrying, is_held
from verification.privacy.requests import open_request
from verification.reports.models import IDENTIFIERS, Report, Subject
from verification.reports.status import lock_person, locked_reports
from verification.values.clock import now
from workspaces.models import Environment, Workspace

ACTOR = "retention"
TIME_TO_DECIDE = timedelta(days=30)


class StaffErasureRefused(DecisionRefused):
    """The erasure is refused; the text says why."""


@transaction.atomic
def request_for_report(report_id: UUID, reason: str, *, by: StaffActor) -> StaffErasure:
    """Request the erasure of the report's subject in its workspace and environment."""
    report = locked_reports().get(pk=report_id)
    if report.erased_at is not None:
        raise StaffErasureRefused("The report is erased already.")
    if erasures_to_decide().filter(report=report).exists():
        raise StaffErasureRefused("It is requested already, and waits for approval.")
    row = StaffErasure(report=report)
    return _save(row, [Person.of(report)], reason, by)


@transaction.atomic
def request_for_person(
    person: Mapping[str, str],
    reason: str,
    *,
    by: StaffActor,
    page: UUID | None = None,
) -> StaffErasure:
    """Request the erasure of a person in all workspaces.

    `person` has subjectType, country and one or more of IDENTIFIERS. `page` is the id
    of the row, if a form was shown.
    """
    row = StaffErasure(pk=page or uuid7(), person=dict(person))
    return _save(row, _find(person), reason, by)


def _save(
    row: StaffErasure, people: list[Person], reason: str, by: StaffActor
) -> StaffErasure:
    if not people:
        raise StaffErasureRefused("No report or rule is about this person.")
    everything = [person.find() for person in people]
    if any(is_held(found.reports) for found in everything):
        raise StaffErasureRefused("A report about this person is held.")
    row.report_count = sum(len(found.reports) for found in everything)
    row.workspace_count = len({person.workspace.pk for person in people})
    rows = [one for found in everything for one in (*found.reports, *found.rules)]
    row.found_ids = [one.pk for one in rows]
    further = {one for found in everything for one in found.subject_ids}
    row.subject_ids = [*dict.fromkeys([*(one.subject_id for one in people), *further])]
    row.reason, row.requested_by, row.requested_by_user = reason, by.name, by.user or 0
    row.save(force_insert=True)
    return row


@transaction.atomic
def approve(erasure_id: UUID, *, by: StaffActor) -> StaffErasure:
    """Start the erasures. Raises StaffErasureRefused, also while a report is held."""
    row = _lock(erasure_id)
    record_approval(row, by, StaffErasureRefused)
    people, ids = _people(row), row.subject_ids or []
    lock_person(*(one for person in people for one in person.find().subject_ids), *ids)
    left = _find_left(row, people)
    if not left:
        raise StaffErasureRefused("Everything about this person is erased already.")
    for person, found in left:
        try:
            erasure = open_erasure(
                person,
                found,
                Origin.STAFF,
                row.requested_by,
                report=row.report,
                staff_erasure=row,
            )
        except ErasureHeld as e:
            raise StaffErasureRefused("A report about this person is held.") from e
        if erasure.staff_erasure_id != row.pk:
            row.earlier_erasures.append(erasure.pk)
    row.status = StaffErasure.Status.APPROVED
    row.person = row.found_ids = row.subject_ids = None
    row.save()
    return row


@transaction.atomic
def reject(erasure_id: UUID, *, by: StaffActor) -> StaffErasure:
    """Reject the request; its requester may too."""
    row = _lock(erasure_id)
    record_rejection(row, by, StaffErasureRefused)
    row.status = StaffErasure.Status.REJECTED
    row.person = row.found_ids = row.subject_ids = None
    row.save()
    return row


@job
def erase_undecided() -> None:
    """Reject requests that nobody has decided in time, and erase their numbers."""
    # The release before leaves ids in what it decides during a rolling upgrade.
    decided = StaffErasure.objects.exclude(status=StaffErasure.Status.REQUESTED)
    decided = decided.filter(found_ids__isnull=False)
    decided.update(found_ids=None, subject_ids=None)
    before = now() - TIME_TO_DECIDE
    sweep(erasures_to_decide().filter(created_at__lt=before), _reject_undecided)


@transaction.atomic
def _reject_undecided(erasure_id: UUID) -> None:
    # Staff may have decided at the last moment.
    with suppress(StaffErasureRefused):
        row = _lock(erasure_id)
        reject(erasure_id, by=StaffActor(0, ACTOR))
        action = f"{audit.noun(row)}.rejected"
        audit.record(action, audit.SERVICE, row, reason="Nobody decided in time")
        # A request of 1.0.0 does not name the reports it found: some may be left.
        if row.found_ids and not _find_left(row, _people(row)):
            return
        # The person still waits. The officers read that the answer is overdue.
        open_request(
            RequestKind.ERASURE,
            Origin.STAFF,
            requested_by=row.requested_by,
            report=row.report,
            # The numbers are erased; the requester may still know the person.
            details={"request": row.reason, "staffErasure": str(row.pk)},
            received_at=row.created_at,
        )


def erasures_to_decide() -> QuerySet[StaffErasure]:
    return StaffErasure.objects.filter(status=StaffErasure.Status.REQUESTED)


def _lock(erasure_id: UUID) -> StaffErasure:
    rows = StaffErasure.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("report__workspace").get(pk=erasure_id)


def _people(row: StaffErasure) -> list[Person]:
    ids = row.subject_ids or []
    if row.report and row.report.erased_at and ids:
        # Nothing else tells whose the report was.
        row.report.subject_id = ids[0]
    return [Person.of(row.report)] if row.report else _find(row.person or {}, ids)


def _find_left(row: StaffErasure, people: list[Person]) -> list[tuple[Person, Found]]:
    """Return those of the people with reports or rules that are not erased."""
    everything = [(person, _find_again(row, person)) for person in people]
    return [(one, found) for one, found in everything if found.reports or found.rules]


def _find_again(row: StaffErasure, person: Person) -> Found:
    """Return what is found now, and what the request found and is still there."""
    found, ids = person.find(), {*(row.subject_ids or [])}
    scope = {"workspace": person.workspace, "environment": person.environment}
    # A draft may name another person by now.
    reports = Report.objects.filter(
        carrying(ids), **scope, pk__in=row.found_ids or [], erased_at=None
    )
    rules = Rule.objects.filter(**scope, pk__in=row.found_ids or [], subject_id__in=ids)
    theirs = {one for report in reports for one in report.subject_ids}
    theirs |= {rule.subject_id for rule in rules}
    return Found(
        [*{*found.reports, *reports}],
        [*{*found.rules, *rules}],
        found.subject_ids | (theirs & ids),
    )


def _find(
    person: Mapping[str, str], further_ids: Collection[UUID] = ()
) -> list[Person]:
    """Return the person in each workspace and environment with reports or rules.

    `further_ids` are ids that an earlier search found, whose rows may be erased.
    The keyed id of a subject is another one in each of them.
    """
    shared = {name: person[name] for name in ("subjectType", "country")}
    # The name is no part of the id of a subject with a document.
    documents = [
        Subject({**shared, "fullName": "", "registrationNumber": "", key: person[key]})
        for key in IDENTIFIERS
        if person.get(key)
    ]
    known = {
        document.in_workspace(workspace.pk, environment).id: (workspace, environment)
        for workspace in Workspace.objects.all()
        for environment in Environment.values
        for document in documents
    }
    reports = Report.objects.filter(carrying(list(known)), erased_at=None)
    rules = Rule.objects.filter(subject_id__in=list(known), created_at__lte=now())
    found = {one for report in reports for one in report.subject_ids}
    found |= {*rules.values_list("subject_id", flat=True), *further_ids}
    return [Person(*known[one], one) for one in sorted(found & {*known})]
