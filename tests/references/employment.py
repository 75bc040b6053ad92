"""Orders, answers and queries for tests of references."""

from datetime import timedelta
from typing import Any

from django.utils.timezone import now

from tests.world.clients import Api, person
from verification.checks.models import CheckResult
from verification.notifications.models import Notification
from verification.references.answers import AnswerEvidence
from verification.references.models import Reference
from webhooks.models import Event

STATED = {
    "employerName": "Baraka Logistics Ltd",
    "refereeName": "Amina Said",
    "refereeEmail": "amina@baraka.test",
    "jobTitle": "Fleet Manager",
    "employmentStart": "2019-03-01",
    "employmentEnd": "2023-06-30",
}
ANSWERS = {
    "employed": True,
    "employer": "BARAKA LOGISTICS LIMITED",
    "jobTitle": "Manager, fleet",
    "employedFrom": "2019-03-15",
    "employedTo": "2023-06-30",
    "wouldRehire": "YES",
    "remarks": "Always on time.",
    "refereeName": "Amina Said",
    "refereeTitle": "Head of Operations",
    "mayAnswer": True,
}
NOT_EMPLOYED = {
    **dict.fromkeys(ANSWERS),
    "employed": False,
    "refereeName": "Amina Said",
    "refereeTitle": "Head of Operations",
    "mayAnswer": True,
}
NOTICE = {"noticeVersion": "1", "noticeSha256": "ab", "noticeText": "You are asked."}
EVIDENCE = AnswerEvidence(
    address="192.0.2.9", user_agent="Opera Mini", language="sw", notice=NOTICE
)


def item(**subject: Any) -> dict[str, Any]:
    ordered = person(**{**STATED, **subject})
    return {**ordered, "checksRequested": ["EMPLOYER_VERIFICATION"]}


def asked(api: Api, **subject: Any) -> Reference:
    """The reference of a report whose referee has just been asked."""
    made = api.create(item(**subject))
    api.work()
    return Reference.objects.get(report=made["id"])


def result_of(api: Api, reference: Reference) -> dict[str, Any]:
    """The check result as the API shows it."""
    (result,) = api.report(str(reference.report_id))["checkResults"]
    return result


def messages() -> list[tuple[str, str]]:
    """(kind, link) of all that asked referees, oldest first."""
    asking = ["REFERENCE_REQUEST", "REFERENCE_REMINDER"]
    sent = Notification.objects.filter(kind__in=asking).order_by("id")
    return [(one.kind, one.context["link"]) for one in sent]


def days_pass(days: int) -> None:
    """Everything that waits has waited for so many days more."""
    back = timedelta(days=days)
    for reference in Reference.objects.all():
        reference.expires_at -= back
        reference.link_made_at -= back
        reference.save()
    for result in CheckResult.objects.filter(next_attempt_at__isnull=False):
        due = max(result.next_attempt_at - back, now() - timedelta(seconds=1))
        CheckResult.objects.filter(pk=result.pk).update(
            next_attempt_at=due, turn_at=due
        )


def events() -> list[str]:
    return list(Event.objects.order_by("id").values_list("name", flat=True))
