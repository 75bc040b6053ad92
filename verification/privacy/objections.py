"""Objection: the person stops monitoring and further use of findings.

An objection restricts all reports about the person in the workspace and environment:
their results are not reused, their events are no longer sent, and rules on the person
pause until the client has a newer consent. It cancels reports that run or wait for
payment. The client gets an event for each report.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from monitoring.models import Rule, RuleStatus
from monitoring.pauses import pause_for_objection
from verification.decisions.cases import close_cases, reports_in_review
from verification.decisions.decide import take_back_outdated
from verification.jobs.queue import job, schedule_job
from verification.privacy import journal
from verification.privacy.erasure import ReportErased
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.privacy.people import Person, Proof
from verification.privacy.personal_data import stop_deliveries
from verification.privacy.requests import answer_request, deadline, open_request
from verification.privacy.rights_events import restricted_event
from verification.privacy.withdrawals import (
    STOPPABLE_STATUSES,
    monitoring_of,
    stop_reuse,
)
from verification.reports.ends import end_early
from verification.reports.models import Report, ReportStatus, objection_ids
from verification.reports.status import (
    lock_orders,
    lock_person,
    locked_reports,
    record_note,
)
from verification.values.clock import now
from webhooks.events import record_events
from webhooks.models import Event

NOTE = "subject objected"
REPEATED_WITHIN = timedelta(hours=1)


@transaction.atomic
def object_to_use(
    report_id: UUID,
    origin: Origin,
    *,
    requested_by: str,
    reason: str = "",
    channel: str = "",
) -> SubjectRequest:
    """Restrict all reports about the report's subject, and pause the rules.

    A subject's objection covers the reports of their `Proof`: `channel` is the channel
    by which the subject got the code of the page. Returns the earlier request if there
    is no newer order. Raises ReportErased.
    """
    report = Report.objects.select_related("workspace").get(pk=report_id)
    proof = Proof.of(report, channel) if origin == Origin.SUBJECT else None
    person = Person.of(report, proof)
    person.lock()
    where = report.workspace_id, report.environment
    lock_person(*(others := objection_ids(*where, report.subject or {})))
    lock_orders(*where, for_objection=True)
    # The lock makes sure that earlier orders are committed and found.
    found = person.find()
    report.refresh_from_db(fields=["subject_id", "erased_at"])
    if report.erased_at is not None:
        raise ReportErased
    own = [other.pk for other in found.reports]
    # Rules that may be about the person pause, too, as after a withdrawal.
    by_number = Person.of(report).find() if proof else found
    rules = {r.pk for r in found.rules} | {*monitoring_of(report, by_number)[0]}
    is_monitored = Rule.objects.filter(pk__in=rules, status=RuleStatus.ACTIVE).exists()
    # A later one also voids a consent that was given since the one before.
    earlier = SubjectRequest.objects.filter(
        kind=RequestKind.OBJECTION,
        subject_id=report.subject_id,
        outcome=Outcome.DONE,
        received_at__gt=now() - REPEATED_WITHIN,
    )
    last = earlier.order_by("-pk").first()
    if last and not (is_monitored or _is_used(own)):
        return last
    request = open_request(
        RequestKind.OBJECTION,
        origin,
        requested_by=requested_by,
        report=report,
        further_ids={*found.subject_ids, *others} - {report.subject_id},
        details={"reason": reason} if reason else None,
    )
    stopped = [*own, *rules]
    _stop(stopped, origin, requested_by)
    answer_request(request, Outcome.DONE)
    schedule_job(write_objection, request.pk, *stopped)
    return request


@job
def write_objection(request_id: str, *stopped: str) -> None:
    """Write the journal's file; `stopped` are the person's reports and rules."""
    request = SubjectRequest.objects.select_related("report").get(pk=request_id)
    if request.report is None or request.subject_id is None:
        raise ValueError("an objection names its report and its subject")
    journal.write_stop(
        "objection",
        request.pk,
        request.received_at,
        request.report,
        origin=request.origin,
        **journal.person_of(request),
        stopped=stopped,
    )


@transaction.atomic
def repeat(entry: dict[str, Any]) -> None:
    """Enter an objection of the journal, and stop again what the backup brought back.

    The request keeps its id and time. The report may be younger than the backup. After
    `rehash` the person gets the ids that the file has under its newer LOOKUP_KEY.
    """
    at, origin = datetime.fromisoformat(entry["at"]), Origin(entry["origin"])
    ids = journal.ids_of_person(entry)
    _, is_new = SubjectRequest.objects.update_or_create(
        pk=UUID(entry["objection"]),
        defaults=ids,
        create_defaults={
            **ids,
            "kind": RequestKind.OBJECTION,
            "origin": origin,
            "workspace_id": UUID(entry["workspace"]),
            "environment": entry["environment"],
            "report": Report.objects.filter(pk=entry["report"]).first(),
            "requested_by": journal.ACTOR,
            "received_at": at,
            "due_at": deadline(RequestKind.OBJECTION, at),
            "answered_at": at,
            "outcome": Outcome.DONE,
        },
    )
    # Until `rehash`, each replay repeats the file. The subject may have consented
    # again since the first one.
    if is_new:
        _stop(list(map(UUID, entry["stopped"])), origin, journal.ACTOR)


def _is_used(own: Sequence[UUID]) -> bool:
    """Return whether one of these reports was ordered after an objection, or goes on.

    The subject may have agreed to it after they objected.
    """
    used = Q(restricted_at=None) | Q(
        status__in=STOPPABLE_STATUSES, completed_at__isnull=True
    )
    return Report.objects.filter(used, pk__in=own).exists()


def _stop(stopped: Sequence[UUID], origin: Origin, by: str) -> None:
    """Pause these rules, and restrict these reports and those of the rules' runs."""
    # Rules come before the reports of their runs.
    runs = pause_for_objection(stopped).values_list("pk", flat=True)
    own = [*stopped, *runs]
    # All of them before the first is cancelled, which locks the account.
    locked = list(locked_reports().filter(pk__in=own, erased_at=None).order_by("pk"))
    reports = [report for report in locked if report.restricted_at is None]
    at, ids = now(), [report.pk for report in reports]
    Report.objects.filter(pk__in=ids).update(restricted_at=at, updated_at=at)
    stop_deliveries(ids)
    stop_reuse(ids)
    Event.objects.filter(report_id__in=ids).update(restricted_at=at)
    close_cases(set(ids) - reports_in_review(ids), at)
    for report in locked:
        if report.status in STOPPABLE_STATUSES and not report.is_ended:
            end_early(report, ReportStatus.CANCELLED, NOTE, by, at)
        elif report in reports:
            report.restricted_at = at
            take_back_outdated(report)
            record_note(report, NOTE, by, at)
    record_events([restricted_event(one, origin, at) for one in reports], at)
