"""The client answers in the sandbox, in place of the referee.

Each action calls the function that the referee's page calls. The evidence names the
sandbox.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.references.answers import AnswerEvidence, decline, submit
from verification.references.models import Reference, ReferenceStatus
from verification.references.requests import (
    asked_subject,
    closed_status,
    reference_links,
)
from verification.sandbox.reports import NotPossible, lock_sandbox_report
from verification.values.clock import now
from workspaces.models import Client

# The sandbox shows no notice.
EVIDENCE = AnswerEvidence(
    address="", user_agent="Sandbox API", language="en", notice={}
)
ABOUT_EMPLOYMENT = (
    "employer",
    "jobTitle",
    "employedFrom",
    "employedTo",
    "stillEmployed",
    "wouldRehire",
)


class ReferenceAction(StrEnum):
    ANSWER = "answer"
    DECLINE = "decline"
    EXPIRE = "expire"


A = ReferenceAction


class ImpossibleDates(Exception):
    """The last day is before the first. The subject stated one of the two.

    `args[0]` names the answer that the caller gave.
    """


@transaction.atomic
def act_as_referee(
    client: Client,
    report_id: UUID,
    action: ReferenceAction,
    answers: Mapping[str, Any],
    reason: str,
) -> None:
    """Answer as the report's referee, or let their time run out.

    `answers` replace what the subject has stated. Raises NotPossible, ImpossibleDates,
    and Report.DoesNotExist.
    """
    report = lock_sandbox_report(client, report_id)
    rows = Reference.objects.select_for_update(no_key=True).filter(report=report)
    reference = rows.order_by("-id").first()
    if reference is None:
        raise NotPossible(
            f"The service has asked no referee yet. The report is {report.status}."
        )
    reference.report = report
    if closed := closed_status(reference, report, reference.generation):
        raise NotPossible(f"The reference is {closed}.")
    match action:
        case A.ANSWER:
            complete = _complete_answers(asked_subject(reference), answers)
            submit(reference.pk, reference.generation, complete, EVIDENCE)
        case A.DECLINE:
            decline(reference.pk, reference.generation, EVIDENCE, reason)
        case A.EXPIRE:
            waiting = Reference.objects.filter(status=ReferenceStatus.PENDING)
            waiting.filter(pk=reference.pk).update(expires_at=now())
            reference_links.expire(reference.pk)


def _complete_answers(
    subject: Mapping[str, Any], answers: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answers in the form of `providers.referee`."""
    complete = {
        "employed": True,
        "employer": subject.get("employerName"),
        "jobTitle": subject.get("jobTitle") or "",
        "employedFrom": subject.get("employmentStart"),
        "employedTo": subject.get("employmentEnd"),
        "wouldRehire": "YES",
        "remarks": "",
        "refereeName": subject.get("refereeName") or "",
        "refereeTitle": EVIDENCE.user_agent,
        **answers,
        "mayAnswer": True,
    }
    complete.setdefault("stillEmployed", complete["employedTo"] is None)
    if complete["stillEmployed"]:
        complete["employedTo"] = None
    first, last = complete["employedFrom"], complete["employedTo"]
    if first and last and last < first:
        given = "employedTo" if "employedTo" in answers else "employedFrom"
        raise ImpossibleDates(given)
    if not complete["employed"]:
        complete |= dict.fromkeys(ABOUT_EMPLOYMENT)
    return complete
