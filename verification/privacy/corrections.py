"""Corrections: a subject says that a finding is wrong, and a reviewer decides.

The reviewer is staff, or an owner or administrator of the client. They take the
correction, run the check again free of charge, and accept the new result or confirm the
old one. The re-run is another row of the same check. It changes nothing of the report
until it is accepted; then it takes revision 0, and the old result gets a number. If it
asked with corrected details, they become those of the report.

While a correction is open, the report says so wherever it is shown, its retention
waits, and the disputed finding is not reused.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext_noop as _

from monitoring.alerts import snapshot_of
from monitoring.models import Baseline, locked_rules
from monitoring.rules import set_subject
from verification import links
from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.models import ActorKind
from verification.checks.due_checks import wake_up
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.consents.links import opens_data
from verification.consents.subject_messages import messages_to
from verification.decisions.cases import refresh_case
from verification.decisions.decide import review_decisions, take_back_outdated
from verification.decisions.findings import results_with_same_finding
from verification.decisions.notices import link_of
from verification.decisions.policies import schedule_policy
from verification.files.storage import StoredFile, delete_unused, store
from verification.files.uploads import UploadedFile
from verification.golive.applications import ActingUser
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.privacy.erasure import waiting_erasure
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    CorrectionDocument,
    CorrectionStatus,
    Origin,
    Outcome,
    RequestKind,
    Rerun,
    SubjectRequest,
)
from verification.privacy.requests import AlreadyAnswered, answer_request, open_request
from verification.privacy.retention import is_claimed
from verification.privacy.rights_events import correction_event
from verification.reports.drafts import write_subject
from verification.reports.ends import close_references, refresh_score
from verification.reports.models import (
    IDENTIFIERS,
    NAME_PARTS,
    KnownSubject,
    Report,
    Subject,
)
from verification.reports.objections import withdrew_from_monitoring
from verification.reports.request import (
    SUBJECT_MEMBERS,
    InvalidRequest,
    Order,
    RuleContext,
    as_sent,
    catalogue,
    no_consent_reason,
    no_source_reason,
    read_order,
)
from verification.reports.status import (
    SUBJECT_ACTOR,
    lock_person,
    locked_reports,
    record_note,
)
from verification.sources.calls import close_calls
from verification.values.clock import now
from verification.values.local_time import utc_text
from webhooks.events import record_events
from webhooks.models import Event
from workspaces.models import Environment

C = CorrectionStatus
MAX_DOCUMENTS = 3
# Each re-run may cost the operator a call to a source.
MAX_RERUNS = 5
# A person who opens and withdraws again and again writes to the client each time.
CORRECTIONS_PER_DAY = 10
OUTCOMES = {
    C.CORRECTED: Outcome.DONE,
    C.CONFIRMED: Outcome.REFUSED,
    C.WITHDRAWN: Outcome.WITHDRAWN,
}
# For the register, which names no person: the reason itself may.
REGISTER_REASONS = {C.CONFIRMED: "The review confirmed the finding."}
NAMES = {"fullName", *NAME_PARTS}


class Obstacle(StrEnum):
    """Why a reviewer's verb is refused."""

    TAKE_FIRST = _("Take the correction for review first.")
    CHANGED = _("Somebody took or decided it meanwhile.")
    RUNNING = _("The check is running again already.")
    RUN_TOO_OFTEN = _("The check has run again too often.")
    NO_CONSENT = _("The person's consent does not hold, so no source can be asked.")
    NO_SOURCE = _("No source that the person agreed to answers this check at present.")
    ERASED = _("The person is being erased.")
    NOT_RUN = _("The check has to be run again first, and to complete.")
    NO_REASON = _("The person has to read a reason.")
    STAFF_ONLY = _("Only staff of the operator run it with other details.")
    NAME_AND_NUMBER = _(
        "The name and the number were both changed, so it would be somebody else."
    )


