"""The employer's order of a reference, and the referee's answers."""

from typing import Any

from tests.world.clients import Api, person
from verification.notifications.models import Notification
from verification.references.answers import AnswerEvidence
from verification.references.models import Reference
from webhooks.models import Event

EMPLOYMENT_INPUTS = {
    "employerName": "Baraka Logistics Ltd",
    "refereeName": "Amina Said",
    "refereeEmail": "amina@baraka.test",
    "jobTitle": "Fleet Manager",
    "employmentStart": "2019-03-01",
    "employmentEnd": "2023-06-30",
}
# In the sandbox only this referee is asked.
REFEREE = "referee@sandbox.test"
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


def employment_item(**subject: Any) -> dict[str, Any]:
    ordered = person(**{**EMPLOYMENT_INPUTS, **subject})
    return {**ordered, "checksRequested": ["EMPLOYER_VERIFICATION"]}


def create_reference(api: Api, **subject: Any) -> Reference:
    """Order a reference and ask the referee."""
    made = api.create(employment_item(**subject))
    api.work()
    return Reference.objects.get(report=made["id"])


def result_of(api: Api, reference: Reference) -> dict[str, Any]:
    """Return the check result as the API shows it."""
    (result,) = api.report(str(reference.report_id))["checkResults"]
    return result


def referee_messages() -> list[tuple[str, str]]:
    """Return (kind, link) of all requests and reminders to referees, oldest first."""
    asking = ["REFERENCE_REQUEST", "REFERENCE_REMINDER"]
    sent = Notification.objects.filter(kind__in=asking).order_by("id")
    return [(one.kind, one.context["link"]) for one in sent]


def event_names() -> list[str]:
    return list(Event.objects.order_by("id").values_list("name", flat=True))
