"""A subject who says that a finding is wrong, and the reviewers who decide."""

from __future__ import annotations

from django.contrib.auth.models import User

from tests.world.clients import HOSTED, Api, person
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind
from verification.checks.models import CheckResult
from verification.golive.applications import ActingUser
from verification.privacy.corrections import Statement, open_correction
from verification.privacy.joins import ask_to_join, joins
from verification.privacy.models import Correction, SubjectRequest
from verification.privacy.people import Proof
from verification.reports.models import Report

# Reserved numbers of the sandbox: another person's, and the right one.
MISTYPED, RIGHT = "90000002", "90000000"
STATEMENT = Statement(
    what="The name is not mine.", why="Two digits were swapped.", language="en"
)
REASON = "The number was mistyped."


def create_wrong_report(api: Api, **item: object) -> str:
    """Order IDENTITY with a mistyped number, which finds another person."""
    subject = {"idNumber": MISTYPED, "email": "wanjiku@kamau.test"}
    ordered = {**person(**subject), "checksRequested": ["IDENTITY"], **item}
    made = api.create(ordered)
    api.work()
    return made["id"]


def dispute(report_id: str, name: str = "IDENTITY") -> Correction:
    """Let the subject say that the finding of this check is wrong."""
    result = CheckResult.objects.get(report=report_id, name=name)
    return open_correction(result.report_id, result.pk, STATEMENT)


def ask_for_further_reports(api: Api) -> SubjectRequest:
    """Let a visitor ask for a report without an address."""
    born = {"dateOfBirth": "1990-03-27"}
    api.create(person(**born))
    hosted = {**person(**born, email="wanjiku@kamau.test"), "consent": HOSTED}
    report = Report.objects.get(pk=api.create(hosted)["id"])
    ask_to_join(Proof(report, "wanjiku@kamau.test"))
    return joins().latest("pk")


def reviewer(name: str = "grace") -> ActingUser:
    """Return a member of staff as the actor of the reviewer's verbs."""
    user, _ = User.objects.get_or_create(
        username=name, defaults={"email": f"{name}@staff.test", "is_staff": True}
    )
    return ActingUser(user, Actor(ActorKind.STAFF, name))