class CorrectionRefused(DecisionRefused):
    """The reviewer's verb changed nothing."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(f"Nothing was done: {obstacle}")
        self.obstacle = obstacle


class NoFinding(Exception):
    """The report has no such present finding, or it is being erased."""


class AlreadyDisputed(Exception):
    """A correction of this finding is open."""


class TooManyCorrections(Exception):
    """The report had CORRECTIONS_PER_DAY within a day."""


class NotWithdrawable(Exception):
    """The correction is decided."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The words of the subject about a finding; `language` is that of the page."""

    what: str
    why: str
    language: str


def open_correction(
    report_id: UUID,
    result_id: UUID,
    statement: Statement,
    files: Sequence[UploadedFile] = (),
) -> Correction:
    """Open the correction of a present finding, for its subject.

    Call it outside transactions: it stores the files. Raises NoFinding,
    AlreadyDisputed and TooManyCorrections.
    """
    if len(files) > MAX_DOCUMENTS:
        raise ValueError(f"a correction takes {MAX_DOCUMENTS} documents")
    stored: list[tuple[UploadedFile, StoredFile]] = []
    try:
        for file in files:
            stored.append((file, store(file.file.content)))
        return _open(report_id, result_id, statement, stored)
    except BaseException:
        for _, sealed in stored:
            delete_unused(sealed.name, CorrectionDocument)
        raise


@transaction.atomic
def _open(
    report_id: UUID,
    result_id: UUID,
    statement: Statement,
    stored: Sequence[tuple[UploadedFile, StoredFile]],
) -> Correction:
    report = locked_reports().get(pk=report_id)
    at = now()
    result = report.results.filter(
        pk=result_id, status=ResultStatus.COMPLETED, finding__isnull=False
    ).first()
    if result is None or report.erased_at or is_claimed(report):
        raise NoFinding
    if result.disputed_at:
        raise AlreadyDisputed
    today = Correction.objects.filter(
        report=report, created_at__gt=at - timedelta(days=1)
    )
    if today.count() >= CORRECTIONS_PER_DAY:
        raise TooManyCorrections
    request = open_request(
        RequestKind.CORRECTION,
        Origin.SUBJECT,
        report=report,
        requested_by=SUBJECT_ACTOR,
    )
    correction = Correction.objects.create(
        request=request,
        report=report,
        result=result,
        check_name=result.name,
        statement=asdict(statement),
        created_at=request.received_at,
    )
    CorrectionDocument.objects.bulk_create(
        CorrectionDocument(
            correction=correction,
            name=file.name,
            content_type=file.file.content_type,
            size=len(file.file.content),
            file=sealed.name,
            data_key=sealed.data_key,
        )
        for file, sealed in stored
    )
    CheckResult.every.filter(pk=result.pk).update(disputed_at=at)
    _record(report, correction, Event.Name.CORRECTION_OPENED, SUBJECT_ACTOR, at)
    receipt = _subject_messages(report, correction, Kind.CORRECTION_RECEIPT, "receipt")
    notify(*receipt, _client_message(report, correction))
    return correction


@transaction.atomic
def take(correction_id: UUID, by: ActingUser) -> Correction:
    """Take an open correction for review. Raises CorrectionRefused.

    A reviewer who has it in review already gets it as it is.
    """
    _, correction = _lock(correction_id)
    if correction.status == C.IN_REVIEW and correction.taken_by_user == by.user:
        return correction
    _require(correction, C.OPEN)
    correction.status = C.IN_REVIEW
    correction.taken_by, correction.taken_by_user = _name(by), by.user
    correction.taken_at = now()
    correction.save()
    audit.record("correction.taken", by.actor, correction)
    return correction


