import pytest

from tests.checks.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, company, person
from tests.world.subject import Visitor
from verification.consents.models import Consent


@pytest.fixture
def ask(api):
    """Create a report that asks its subject; returns the visitor with the link."""
    return asking(api)


@pytest.fixture
def live_ask(paying_api):
    """Create a production report that asks its subject; returns the visitor."""
    return asking(paying_api)


def asking(api):
    def create(**members):
        subject = {"dateOfBirth": "1990-03-27", **members.pop("subject", {})}
        made = api.create({**person(**subject), "consent": HOSTED, **members})
        visitor = Visitor(made["consentState"]["consentUrl"])
        visitor.report_id = made["id"]
        visitor.consent = Consent.objects.get(report_id=made["id"])
        return visitor

    return create


def with_new_browser(visitor):
    """Return the same subject, whose browser has opened nothing yet."""
    other = Visitor(visitor.link)
    other.report_id = visitor.report_id
    return other


@pytest.fixture
def ask_minor(ask):
    """Like `ask` for a subject born in 2013; the API refuses such an order."""

    def create(**members):
        visitor = ask(**members)
        report = visitor.consent.report
        report.subject = {**report.subject, "dateOfBirth": "2013-03-27"}
        report.save()
        return visitor

    return create


@pytest.fixture
def ask_company(api):
    """Create a report that asks a company; returns the visitor with the link."""

    def create(**subject):
        item = {**company(kraPin="P123456789Z", **subject), "consent": HOSTED}
        made = api.create({**item, "checksRequested": ["KRA_PIN"]})
        visitor = Visitor(made["consentState"]["consentUrl"])
        visitor.report_id = made["id"]
        return visitor

    return create
