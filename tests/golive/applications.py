"""Applications to go live in a status that a test needs.

def test_something(api):
    application = in_review(member(api.workspace, "OWNER"))
"""

from django.contrib.auth.models import User

from tests.files.samples import pdf
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind
from verification.checks.engine import run_due_checks
from verification.files.inspection import InspectedFile
from verification.golive import applications, review
from verification.golive.applications import ActingUser
from verification.golive.models import Application, DocumentKind
from workspaces.models import Member

NAME = "Acacia Lenders Limited"
COMPANY = {
    "company_name": NAME,
    "registration_number": "PVT-AB12CD3",
    "kra_pin": "P051234567X",
    "country": "KE",
    "address": "Moi Avenue 1, Nairobi",
    "contact_name": "Grace Wambui",
    "contact_email": "grace@acacia.test",
    "contact_phone": "+254712345678",
    "trading_name": "",
    "public_contact": "privacy@acacia.test",
    "purpose": "Loans to people",
    "volume": "101-1000",
}
DETAILS = {
    "tradingName": "",
    "registrationNumber": "PVT-AB12CD3",
    "kraPin": "P051234567X",
    "country": "KE",
    "address": "Moi Avenue 1, Nairobi",
    "contactName": "Grace Wambui",
    "contactEmail": "grace@acacia.test",
    "contactPhone": "+254712345678",
    "publicContact": "privacy@acacia.test",
    "purpose": "Loans to people",
    "volume": "101-1000",
}
PDF = InspectedFile("application/pdf", pdf())


def by(user: User, kind: ActorKind = ActorKind.STAFF) -> ActingUser:
    return ActingUser(user, Actor(kind, user.get_username()))


def reviewer(name: str = "reviewer") -> User:
    user, _ = User.objects.get_or_create(
        username=name, defaults={"is_staff": True, "email": f"{name}@office.test"}
    )
    return user


def draft(member: Member, **details: str) -> Application:
    """Create a draft with every document."""
    who = by(member.user, ActorKind.MEMBER)
    application = applications.describe_company(
        member, NAME, {**DETAILS, **details}, who
    )
    for kind in DocumentKind:
        applications.upload_document(member, kind, f"{kind.lower()}.pdf", PDF, who)
    return application


def submitted(member: Member, **details: str) -> Application:
    draft(member, **details)
    return applications.submit(member, by(member.user, ActorKind.MEMBER))


def in_review(member: Member, **details: str) -> Application:
    """Create an application in review whose check has run."""
    application = submitted(member, **details)
    run_due_checks()
    return review.take(application.pk, by(reviewer()))