@transaction.atomic
def rerun(
    correction_id: UUID, by: ActingUser, details: Mapping[str, str] | None = None
) -> CheckResult:
    """Run the check again, free of charge, and with `details` of the subject corrected.

    A client could look anybody up in this way, so only staff change details, and never
    both name and number. Raises CorrectionRefused, and InvalidRequest if the details do
    not make an order.
    """
    report, correction = _lock(correction_id)
    _require(correction, C.IN_REVIEW)
    result = correction.result
    rows = CheckResult.every.filter(report=report, name=result.name)
    if obstacle := _rerun_obstacle(report, correction):
        raise CorrectionRefused(obstacle)
    known = report.subject or {}
    changed = {
        key: value
        for key, value in (details or {}).items()
        if value and value != str(known.get(key, ""))
    }
    is_staff = by.actor.kind == ActorKind.STAFF
    if changed and not is_staff:
        raise CorrectionRefused(Obstacle.STAFF_ONLY)
    fields = set(changed).union(*correction.reruns.values_list("fields", flat=True))
    if fields & NAMES and fields & set(IDENTIFIERS):
        raise CorrectionRefused(Obstacle.NAME_AND_NUMBER)
    inputs = _corrected_subject(report, result.definition, changed) if changed else None
    at = now()
    correction.rerun = CheckResult.every.create(
        report=report,
        definition=result.definition,
        name=result.name,
        position=result.position,
        revision=_next_revision(rows),
        # The sum of a report's attempts never falls: each end has one of its own.
        attempt=result.attempt,
        inputs=inputs,
        next_attempt_at=at,
        turn_at=at,
        created_at=at,
    )
    correction.save(update_fields=["rerun"])
    Rerun.objects.create(
        correction=correction,
        result=correction.rerun,
        origin=Origin.STAFF if is_staff else Origin.CLIENT,
        fields=sorted(changed),
        created_at=at,
    )
    record_note(report, "check run again", _name(by), at)
    audit.record("correction.rerun", by.actor, correction, fields=sorted(changed))
    wake_up()
    return correction.rerun


@transaction.atomic
def correct(correction_id: UUID, by: ActingUser, reason: str) -> Correction:
    """Accept the re-run as the result of the check, with the details that it changed.

    Raises CorrectionRefused.
    """
    read = Correction.objects.select_related("report", "rerun").get(pk=correction_id)
    people: set[UUID] = set()
    if details := _corrected_details(read):
        people = {*read.report.subject_ids, *details.ids}
        lock_person(*people)
    # Rules are locked before the reports of their runs.
    rules = list(locked_rules().filter(runs__report=read.report_id))
    report, correction = _lock(correction_id)
    _require(correction, C.IN_REVIEW)
    new, subject = correction.rerun, _corrected_details(correction)
    if new is None or new.status != ResultStatus.COMPLETED or new.finding is None:
        raise CorrectionRefused(Obstacle.NOT_RUN)
    at = now()
    question = correction.result.question
    if subject:
        if not {report.subject_id, subject.id} <= people:
            raise CorrectionRefused(Obstacle.CHANGED)
        if waiting_erasure(report):
            raise CorrectionRefused(Obstacle.ERASED)
        stale = _checks_about_another(correction)
        for rule in rules:
            # Otherwise the next run asks about the owner of the wrong number again.
            set_subject(rule, Subject(_correct_members(correction, rule.subject)))
            rule.save()
            others = rule.baselines.exclude(result_id=correction.result_id)
            others.filter(check_name__in=stale).delete()
        _set_subject(report, subject, new)
        if question:
            inputs = [entry["key"] for entry in new.definition.required_inputs]
            question = subject.question(new.name, inputs)
    # A result that asked with other details than the report has is not reused.
    _supersede(report, correction.result, new, None if new.inputs else question)
    refresh_score(report, at)
    refresh_case(report)
    take_back_outdated(report)
    if same := results_with_same_finding(correction.result):
        schedule_job(review_decisions, *(one.report_id for one in same))
    _decide(report, correction, C.CORRECTED, _name(by), reason, at)
    # The reason may name the person, and the audit trail stays.
    audit.record("correction.corrected", by.actor, correction)
    return correction


@transaction.atomic
def confirm(correction_id: UUID, by: ActingUser, reason: str) -> Correction:
    """Confirm the finding as it is. Raises CorrectionRefused."""
    report, correction = _lock(correction_id)
    _require(correction, C.IN_REVIEW)
    _decide(report, correction, C.CONFIRMED, _name(by), reason, now())
    audit.record("correction.confirmed", by.actor, correction)
    return correction


