import pytest

from tests.clients import HOSTED, person
from tests.hosted.visitor import Visitor
from verification.consents.models import Consent


@pytest.fixture
def ask(api):
    """Create a report that asks its subject; returns who got the link."""

    def create(**members):
        subject = {"dateOfBirth": "1990-03-27", **members.pop("subject", {})}
        made = api.create({**person(**subject), "consent": HOSTED, **members})
        visitor = Visitor(made["consentState"]["consentUrl"])
        visitor.report_id = made["id"]
        visitor.consent = Consent.objects.get(report_id=made["id"])
        return visitor

    return create
