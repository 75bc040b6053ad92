"""The rules for recipients, and the limits of messages a day."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import time_machine

from tests.fakes.africastalking import SmsGateway
from tests.fakes.smtp import MailServer
from tests.notifications.messages import (
    ADDRESS,
    NUMBER,
    email_message,
    enqueue,
    send_due,
    sms_message,
)
from tests.world.clients import (
    HOSTED,
    READERS,
    Api,
    approve_workspace,
    confirm_sandbox_addresses,
    person,
)
from tests.world.members import create_member
from tests.world.threads import run_at_once
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import (
    Block,
    DailyCount,
    Kind,
    Notification,
    SandboxAddress,
)
from verification.notifications.outbox import (
    is_sendable,
    notify,
    purge_recipients,
    send_again,
)
from verification.notifications.recipients import NEWCOMERS_PER_RECIPIENT, block
from workspaces.create import create_workspace
from workspaces.models import Workspace

STRANGER = "stranger@elsewhere.test"


def outcomes() -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for key in Notification.objects.values_list("status", "error"):
        found[key] = found.get(key, 0) + 1
    return found


def requests(workspace: Workspace, count: int, **fields: Any) -> None:
    """Store requests of a workspace in production, all to one address."""
    causes = (f"consent:{workspace.pk}:{n}" for n in range(count))
    fields = {"workspace_id": workspace.pk, **fields}
    notify(*[email_message(cause, **fields) for cause in causes])


@pytest.mark.slow
def test_flood_of_sandbox_requests_sends_a_stranger_nothing(api: Api):
    items = [
        {**person(email=STRANGER, idNumber=f"1234{n:04}"), "consent": HOSTED}
        for n in range(500)
    ]
    api.create(*items)

    assert send_due() == []
    assert outcomes() == {("WITHHELD", "SANDBOX"): 500}


@pytest.mark.django_db(transaction=True)
def test_flood_over_workspaces_and_senders_stays_within_the_limit(
    settings: Any, mail_server: MailServer
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 4
    for n in range(5):
        one = create_workspace(name=f"W{n}", owner_email="o@acacia.test")
        requests(one, 6, recipient=f"stranger+{n}@Elsewhere.test")

    run_at_once(4, lambda _: send_due_notifications())

    assert len(mail_server.messages) == 12
    assert outcomes() == {("SENT", ""): 12, ("WITHHELD", "RECIPIENT_LIMIT"): 18}


@pytest.mark.parametrize(
    "kind",
    [Kind.CONSENT_REQUEST, Kind.ACCESS_LINK, Kind.CONSENT_LOCKED, Kind.INVITATION],
)
def test_workspace_uses_up_no_messages_of_others(settings: Any, api: Api, kind: Kind):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 2
    requests(api.workspace, 3, kind=kind, recipient=STRANGER)
    assert {*send_due()} == {STRANGER}
    other = create_workspace(name="Bank", owner_email="b@b.test")
    requests(other, 1, kind=kind, recipient=STRANGER)

    assert send_due() == [STRANGER]


def test_link_to_own_data_ignores_the_limit_of_requests(
    settings: Any, workspace: Workspace
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 2)
    fields = {"kind": Kind.ACCESS_LINK, "workspace_id": workspace.pk}
    notify(email_message("consent:1:2", **fields))

    assert send_due() == [ADDRESS] * 2


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [Kind.INVITATION, Kind.SANDBOX_ADDRESS])
def test_all_workspaces_that_are_not_live_share_a_limit(settings: Any, kind: Kind):
    settings.MESSAGES_OF_NEWCOMERS_PER_DAY = 3
    for n in range(5):
        one = create_workspace(name=f"W{n}", owner_email="o@acacia.test")
        requests(one, 1, kind=kind, recipient=f"stranger{n}@elsewhere.test")
    live = create_workspace(name="Live", owner_email="o@acacia.test")
    approve_workspace(live)
    requests(live, 1, kind=kind)

    assert len(send_due()) == 4
    assert outcomes() == {("SENT", ""): 4, ("WITHHELD", "OPERATOR_LIMIT"): 2}


def test_workspaces_that_are_not_live_use_up_no_requests_of_others(
    settings: Any, workspace: Workspace
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    for n in range(NEWCOMERS_PER_RECIPIENT + 1):
        one = create_workspace(name=f"W{n}", owner_email="o@acacia.test")
        requests(one, 1, kind=Kind.INVITATION)
    send_due()
    assert outcomes()["WITHHELD", "RECIPIENT_LIMIT"] == 1
    requests(workspace, 1)

    assert send_due() == [ADDRESS]


def test_flood_of_a_blocked_workspace_sends_nothing(workspace: Workspace):
    block(workspace.pk, [("EMAIL", STRANGER)], Block.Reason.UNWANTED)
    requests(workspace, 10, recipient=STRANGER)

    assert send_due() == []
    assert outcomes() == {("WITHHELD", "BLOCKED"): 10}


def test_sandbox_sends_to_active_members(api: Api):
    owner, former = (
        create_member(api.workspace, "OWNER"),
        create_member(api.workspace, "ADMIN"),
    )
    former.user.is_active = False
    former.user.save()
    for address in (owner.user.email.upper(), former.user.email):
        api.create({**person(email=address), "consent": HOSTED})

    assert send_due() == [owner.user.email.upper()]


def test_sandbox_sends_to_confirmed_addresses_of_its_own_workspace(
    api: Api, another_api: Api
):
    confirm_sandbox_addresses(api.workspace, STRANGER)
    for one in (api, another_api):
        one.create({**person(email=STRANGER), "consent": HOSTED})

    assert send_due() == [STRANGER]


@pytest.mark.parametrize("address", ["stranger+a@elsewhere.test", "STRANGER@x.test"])
def test_only_the_confirmed_spelling_gets_messages(api: Api, address: str):
    confirm_sandbox_addresses(api.workspace, STRANGER)
    api.create({**person(email=address), "consent": HOSTED})

    assert send_due() == []


def test_unconfirmed_address_gets_nothing_of_the_sandbox(api: Api):
    confirm_sandbox_addresses(api.workspace, STRANGER)
    SandboxAddress.objects.update(confirmed_at=None, code_hash=b"x")
    api.create({**person(email=STRANGER), "consent": HOSTED})

    assert send_due() == []


def test_sandbox_keeps_sms_for_the_mailbox_without_a_gateway(api: Api):
    api.create({**person(phone=NUMBER), "consent": HOSTED})
    send_due_notifications()

    row = Notification.objects.get()
    assert (row.channel, row.status, row.error) == ("SMS", "WITHHELD", "SANDBOX")


def test_sandbox_sends_sms_to_confirmed_numbers(api: Api, sms_gateway: SmsGateway):
    confirm_sandbox_addresses(api.workspace, NUMBER)
    for phone in (NUMBER, "+254711000222"):
        api.create({**person(phone=phone), "consent": HOSTED})
    send_due_notifications()

    assert [number for number, _ in sms_gateway.sent] == [NUMBER]


def test_sandbox_and_production_have_separate_counts(
    workspace: Workspace, settings: Any
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 2
    requests(workspace, 3, recipient=READERS[0])
    fields = {"recipient": READERS[0], "workspace_id": workspace.pk, "sandbox": True}
    notify(*[email_message(f"sandbox:{n}", **fields) for n in range(3)])

    assert send_due() == [READERS[0]] * 4


def test_limit_ends_with_the_day(workspace: Workspace, settings: Any):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 2)
    assert send_due() == [ADDRESS]
    DailyCount.objects.update(day=date(2026, 1, 1))
    requests(create_workspace(name="B", owner_email="b@b.test"), 2)
    assert send_due() == [ADDRESS]

    assert DailyCount.objects.filter(day=date(2026, 1, 1)).count() == 3
    purge_recipients()
    assert DailyCount.objects.filter(day=date(2026, 1, 1)).count() == 0


def test_retried_message_counts_once(
    workspace: Workspace, settings: Any, mail_server: MailServer
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 1)
    mail_server.refuses[ADDRESS] = 451
    send_due_notifications()
    Notification.objects.update(next_attempt_at="2026-01-01T00:00:00Z")
    mail_server.refuses.clear()
    send_due_notifications()

    assert len(mail_server.messages) == 1


def test_message_that_staff_send_again_counts_again(workspace, settings):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 1)
    assert send_due() == [ADDRESS]
    send_again(Notification.objects.get())

    assert send_due() == []


def test_reminder_of_a_sent_request_ignores_the_limit(workspace, settings):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 2)
    assert send_due() == [ADDRESS]
    for row in Notification.objects.all():
        enqueue(
            email_message(
                f"{row.cause}:reminder",
                kind=Kind.CONSENT_REMINDER,
                workspace_id=workspace.pk,
            )
        )

    assert send_due() == [ADDRESS]
    (late,) = Notification.objects.filter(kind="CONSENT_REMINDER", status="WITHHELD")
    assert late.error == "RECIPIENT_LIMIT"


def test_receipt_ignores_the_limit_of_requests(workspace, settings, monkeypatch):
    monkeypatch.setattr("verification.notifications.templates.ATTACHMENTS", {})
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    requests(workspace, 2)
    fields = {"kind": Kind.CONSENT_RECEIPT, "workspace_id": workspace.pk}
    notify(*[email_message(f"receipt:{n}", **fields) for n in range(7)])

    # The limit of receipts is five times the limit of requests.
    assert send_due() == [ADDRESS] * 6


def test_requests_of_a_workspace_a_day_are_limited(workspace, settings):
    settings.MESSAGES_PER_WORKSPACE_PER_DAY = 3
    people = [f"p{n}@subject.test" for n in range(5)]
    notify(*[email_message(p, recipient=p, workspace_id=workspace.pk) for p in people])
    assert len(send_due()) == 3
    assert outcomes()["WITHHELD", "WORKSPACE_LIMIT"] == 2

    # A withheld message does not count for its recipient.
    counted = DailyCount.objects.filter(subject__startswith="requests:")
    # From the workspace, and from all.
    assert counted.count() == 3 * 2


def test_staff_set_the_limit_of_a_workspace(workspace, settings):
    settings.MESSAGES_PER_WORKSPACE_PER_DAY = 3
    workspace.messages_per_day = 1
    workspace.save()
    people = [f"p{n}@subject.test" for n in range(3)]
    notify(*[email_message(p, recipient=p, workspace_id=workspace.pk) for p in people])

    assert len(send_due()) == 1


@pytest.mark.parametrize("most", [0, -1])
def test_limit_of_0_sends_nothing(workspace, settings, most):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = most
    requests(workspace, 2)

    assert send_due() == []


def test_invitations_count_for_their_recipient(workspace, settings):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    approve_workspace(workspace)
    context = {"workspace": "Acacia", "url": "x"}
    requests(workspace, 2, kind=Kind.INVITATION, context=context)

    assert send_due() == [ADDRESS]


def test_owners_always_get_their_messages(workspace, settings):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 0
    context = {"workspace": "Acacia", "currency": "KES", "topUpUrl": ""}
    fields = {"kind": Kind.LOW_BALANCE, "context": context, "sandbox": True}
    requests(workspace, 3, **fields)

    assert send_due() == [ADDRESS] * 3


def test_unused_codes_are_purged_after_a_day(workspace: Workspace):
    with time_machine.travel("2026-01-01"):
        confirm_sandbox_addresses(workspace, STRANGER)
    SandboxAddress.objects.filter(confirmed_at__isnull=False).update(
        confirmed_at=None, code_hash=b"x"
    )
    purge_recipients()

    assert workspace.sandbox_addresses.count() == len(READERS)


def test_production_stores_no_sms_without_a_gateway(workspace: Workspace):
    notify(sms_message(workspace_id=workspace.pk))
    assert not Notification.objects.exists()


def rule_block(workspace: Workspace, settings: Any) -> None:
    block(workspace.pk, [("EMAIL", STRANGER)], Block.Reason.UNWANTED)


def rule_recipient(workspace: Workspace, settings: Any) -> None:
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 0


def rule_workspace(workspace: Workspace, settings: Any) -> None:
    workspace.messages_per_day = 0
    workspace.save()


def no_rule(workspace: Workspace, settings: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("rule", "sandbox", "error"),
    [
        (no_rule, False, ""),
        (no_rule, True, "SANDBOX"),
        (rule_block, False, "BLOCKED"),
        (rule_recipient, False, "RECIPIENT_LIMIT"),
        (rule_workspace, False, "WORKSPACE_LIMIT"),
    ],
)
def test_is_sendable_agrees_with_sending_without_counting(
    workspace: Workspace, settings: Any, rule: Any, sandbox: bool, error: str
):
    rule(workspace, settings)
    one = email_message(recipient=STRANGER, workspace_id=workspace.pk, sandbox=sandbox)

    assert is_sendable(one) is (error == "")
    assert not DailyCount.objects.exists()

    notify(one)
    send_due_notifications()
    assert outcomes() == {("WITHHELD" if error else "SENT", error): 1}


def test_is_sendable_is_false_after_the_last_message_of_the_day(
    workspace: Workspace, settings: Any
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 2
    one = email_message("consent:9:new", recipient=STRANGER, workspace_id=workspace.pk)
    for sent_before in (0, 1):
        assert is_sendable(one)
        notify(replace(one, cause=f"consent:9:{sent_before}"))
        send_due_notifications()

    assert not is_sendable(one)