@transaction.atomic
def withdraw(correction_id: UUID) -> Correction:
    """Withdraw an open correction, for its subject. Raises NotWithdrawable.

    A second withdrawal changes nothing.
    """
    report, correction = _lock(correction_id)
    if correction.status == C.WITHDRAWN:
        return correction
    if not correction.is_open:
        raise NotWithdrawable
    _decide(report, correction, C.WITHDRAWN, SUBJECT_ACTOR, "", now())
    return correction


def stop_reruns(report: Report) -> None:
    """Stop the re-runs of a report whose consent is withdrawn. The caller locks it."""
    opened = Correction.objects.filter(report=report, status__in=OPEN_CORRECTIONS)
    for correction in opened.select_related("rerun"):
        _stop_rerun(correction, now())


@job
def notify_reviewers(*result_ids: str) -> None:
    """Tell the reviewers of open corrections that these re-runs have ended."""
    waiting = Correction.objects.filter(
        rerun__in=[UUID(one) for one in result_ids],
        status=C.IN_REVIEW,
        taken_by_user__is_active=True,
    )
    rows = waiting.select_related("taken_by_user", "report__workspace", "rerun")
    notify(*(_reviewer_message(correction) for correction in rows))


def correctable_details(correction: Correction) -> dict[str, str]:
    """Return the details of the subject that a re-run may ask with, as texts."""
    known = correction.report.subject or {}
    inputs = correction.result.definition.required_inputs
    names = ["fullName", *(e["key"] for e in inputs if e["type"] != "NUMBER")]
    return {name: str(known.get(name) or "") for name in dict.fromkeys(names)}


def _lock(correction_id: UUID) -> tuple[Report, Correction]:
    """Return the correction with its report, which is locked.

    Every writer of corrections locks the report first.
    """
    report_id = Correction.objects.values_list("report_id", flat=True).get(
        pk=correction_id
    )
    report = locked_reports().get(pk=report_id)
    correction = Correction.objects.select_related("request", "rerun").get(
        pk=correction_id
    )
    correction.report = report
    return report, correction


def _require(correction: Correction, status: CorrectionStatus) -> None:
    if correction.status == C.OPEN and status == C.IN_REVIEW:
        raise CorrectionRefused(Obstacle.TAKE_FIRST)
    if correction.status != status:
        raise CorrectionRefused(Obstacle.CHANGED)


def _name(by: ActingUser) -> str:
    return f"{by.actor.kind.lower()} {by.actor.name}"[:100]


def _rerun_obstacle(report: Report, correction: Correction) -> Obstacle | None:
    """Return why the check cannot run again, or None."""
    if correction.rerun and correction.rerun.completed_at is None:
        return Obstacle.RUNNING
    if correction.reruns.count() >= MAX_RERUNS:
        return Obstacle.RUN_TOO_OFTEN
    consent = getattr(report, "consent", None)
    if (consent and not consent.is_given) or withdrew_from_monitoring(report):
        return Obstacle.NO_CONSENT
    name = correction.check_name
    has_source = (
        correction.result.definition.active
        and not no_source_reason(name, report.environment, report.country)
        and not no_consent_reason(report, name)
    )
    return None if has_source else Obstacle.NO_SOURCE


def _corrected_subject(
    report: Report, definition: CheckDefinition, changed: Mapping[str, str]
) -> dict[str, Any]:
    """Return the subject with these details. Raises InvalidRequest."""
    members = {**as_sent(report.subject or {}), **changed}
    if "fullName" in changed:
        # The parts of the old name are wrong as well.
        members = {k: v for k, v in members.items() if k not in NAME_PARTS}
    inputs = {entry["key"] for entry in definition.required_inputs}
    item = {
        "subject": {k: v for k, v in members.items() if k in SUBJECT_MEMBERS | inputs},
        "checksRequested": [definition.name],
        "purpose": "Correction",
    }
    # As a draft, which needs no consent: the consent of the report holds.
    known = [v for v in (report.subject or {}).values() if v]
    context = RuleContext(
        catalogue(), report.environment, draft=True, known_numbers=known
    )
    order = read_order(item, context)
    if not isinstance(order, Order):
        raise InvalidRequest(order)
    return Subject.of(order.subject.members).members


