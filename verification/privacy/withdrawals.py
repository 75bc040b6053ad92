"""Withdrawal of a consent: its checks stop, and so do re-runs and rules on the person.

One transaction does all of it: a later job could pause a rule that a newer consent has
just resumed.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from monitoring.models import Rule, locked_rules
from monitoring.pauses import pause_for_withdrawal, stoppable_runs
from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.consents.subject_decisions import (
    CONFIRMED_BY_STAFF,
    ConsentClosed,
    Evidence,
    checks_made,
    find_record,
    record_decision,
)
from verification.jobs.queue import job, schedule_job
from verification.privacy import journal
from verification.privacy.corrections import stop_reruns
from verification.privacy.people import Found, Person
from verification.reports.ends import end_early
from verification.reports.models import Report, ReportStatus, Subject
from verification.reports.objections import (
    may_be_monitored_person,
    may_be_same_person,
)
from verification.reports.status import (
    SUBJECT_ACTOR,
    lock_with_report,
    locked_reports,
    record_note,
)
from verification.values.clock import now
from verification.values.local_time import format_nairobi

# Reports that a withdrawal or an objection ends.
STOPPABLE_STATUSES = {
    ReportStatus.PENDING_PAYMENT,
    ReportStatus.RUNNING,
    ReportStatus.PARTIAL,
}


@transaction.atomic
def withdraw(
    consent_id: UUID, generation: int, evidence: Evidence, reason: str
) -> ConsentRecord:
    """Record the withdrawal and cancel open checks; the client keeps earlier findings.

    No later order reuses them. Raises ConsentClosed unless the subject granted the
    consent by this link.
    """
    asked = Consent.objects.select_related("report__workspace").get(pk=consent_id)
    lock_in_order(asked.report)
    report, consent = lock_with_report(Consent, consent_id)
    if done := find_record(consent, generation, ConsentRecord.Decision.WITHDRAWN):
        return done
    if consent.generation != generation:
        raise ConsentClosed("REPLACED")
    if consent.status != ConsentStatus.GRANTED or consent.is_erased:
        raise ConsentClosed(consent.status)
    at = now()
    evidence = replace(evidence, made=checks_made(report))
    decision = ConsentRecord.Decision.WITHDRAWN
    record = record_decision(consent, report, decision, evidence, reason, at)
    # The person has proved that this report is about them, and no more. A pause shows
    # nothing and ends with a newer consent, so it reaches all rules that may be theirs.
    rules, runs = monitoring_of(report, Person.of(report).find())
    # The runs of rules, also of deleted ones, are locked before the account.
    for stopped in [report, *pause_for_withdrawal(rules, runs)]:
        stop_reruns(stopped)
    stop_reuse([report.pk])
    actor = f"staff {evidence.staff}"[:100] if evidence.staff else SUBJECT_ACTOR
    if report.status in STOPPABLE_STATUSES and not report.is_ended:
        end_early(report, ReportStatus.CANCELLED, "consent withdrawn", actor, at)
    else:
        record_note(report, "consent withdrawn", actor, at)
    if evidence.staff != journal.ACTOR:
        schedule_job(write_withdrawal, record.pk, *rules, *runs)
    return record


def stop_reuse(report_ids: Iterable[UUID]) -> None:
    """Keep the results of these locked reports from further orders."""
    # The engine locks results by their ids, too.
    results = CheckResult.every.select_for_update(no_key=True).order_by("pk")
    theirs = results.filter(report__in=report_ids).values("pk")
    # A result without a question is never reused.
    CheckResult.every.filter(pk__in=theirs).update(question=None)


@job
def write_withdrawal(record_id: str, *stopped: str) -> None:
    """Write the journal's file; `stopped` are the rules and reports of rules."""
    record = ConsentRecord.objects.select_related("report").get(pk=record_id)
    journal.write_stop(
        "withdrawal",
        record.pk,
        record.created_at,
        record.report,
        consent=str(record.consent_id),
        stopped=stopped,
    )


def repeat(entry: dict[str, Any]) -> None:
    """Withdraw again by a file of the journal, in a database that shows a grant.

    The consent may be younger than the backup, the rules on the person older.
    """
    stopped = list(map(UUID, entry["stopped"]))
    with transaction.atomic():
        for run in pause_for_withdrawal(stopped, stopped):
            stop_reruns(run)
    granted = Consent.objects.filter(pk=entry["consent"], status=ConsentStatus.GRANTED)
    for consent in granted:
        at = format_nairobi(datetime.fromisoformat(entry["at"]))
        evidence = Evidence(confirmed_by=CONFIRMED_BY_STAFF, staff=journal.ACTOR)
        reason = f"Withdrawn on {at}, and again after a restore of the database."
        with suppress(ConsentClosed):
            withdraw(consent.pk, consent.generation, evidence, reason)


def lock_in_order(report: Report) -> None:
    """Lock all that the withdrawal of this report's consent changes, as others do.

    That is the person, the rules, and the reports by their ids.
    """
    rules, runs = monitoring_of(report, Person.of(report).lock())
    list(locked_rules().filter(pk__in=rules))
    stopped = Q(pk=report.pk) | stoppable_runs(rules, runs)
    list(locked_reports().filter(stopped).order_by("pk"))


def monitoring_of(report: Report, found: Found) -> tuple[list[UUID], list[UUID]]:
    """Return the rules that may be about the person, and the reports of rules."""
    theirs = [*found.rules, *_rules_on_the_name(report)]
    rules = [r.pk for r in theirs if may_be_same_person(report, r)]
    runs = [r.pk for r in found.reports if may_be_monitored_person(report, r)]
    return rules, runs


def _rules_on_the_name(report: Report) -> list[Rule]:
    """Return the rules without a number on the name of a person without one.

    Other details, or none, give each another `subject_id`, which does not lead to it.
    """
    if not report.subject or Subject(report.subject).numbers():
        return []
    named = Rule.objects.filter(
        workspace=report.workspace_id,
        environment=report.environment,
        search_name=report.search_name,
    )
    return [rule for rule in named if not Subject(rule.subject).numbers()]
