"""What happens in an installation: it fills every table, and seals every kind of file.

def test_something(story):
    assert Report.objects.exists()
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.test import Client
from django.utils.timezone import now
from django_q.models import Failure

from tests.accounts import visitor
from tests.fakes.africastalking import sms_gateway as sms_gateway
from tests.fakes.companies_house import companies_house as companies_house
from tests.fakes.gleif import gleif as gleif
from tests.fakes.kra import kra as kra
from tests.fakes.metropol import metropol as metropol
from tests.fakes.opensanctions import opensanctions as opensanctions
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.fakes.prembly import prembly as prembly
from tests.fakes.smile_id import smile_id as smile_id
from tests.fakes.smile_id_v3 import smile_id_v3 as smile_id_v3
from tests.fakes.stripe import stripe_api as stripe_api
from tests.golive import applications
from tests.golive.applications import by
from tests.privacy.marks import World
from tests.privacy.marks import live_source as live_source
from tests.privacy.marks import sources as sources
from tests.privacy.marks import world as world
from tests.watchlists.conftest import load as load
from tests.watchlists.files import FILES
from tests.world.clients import ATTESTED, HOSTED, Api, erase, person
from tests.world.decisions import create_ready_report, demand_second
from tests.world.member_messages import choose
from tests.world.members import create_member
from tests.world.orders import create_report_with_status
from tests.world.packages import create_package
from tests.world.payments import poll_checkouts, send_event
from tests.world.policies import APPROVE_LOW, switch_on
from tests.world.receiver import authority as authority
from tests.world.receiver import receiver as receiver
from tests.world.refunds import (
    GRACE,
    create_paid_checkout,
    create_paid_top_up,
    create_refund,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from tests.world.staff import dialog_fields, give_factor, log_in, press_button
from verification.accounts.colleagues import add, remove_factor
from verification.audit_trail.seals import seal_events
from verification.backoffice import audit
from verification.backoffice.models import ActorKind, LookupKey, fingerprints
from verification.backups.models import Backup, RestoreDrill
from verification.db.ids import uuid7
from verification.decisions.cases import open_case
from verification.decisions.models import CaseCause, NoticeRule
from verification.figures.daily import count_changed_days, mark_changed_days
from verification.golive.names import request_name_change
from verification.golive.review import approve
from verification.notifications.models import Block, RefusedAddress
from verification.notifications.recipients import block
from verification.payments.alerts import record_alert
from verification.payments.audit import audit_nightly
from verification.payments.models import AuditTotal, AuditWalk, OperatorAlertKind
from verification.payments.reconciliation import reconcile_yesterday
from verification.privacy import staff_erasures
from verification.privacy.holds import hold
from verification.privacy.journal import mark_known
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report
from verification.web.request_records import writer
from workspaces.members import invite
from workspaces.models import DigestDay, Note, Role, Workspace

PURGE = "verification.jobs.schedules.purge_failures"


@pytest.fixture
def documents(tmp_path: Path, settings: Any) -> Path:
    """Return the folder of sealed files and of the journal."""
    folder = tmp_path / "documents"
    stored = {**settings.STORAGES["documents"], "OPTIONS": {"location": folder}}
    settings.STORAGES = {**settings.STORAGES, "documents": stored}
    return folder


@pytest.fixture
def story(
    transactional_db: None,
    documents: Path,
    world: World,
    api: Api,
    another_api: Api,
    load: Callable[..., str],
) -> World:
    # Tests that truncate tables take this row of a migration away.
    key = {"fingerprint": fingerprints()[-1]}
    LookupKey.objects.get_or_create(pk=1, defaults=key)
    call_command("setup_schedules")
    for name in FILES:
        load(name)
    world.plant()
    pay_back(world.api, api, world.paystack)
    # About a person whom nobody orders: the next run would use the row up.
    outcome = {"check": "IDENTITY", "idNumber": "45678901", "outcome": "ADVERSE"}
    assert api.post("/sandbox/results", outcome).status_code == 200
    use_rights(api, another_api)
    hire_staff(another_api.workspace)
    join_workspace(another_api.workspace)
    decide_by_rules(another_api)
    # Events get their place when somebody pulls them.
    assert another_api.get("/events").json()["content"]
    run_schedule()
    # The records of the API's requests wait for the thread of a web process.
    writer.flush()
    return world


def pay_back(api: Api, sandbox: Api, paystack: FakePaystack) -> None:
    """Leave a dispute, a refund at the provider and one of the sandbox."""
    disputed = create_paid_top_up(api, 500, paystack)
    paystack.dispute(disputed.reference)
    send_event(paystack)
    poll_checkouts(disputed)
    item = {"checksRequested": ["IDENTITY"], "reuse": False}
    create_refund(create_paid_checkout(api, paystack, **item), 1)
    create_refund(create_paid_checkout(sandbox))
    send_waiting_refunds()


def use_rights(api: Api, another_api: Api) -> None:
    """Erase by retention and by request, hold, and block messages."""
    hosted = another_api.create({**person(), "consent": HOSTED}, draft=True)
    path = f"/reports/{hosted['id']}/draft"
    # The link stays known, to say on its page that it is over.
    assert another_api.post(path, {"consent": ATTESTED}).status_code == 200
    another_api.create(*(person(idNumber=str(40_000_000 + n)) for n in range(17)))
    another_api.work()
    wanted = api.create(person(idNumber="33333333"))["id"]
    staff_erasures.request_for_report(UUID(wanted), "A letter", by=GRACE)
    held, expired = (create_report_with_status(api, "FAILED") for _ in range(2))
    hold(UUID(held), "A court asks", now() + timedelta(days=300), by="staff grace")
    Report.objects.filter(pk=expired).update(completed_at=now() - timedelta(days=400))
    api.workspace.refresh_from_db()
    api.workspace.change_retention(400, 365)
    erase_expired_reports()
    # As version 1.0.0 did for its files.
    mark_known("2026-10/retention-01a20f0d-0000-7000-8000-000000000000.json")
    erase(another_api, create_ready_report(another_api, "44444444"))
    where = [("EMAIL", "amina@payer.test")]
    block(api.workspace.pk, where, Block.Reason.UNKNOWN)
    demand_second(another_api)


def hire_staff(workspace: Workspace) -> None:
    """Let colleagues join, log in and fail to; one moves money by hand."""
    wangari = visitor.create_user("wangari", is_staff=True, is_superuser=True)
    add("njeri@office.test", "Njeri", [Group.objects.get(name="Finance")], by=wangari)
    barasa = visitor.create_user("barasa", is_staff=True)
    barasa.user_permissions.add(Permission.objects.earliest("id"))
    give_factor(barasa)
    remove_factor(barasa, by=wangari, reason="The phone is lost")
    browser = Client()
    visitor.log_in(browser, barasa.email, "a wrong password")
    visitor.log_in(browser, barasa.email)
    mumbi = visitor.create_user("mumbi", is_staff=True)
    give_factor(mumbi)
    visitor.log_in(browser, mumbi.email)
    browser.post("/accounts/code/", {"code": "000000"})
    SocialAccount.objects.create(user=mumbi, provider="bank", uid="a" * 64)
    log_in(browser, wangari)
    account = workspace.accounts.get(environment="production")
    entry = dialog_fields(amount="100", note="Transfer 7")
    press_button(browser, "top_up", account, **entry)


def join_workspace(workspace: Workspace) -> None:
    """Let a member go live, ask for another name and invite somebody."""
    member = create_member(workspace, "OWNER", "odhiambo")
    known = {"registrationNumber": "PVT-12345670", "tradingName": "Baobab"}
    application = applications.in_review(member, **known)
    approve(application.pk, by(applications.reviewer()))
    member.refresh_from_db()
    who = by(member.user, ActorKind.MEMBER)
    request_name_change(member, "Baobab Bank PLC", "Baobab", "We merged", who)
    invite(member, "new@people.test", Role.VIEWER)
    Note.objects.create(workspace=workspace, author="grace", text="Calls on Mondays.")
    create_package(workspace=workspace)
    # The member chooses messages; the address refuses one.
    choose(member, "production", REPORT_READY="NOW")
    RefusedAddress.objects.create(address_hash=b"r" * 32)


def decide_by_rules(api: Api) -> None:
    """Let a policy decide, and leave a report to a person."""
    switch_on(api, APPROVE_LOW)
    NoticeRule.objects.create(workspace=api.workspace, waiting_days=5)
    report = Report.objects.get(pk=create_ready_report(api, "55555555"))
    open_case(report, CaseCause.REQUESTED, due_at=now() + timedelta(days=1))


def run_schedule() -> None:
    """Run what the schedule does at night."""
    seal_events()
    audit.record("workspace.changed", audit.SERVICE, Workspace.objects.first())
    audit_nightly()
    # The audit sums up entries that are older than a quarter of an hour.
    walk = AuditWalk.objects.first()
    AuditTotal.objects.create(walk=walk, account_id=uuid7(), total=0)
    count_changed_days()
    # Days that changed a moment ago are due again.
    mark_changed_days()
    reconcile_yesterday()
    DigestDay.objects.get_or_create(day=now().date(), defaults={"until": now()})
    record_alert(OperatorAlertKind.UNOPENED, "paystack", message="Paystack is away")
    Backup.objects.create(rows=1, seconds=1)
    RestoreDrill.objects.create(succeeded=True, seconds=1)
    ended = {"started": now(), "stopped": now(), "success": False}
    Failure.objects.create(id="f" * 32, name="purge", func=PURGE, **ended)