def _next_revision(rows: QuerySet[CheckResult]) -> int:
    return rows.aggregate(last=Max("revision"))["last"] + 1


def _corrected_details(correction: Correction) -> KnownSubject | None:
    """Return the report's subject with the details that the re-run changed, if any."""
    report = correction.report
    members = _correct_members(correction, report.subject or {})
    if not members:
        return None
    row_id = report.monitoring_id or report.pk
    return Subject(members).in_workspace(
        report.workspace_id, report.environment, row_id
    )


def _correct_members(correction: Correction, subject: dict[str, Any]) -> dict[str, Any]:
    """Return this subject with the details that the re-run changed, or {} if none."""
    new = correction.rerun
    row = correction.reruns.filter(result=new).first() if new else None
    if row is None or not row.fields or not new or not new.inputs or not subject:
        return {}
    changed = set(row.fields)
    if changed & NAMES:
        # The parts of the old name are wrong as well.
        changed |= NAMES
    kept = {k: v for k, v in subject.items() if k not in changed}
    return kept | {k: v for k, v in new.inputs.items() if k in changed}


def _checks_about_another(correction: Correction) -> list[str]:
    """Return the checks that ask for a detail which the re-run changed."""
    changed = {*correction.reruns.get(result=correction.rerun).fields}
    return [
        name
        for name, definition in catalogue().items()
        if changed & {*NAMES, *(e["key"] for e in definition.required_inputs)}
    ]


def _set_subject(report: Report, corrected: KnownSubject, new: CheckResult) -> None:
    """Write the corrected details, which `new` has used, on a locked report.

    Other results keep the details of their calls. The person's requests on this report,
    such as an objection, get the corrected `subject_id`.
    """
    former, former_ids = report.subject, report.subject_ids
    asked = CheckResult.every.filter(
        report=report, status__in=[ResultStatus.RUNNING, ResultStatus.COMPLETED]
    )
    for result in asked.filter(inputs__isnull=True):
        result.inputs = former
        result.save(update_fields=["inputs"])
    CheckResult.every.filter(report=report).update(question=None)
    SubjectRequest.objects.filter(
        report=report, subject_id=report.subject_id, erasure=None
    ).update(subject_id=corrected.id)
    # The former IDs still find results of calls with the wrong number.
    write_subject(report, Subject(corrected.members), corrected.id, former_ids)
    if not new.outdated_details(report.subject):
        new.inputs = None
        new.save(update_fields=["inputs"])


def _supersede(
    report: Report,
    old: CheckResult,
    new: CheckResult,
    question: bytes | memoryview | None,
) -> None:
    """Put the new result in the place of the old one, whose reuse ends."""
    rows = CheckResult.every.filter(report=report, name=old.name)
    origin = old.reused_from_id or old.pk
    CheckResult.every.filter(pk__in=[origin, old.pk]).update(question=None)
    # The old row moves first: no two rows may have the same revision.
    rows.filter(pk=old.pk).update(revision=_next_revision(rows))
    rows.filter(pk=new.pk).update(revision=0, question=question)
    for baseline in Baseline.objects.filter(result_id=old.pk):
        # The next run of monitoring is compared with the corrected finding.
        baseline.result_id, baseline.completed_at = new.pk, new.completed_at
        baseline.said = snapshot_of(new)
        baseline.save()


def _decide(
    report: Report,
    correction: Correction,
    status: CorrectionStatus,
    by: str,
    reason: str,
    at: datetime,
) -> None:
    if status != C.WITHDRAWN and not reason.strip():
        raise CorrectionRefused(Obstacle.NO_REASON)
    correction.status = status
    correction.decided_by, correction.decided_at = by, at
    correction.decision = {"reason": reason} if reason else None
    correction.save()
    CheckResult.every.filter(pk=correction.result_id).update(disputed_at=None)
    _stop_rerun(correction, at)
    # Staff may have answered the entry of the register by hand.
    with suppress(AlreadyAnswered):
        answer_request(
            correction.request,
            OUTCOMES[status],
            reason=REGISTER_REASONS.get(status, ""),
        )
    _record(report, correction, Event.Name.CORRECTION_CLOSED, by, at)
    schedule_policy(report)
    for same in results_with_same_finding(correction.result):
        schedule_policy(same.report)
    notify(*_subject_messages(report, correction, Kind.CORRECTION_ANSWER, "answer"))


