"""Joins: a person requests the reports that carry no address of theirs.

Everybody who has seen an ID card knows name, number and date of birth, so such a report
opens by its own link alone. The visitor of another link makes an access request here.
The client or staff verify the person, and confirm or refuse. A confirmation lets
`people.Proof` cover these reports for the same address.

The page's answer does not reveal whether such reports exist.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from monitoring.models import Rule
from verification.backoffice import audit
from verification.consents.subject_messages import addresses_of
from verification.golive.applications import ActingUser
from verification.notifications.recipients import count_today
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.privacy.people import Person, Proof, address_digest
from verification.privacy.requests import (
    AlreadyAnswered,
    answer_request,
    notify_owner,
    open_request,
)
from verification.reports.models import Report
from verification.reports.objections import may_be_same_person
from verification.reports.status import SUBJECT_ACTOR, lock_person
from verification.values.clock import now

# A refused person may have another proof of who they are.
JOINS_PER_DAY = 3


@transaction.atomic
def ask_to_join(proof: Proof) -> None:
    """Request the reports without an address, unless the visitor waits for them.

    It answers the request at once if there are no such reports, and does not say so.
    """
    report, digest = proof.report, address_digest(proof.address)
    lock_person(*report.subject_ids)
    if proof.is_confirmed or waits_for_answer(newest_join(proof)):
        return
    if not count_today(f"join:{report.pk}", JOINS_PER_DAY):
        return
    request = open_request(
        RequestKind.ACCESS,
        Origin.SUBJECT,
        requested_by=SUBJECT_ACTOR,
        report=report,
        details={"address": proof.address},
        proved_address=digest,
    )
    if any(candidates(report)):
        notify_owner(request)
    else:
        answer_request(request, Outcome.NOTHING_FOUND)


def newest_join(proof: Proof) -> SubjectRequest | None:
    """Return what the visitor of this link asked last."""
    asked = joins().filter(
        report=proof.report, proved_address=address_digest(proof.address)
    )
    return asked.order_by("pk").last()


def waits_for_answer(asked: SubjectRequest | None) -> bool:
    """Return whether the visitor waits, as far as they are told.

    Everybody waits until the deadline and can ask again then, whether there is nothing
    about them or nobody has answered.
    """
    if asked is None or asked.due_at <= now():
        return False
    return asked.answered_at is None or asked.outcome == Outcome.NOTHING_FOUND


def joins() -> QuerySet[SubjectRequest]:
    return SubjectRequest.objects.filter(proved_address__isnull=False)


def candidates(report: Report) -> tuple[list[Report], list[Rule]]:
    """Return the reports and rules that a confirmation adds to what a visitor sees."""
    found = Person.of(report).find()

    def is_candidate(row: Report | Rule) -> bool:
        has_address = bool(addresses_of(row.subject or {}))
        is_own = row.pk in {report.pk, report.monitoring_id}
        return not has_address and not is_own and may_be_same_person(report, row)

    return (
        [other for other in found.reports if is_candidate(other)],
        [rule for rule in found.rules if is_candidate(rule)],
    )


@transaction.atomic
def answer_join(request_id: UUID, by: ActingUser, reason: str = "") -> None:
    """Confirm the person, or refuse if there is a reason. Raises AlreadyAnswered."""
    request = joins().select_for_update(of=("self",), no_key=True).get(pk=request_id)
    if request.report is None or request.report.erased_at:
        raise AlreadyAnswered
    outcome = Outcome.REFUSED if reason else Outcome.DONE
    answer_request(request, outcome, reason=reason)
    action = "person.refused" if reason else "person.confirmed"
    audit.record(action, by.actor, request, workspace_id=request.workspace_id)
