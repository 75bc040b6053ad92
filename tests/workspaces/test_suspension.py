from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.db.models import F
from django.utils.dateparse import parse_datetime

from tests.checks.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, Api, person
from tests.world.employer import ANSWERS, EVIDENCE, create_reference
from tests.world.payments import candidate_item
from tests.world.staff import press_button
from tests.world.subject import EVIDENCE as SIGNED
from verification.consents.links import expire_consents, remind_subjects
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.hosted.consent import Stage, Visit, stage_of
from verification.notifications.models import Notification
from verification.payments.checkouts import closed_reason
from verification.payments.links import expire_payments, remind_payers
from verification.payments.models import Payment
from verification.references.answers import submit
from verification.references.models import Reference
from verification.references.requests import remind_and_expire_references
from verification.reports.hosted_links import link_end
from verification.values.clock import now
from workspaces.models import Workspace

AWAY = timedelta(days=15)


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


def suspend_until_links_are_late(api: Api, paying_api: Api) -> tuple:
    """Suspend a workspace for 15 days, more than its links have; return their rows."""
    create_reference(paying_api)
    made = api.create(candidate_item(consent=HOSTED), draft=True)
    api.workspace.suspend("Unpaid invoices")
    Workspace.objects.update(suspended_at=F("suspended_at") - AWAY)
    for model in (Consent, Payment, Reference):
        model.objects.filter(expires_at__isnull=False).update(
            link_made_at=F("link_made_at") - AWAY, expires_at=F("expires_at") - AWAY
        )
    consent = Consent.objects.get(report=made["id"])
    return consent, Payment.objects.get(), Reference.objects.get()


def test_links_do_not_expire_during_a_suspension(api: Api, paying_api: Api):
    """Their visitors are not asked again, and a new link would be held."""
    consent, payment, reference = suspend_until_links_are_late(api, paying_api)

    assert stage_of(consent, Visit(consent.pk, 1), now()) == Stage.CHALLENGE
    assert closed_reason(payment.report, payment, 1, now()) == "SUSPENDED"
    for row in (consent, payment, reference):
        assert now() < link_end(row) < now() + timedelta(days=15)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    grant(consent.pk, 1, SIGNED)


def test_links_outlast_a_suspension(api: Api, paying_api: Api, superuser):
    """Neither subject, payer nor referee could be asked."""
    made = api.create({**person(email="wanjiku@kamau.test"), "consent": HOSTED})
    rows = suspend_until_links_are_late(api, paying_api)
    # Its order came in at the same time as the suspension.
    late = Consent.objects.filter(report=made["id"])
    late.update(
        link_made_at=F("link_made_at") + AWAY, expires_at=F("expires_at") + AWAY
    )

    for _ in range(2):
        expire_consents(), expire_payments(), remind_and_expire_references()
        remind_subjects(), remind_payers()
        press_button(superuser, "resume", api.workspace)

    for row in (*rows, late.get()):
        row.refresh_from_db()
        assert row.status == "PENDING"
    messages = Notification.objects.filter(next_attempt_at__isnull=False)
    assert messages.count() == 4
    for message in messages:
        left = parse_datetime(message.context["expiresAt"]) - now()
        assert timedelta(days=13) < left < timedelta(days=15)