def _stop_rerun(correction: Correction, at: datetime) -> None:
    """Cancel a re-run that has not ended. A call under way records its answer."""
    row = correction.rerun
    if row is None:
        return
    uncalled = CheckResult.every.filter(
        Q(status=ResultStatus.PENDING) | Q(status=ResultStatus.RUNNING, claims=0),
        pk=row.pk,
    )
    is_stopped = uncalled.update(
        status=ResultStatus.CANCELLED, next_attempt_at=None, completed_at=at
    )
    if is_stopped and row.fence:
        # A worker that died may have left a call open.
        close_calls([row.pk])
    close_references([row.pk])


def _record(
    report: Report,
    correction: Correction,
    name: Event.Name,
    actor: str,
    at: datetime,
) -> None:
    """Write the timeline and the event, and mark the report as changed."""
    is_opened = name == Event.Name.CORRECTION_OPENED
    label = "opened" if is_opened else correction.status.lower()
    record_note(report, f"correction {label}", actor, at)
    Report.objects.filter(pk=report.pk).update(updated_at=at)
    stack = list(report.results.values_list("name", "status", "id"))
    record_events([correction_event(name, report, stack, correction)], at)


def _subject_messages(
    report: Report, correction: Correction, kind: Kind, cause: str
) -> list[OutgoingMessage]:
    """Return the receipt of a correction, or the decision and its reason."""
    consent = getattr(report, "consent", None)
    link: dict[str, str] = {}
    if correction.status in {C.CORRECTED, C.CONFIRMED}:
        # The link that the subject has used may have expired since.
        link = link_of(report, now(), links.consent_url)
    elif consent and opens_data(consent, now()):
        link = {"link": links.consent_url(consent.pk, consent.generation)}
    context = {
        **report.workspace.requester.message_context,
        "number": correction.request.number,
        "check": correction.result.definition.display_name,
        "decision": correction.status,
        "reason": correction.reason or "",
        "expiresAt": utc_text(correction.due_at),
        "link": link.get("link", ""),
        "linkEnds": link.get("expiresAt"),
    }
    language = (correction.statement or {}).get("language", "")
    cause = f"correction:{correction.pk}:{cause}"
    return messages_to(report.subject or {}, report, kind, cause, context, language)


def _client_message(report: Report, correction: Correction) -> OutgoingMessage:
    return _mail(
        correction,
        Kind.CORRECTION_OPENED,
        f"correction:{correction.pk}:client",
        report.workspace.contact_email,
        url=_console_url(correction),
        reportId=str(report.pk),
        reference=report.reference or "",
    )


def _reviewer_message(correction: Correction) -> OutgoingMessage:
    user = correction.taken_by_user
    assert user is not None and correction.rerun is not None  # noqa: PT018, S101
    url = _console_url(correction)
    if user.is_staff:
        path = reverse("admin:privacy_correction_change", args=[correction.pk])
        url = f"{settings.BASE_URL}{path}"
    return _mail(
        correction,
        Kind.CORRECTION_RERUN,
        f"rerun:{correction.rerun_id}",
        user.email,
        url=url,
        status=correction.rerun.status,
    )


def _mail(
    correction: Correction, kind: Kind, cause: str, recipient: str, **more: str
) -> OutgoingMessage:
    report = correction.report
    return OutgoingMessage(
        kind,
        Channel.EMAIL,
        cause,
        recipient,
        {
            "workspace": report.workspace.name,
            "check": correction.result.definition.display_name,
            "expiresAt": utc_text(correction.due_at),
            **more,
        },
        workspace_id=report.workspace_id,
        sandbox=report.environment == Environment.SANDBOX,
        report_id=report.pk,
    )


def _console_url(correction: Correction) -> str:
    report = correction.report
    place = report.workspace_id, report.environment, correction.pk
    return links.console_url("corrections-detail", *place)
