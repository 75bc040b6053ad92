"""Erase one person in one workspace and environment: the request, the job, the proof.

- `request_erasure` enters the request in the register. A hold of staff refuses it, an
  open correction does not.
- `erase_person` finds the person's reports and rules and stops the rules, writes the
  journal, deletes the rules and uploaded files, and erases the reports in batches.
  Each step can be repeated, so that the job goes on where a killed worker was. The
  last transaction writes the certificate.
- The client gets an event for each report, without personal data.
- Data that comes late, such as a source's answer, is refused where it is written, as
  the report is erased by then. `sweep_erasures` erases once more, up to a month later.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from monitoring.models import Rule, locked_rules
from monitoring.pauses import delete_rules, stop_rules
from verification.batches.models import delete_uploads_about
from verification.jobs.claims import sweep
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.notifications.recipients import count_today
from verification.privacy import certificates, journal
from verification.privacy.models import (
    Erasure,
    Origin,
    Outcome,
    RequestKind,
    StaffErasure,
    SubjectRequest,
)
from verification.privacy.people import Found, Person, Proof, carrying, is_held
from verification.privacy.personal_data import (
    erase_reports,
    lock_deliveries,
    refresh_statistics,
)
from verification.privacy.requests import AlreadyAnswered, answer_request, open_request
from verification.privacy.rights_events import erased_event
from verification.privacy.strangers import erase_holder
from verification.reports.ends import end_early
from verification.reports.models import Report, ReportStatus
from verification.reports.status import locked_reports, record_note
from verification.values.clock import now
from webhooks.events import record_events

logger = logging.getLogger(__name__)
ACTOR = "erasure"
TRIGGER = "subject erased"
NOTE = "holder of a mistyped number erased"
HELD = "The operator has to keep a report about this person, and has a reason for it."
# Small enough that nobody waits for the locks of a batch.
BATCH_SIZE = 200
# A worker that has died is replaced within this time.
LOST_AFTER = timedelta(minutes=1)
# Times after the end of an erasure at which late data is looked for: calls under way,
# callbacks, and the events of payment providers, which come for days.
SWEEP_DELAYS = (
    timedelta(minutes=2),
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=7),
    timedelta(days=30),
)


class ErasureHeld(Exception):
    """A hold of staff is in force, so that the person is not erased."""

    def __init__(self) -> None:
        super().__init__(HELD)


class ReportErased(Exception):
    """The retention has erased the report, and nothing tells whose it was."""


def request_erasure(
    report_id: UUID, origin: Origin, *, requested_by: str, channel: str = ""
) -> Erasure:
    """Request the erasure of the report's subject; return an earlier one if it waits.

    Clients and staff erase by the number. A person erases what their page shows:
    `channel` is the one by which they got its code. For an erased report this is the
    erasure that erased it. Raises ErasureHeld, which the register has then, and
    ReportErased.
    """
    report = Report.objects.select_related("workspace").get(pk=report_id)
    proof = Proof.of(report, channel) if origin == Origin.SUBJECT else None
    try:
        return _request(Person.of(report, proof), origin, requested_by, report)
    except ErasureHeld:
        refuse_request(report, origin, requested_by)
        raise


@transaction.atomic
def refuse_request(report: Report, origin: Origin, requested_by: str) -> None:
    """Enter a request that a hold refuses in the register, once a day for a person."""
    if not count_today(f"erasure-refused:{origin}:{report.subject_id}", 1):
        return
    request = open_request(
        RequestKind.ERASURE, origin, requested_by=requested_by, report=report
    )
    answer_request(request, Outcome.REFUSED, reason=HELD)


@transaction.atomic
def _request(
    person: Person, origin: Origin, requested_by: str, report: Report
) -> Erasure:
    found = person.lock()
    # The lock stops an erasure under way, which would end before it is looked for.
    report = locked_reports().get(pk=report.pk)
    if report.erased_at is not None:
        if done := erasure_of(report):
            return done
        raise ReportErased
    return open_erasure(person, found, origin, requested_by, report=report)


def open_erasure(
    person: Person,
    found: Found,
    origin: Origin,
    requested_by: str,
    *,
    report: Report | None = None,
    staff_erasure: StaffErasure | None = None,
) -> Erasure:
    """Enter an erasure and schedule it; the caller holds `Person.lock`.

    It stores the found rows, as the page may show more of them later. Returns a waiting
    erasure instead if that one covers all these rows. Raises ErasureHeld.
    """
    reports = {one.pk for one in found.reports}
    rules = {one.pk for one in found.rules}
    for earlier in _waiting(found.subject_ids):
        if reports <= {*earlier.report_ids} and rules <= {*earlier.rule_ids}:
            return earlier
    if is_held(found.reports):
        raise ErasureHeld
    request = open_request(
        RequestKind.ERASURE,
        origin,
        requested_by=requested_by,
        report=report,
        workspace=person.workspace,
        environment=person.environment,
        subject_id=person.subject_id,
        further_ids=found.subject_ids - {person.subject_id},
    )
    erasure = Erasure.objects.create(
        request=request,
        staff_erasure=staff_erasure,
        report_ids=sorted(reports),
        rule_ids=sorted(rules),
        searched_by=sorted(found.kinds()),
    )
    schedule_job(erase_person, erasure.pk)
    return erasure


def waiting_erasure(report: Report) -> Erasure | None:
    """Return an erasure that has not ended, and erases this report.

    Until the job has looked, that of the client or staff also finds later reports.
    """
    for erasure in _waiting(report.subject_ids):
        is_wide = erasure.request.origin != Origin.SUBJECT and not erasure.found_at
        if is_wide or report.pk in erasure.report_ids:
            return erasure
    return None


def _waiting(subject_ids: Iterable[UUID]) -> QuerySet[Erasure]:
    ids = list(subject_ids)
    waiting = Erasure.objects.filter(
        Q(request__subject_id__in=ids) | Q(request__further_ids__overlap=ids),
        ended_at=None,
    )
    return waiting.select_related("request").order_by("pk")


def erasure_of(report: Report) -> Erasure | None:
    """Return the erasure that has erased this report."""
    erasures = Erasure.objects.filter(report_ids__contains=[report.pk])
    return erasures.select_related("request__workspace").order_by("-pk").first()


@job
def erase_person(erasure_id: str) -> None:
    """Carry out an erasure, or go on with it. Does nothing if it has ended."""
    with advisory_lock(f"erasure:{erasure_id}") as is_mine:
        if not is_mine:
            return
        erasure = _get(erasure_id)
        if erasure.ended_at is None and _carry_out(erasure):
            _end(erasure.pk)


@job
def resume_erasures() -> None:
    """Go on with erasures whose worker died or was stopped."""
    finish_erasures(before=now() - LOST_AFTER)


def finish_erasures(*, before: datetime) -> None:
    """Carry out the erasures that were requested before then and have not ended."""
    left = Erasure.objects.filter(ended_at=None, created_at__lt=before)
    sweep(left, lambda pk: erase_person(str(pk)))


@job
def sweep_erasures() -> None:
    """Erase what came late about erased people; see SWEEP_DELAYS."""
    sweep(Erasure.objects.filter(sweep_at__lte=now()), _sweep)


def _get(erasure_id: UUID | str) -> Erasure:
    return Erasure.objects.select_related("request__workspace").get(pk=erasure_id)


def _carry_out(erasure: Erasure) -> bool:
    """Erase the person; return False if the cluster is stopping before the end."""
    _find(erasure)
    journal.write_erasure(erasure)
    _delete_uploads(erasure)
    _delete_rules(erasure)
    while beat():
        if not _erase_batch(erasure):
            _erase_from_others(erasure)
            return True
    return False


@transaction.atomic
def _find(erasure: Erasure) -> None:
    """Note further reports and rules of the person, and stop the rules.

    Clients and staff erase by the number, whatever came with it until the job began. A
    person erases what their request has noted, and runs of these rules since. Nothing
    is erased before the journal has the ids.
    """
    request = erasure.request
    further = request.further_ids or []
    of_person = Q(
        Q(subject_id=request.subject_id)
        # Before the request, the name decides.
        | Q(subject_id__in=further, created_at__gte=erasure.created_at),
        workspace=request.workspace_id,
        environment=request.environment,
    )
    if erasure.found_at:
        # A request of the client that was under way may have committed one since.
        of_person &= Q(created_at__lte=erasure.found_at)
    of_rules = Q(pk__in=erasure.rule_ids)
    if request.origin == Origin.SUBJECT:
        of_person &= Q(
            monitoring_id__in=erasure.rule_ids, created_at__gte=erasure.created_at
        )
    else:
        of_rules |= of_person
    _leave_edited(erasure, erasure.report_ids)
    rule_ids = [rule.pk for rule in locked_rules().filter(of_rules)]
    # No run comes after this time.
    at = stop_rules(rule_ids)
    reports = Report.objects.filter(of_person, erased_at=None)
    found = reports.values_list("pk", flat=True)
    erasure.report_ids = sorted({*erasure.report_ids, *found})
    erasure.rule_ids = sorted({*erasure.rule_ids, *rule_ids})
    erasure.found_at = erasure.found_at or at
    erasure.save(update_fields=["report_ids", "rule_ids", "found_at"])


def _leave_edited(erasure: Erasure, report_ids: Sequence[UUID]) -> set[UUID]:
    """Take drafts that name another person since the request out of the erasure.

    Returns their ids. A correction leaves the former numbers with its report.
    """
    changed = Report.objects.filter(
        pk__in=report_ids,
        monitoring_id=None,
        erased_at=None,
        updated_at__gt=erasure.created_at,
    )
    others = changed.exclude(carrying(_subject_ids(erasure.request)))
    if edited := {*others.values_list("pk", flat=True)}:
        erasure.report_ids = sorted({*erasure.report_ids} - edited)
        erasure.save(update_fields=["report_ids"])
    return edited


@transaction.atomic
def _delete_rules(erasure: Erasure) -> None:
    count = delete_rules(erasure.rule_ids)
    _count(erasure, Counter({certificates.RULES: count}), reports=0)


def _delete_uploads(erasure: Erasure) -> None:
    """Delete uploads, not yet ordered, that may name the person.

    Later uploads of the client are about a person who has agreed again.
    """
    request = erasure.request
    reports = Report.objects.filter(pk__in=erasure.report_ids, erased_at=None)
    rules = Rule.objects.filter(pk__in=erasure.rule_ids)
    rows = chain[Report | Rule](reports.only("subject"), rules.only("subject"))
    delete_uploads_about(
        request.workspace_id,
        request.environment,
        _subject_ids(request),
        erasure.found_at or now(),
        (row.subject for row in rows if row.subject),
    )


def _subject_ids(request: SubjectRequest) -> list[UUID]:
    ids = [request.subject_id, *(request.further_ids or [])]
    return [one for one in ids if one]


def _erase_from_others(erasure: Erasure) -> None:
    """Erase the person from findings about others, where their number was mistyped.

    A visitor of a link has not proved to be the holder of such a number. Later reports
    stay, as in `_find`.
    """
    request = erasure.request
    if request.origin == Origin.SUBJECT:
        return
    ids = _subject_ids(request)
    others = Report.objects.filter(
        carrying(ids),
        workspace=request.workspace_id,
        environment=request.environment,
        created_at__lte=erasure.found_at,
        erased_at=None,
    )
    for report_id in others.values_list("pk", flat=True):
        with transaction.atomic():
            # Rules come before the reports of their runs.
            list(locked_rules().filter(runs__report=report_id))
            report = locked_reports().get(pk=report_id)
            if erase_holder(report, ids):
                record_note(report, NOTE, ACTOR, now())


@transaction.atomic
def _erase_batch(erasure: Erasure) -> int:
    """Erase some of the reports that are left; return how many it looked at."""
    left = locked_reports().filter(pk__in=erasure.report_ids, erased_at=None)
    locked = list(left.order_by("pk")[:BATCH_SIZE])
    if not locked:
        return 0
    edited = _leave_edited(erasure, [report.pk for report in locked])
    reports = [report for report in locked if report.pk not in edited]
    at, ids = now(), [report.pk for report in reports]
    # The first end locks the account.
    lock_deliveries(ids)
    for report in reports:
        if not report.is_ended:
            # Checks that ran stay billed, open checkouts close.
            end_early(report, ReportStatus.CANCELLED, TRIGGER, ACTOR, at)
    _count(erasure, erase_reports(ids, at), reports=len(ids))
    # This transaction ends the batch, so each report has one event.
    origin = erasure.request.origin
    events = [erased_event(report, origin, erasure.pk, at) for report in reports]
    record_events(events, at)
    return len(locked)


def _count(erasure: Erasure, erased: Counter[str], *, reports: int) -> None:
    """Add what this transaction erases, for the certificate."""
    row = Erasure.objects.select_for_update(of=("self",)).get(pk=erasure.pk)
    if row.ended_at is not None:
        # The certificate is written. The log has later reports.
        if reports:
            logger.warning("erasure %s found %s late reports", row.pk, reports)
        return
    row.counts = dict(+(Counter(row.counts) + erased))
    row.report_count += reports
    row.save(update_fields=["counts", "report_count"])


@transaction.atomic
def _end(erasure_id: UUID) -> None:
    erasure = Erasure.objects.select_for_update(of=("self",)).get(pk=erasure_id)
    if erasure.ended_at is not None:
        return
    at, request = now(), erasure.request
    erasure.ended_at, erasure.sweep_at = at, at + SWEEP_DELAYS[0]
    certificates.certify(erasure, at)
    erasure.save()
    # Answered requests that name the person and no report. What staff answer after the
    # erasure of its report stays, as in `personal_data`. A visitor of a link has not
    # proved to be the person of other reports with the number.
    requests = SubjectRequest.objects.filter(
        answered_at__isnull=False,
        workspace=request.workspace_id,
        environment=request.environment,
        subject_id__in=_subject_ids(request),
    ).exclude(report__erased_at__lt=F("answered_at"))
    if request.origin == Origin.SUBJECT:
        requests = requests.filter(Q(report=None) | Q(report__in=erasure.report_ids))
    requests.update(details=None)
    with suppress(AlreadyAnswered):
        answer_request(request, Outcome.DONE)
    schedule_job(refresh_statistics)


def _sweep(erasure_id: UUID) -> None:
    with advisory_lock(f"erasure:{erasure_id}") as is_mine:
        erasure = _get(erasure_id)
        if not is_mine or erasure.ended_at is None or erasure.sweep_at is None:
            return
        if not _carry_out(erasure):
            return
        for start in range(0, len(erasure.report_ids), BATCH_SIZE):
            _erase_again(erasure, erasure.report_ids[start : start + BATCH_SIZE])
        sweeps = erasure.sweeps + 1
        later = SWEEP_DELAYS[sweeps] if sweeps < len(SWEEP_DELAYS) else None
        Erasure.objects.filter(pk=erasure.pk).update(
            sweeps=sweeps, sweep_at=erasure.ended_at + later if later else None
        )


@transaction.atomic
def _erase_again(erasure: Erasure, report_ids: Sequence[UUID]) -> None:
    reports = locked_reports().filter(pk__in=report_ids, erased_at__isnull=False)
    ids = [report.pk for report in reports.order_by("pk")]
    if late := erase_reports(ids, now()):
        logger.warning("erasure %s found late data: %s", erasure.pk, dict(late))
