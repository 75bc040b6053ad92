from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.db.models import F

from tests.checks.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, Api
from tests.world.employer import create_reference
from tests.world.payments import candidate_item
from tests.world.staff import press_button
from verification.consents.links import expire_consents, remind_subjects
from verification.consents.models import Consent
from verification.notifications.models import Notification
from verification.payments.links import expire_payments, remind_payers
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.references.requests import remind_and_expire_references
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.models import Workspace


def test_suspension_has_its_time_and_reason(workspace):
    assert workspace.suspend("Unpaid invoices")

    workspace.refresh_from_db()
    assert workspace.is_suspended
    assert workspace.suspended_at
    assert workspace.suspension_reason == "Unpaid invoices"


def test_second_suspension_changes_nothing(workspace):
    workspace.suspend("Unpaid invoices")
    since = workspace.suspended_at
    same = Workspace.objects.get(pk=workspace.pk)

    assert not same.suspend("Another reason")
    assert (same.suspended_at, same.suspension_reason) == (since, "Unpaid invoices")


def test_resumed_workspace_has_no_suspension_fields(workspace):
    workspace.suspend("Unpaid invoices")

    assert workspace.resume()
    assert not workspace.resume()
    assert not workspace.is_suspended
    assert workspace.suspension_reason == ""


def test_suspension_without_a_reason_is_refused(workspace):
    with pytest.raises(IntegrityError, match="a_suspension_says_why"):
        workspace.suspend("")


def test_links_outlast_a_suspension(api: Api, paying_api: Api, superuser):
    """Neither subject, payer nor referee could be asked."""
    create_reference(paying_api)
    api.create(candidate_item(consent=HOSTED), draft=True)
    api.workspace.suspend("Unpaid invoices")
    away = timedelta(days=15)
    Workspace.objects.update(suspended_at=F("suspended_at") - away)
    for model in (Consent, Payment, Reference):
        model.objects.filter(expires_at__isnull=False).update(
            link_made_at=F("link_made_at") - away, expires_at=F("expires_at") - away
        )

    for _ in range(2):
        expire_consents(), expire_payments(), remind_and_expire_references()
        remind_subjects(), remind_payers()
        press_button(superuser, "resume", api.workspace)

    asked = [Consent.objects.get(token_digest__isnull=False), Payment.objects.get()]
    assert {row.status for row in [*asked, Reference.objects.get()]} == {"PENDING"}
    messages = Notification.objects.filter(next_attempt_at__isnull=False)
    assert messages.count() == 3
    for message in messages:
        assert message.context["expiresAt"] > utc_text(now() + timedelta(days=13))
