from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tests.notifications.messages import ADDRESS, LINK, NUMBER, email_message, enqueue
from tests.world.clients import HOSTED, Api, person
from tests.world.notices import create_report, decline_by_policy, deliver, wait
from tests.world.staff import log_in, take_messages
from tests.world.subject import visible_text
from verification.accounts import colleagues
from verification.accounts.models import StaffInvitation
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.consents.links import consent_links, send_access_link
from verification.consents.models import Consent
from verification.decisions.models import AdverseNotice
from verification.decisions.notices import record_outcomes
from verification.notifications.admin import mask_recipient
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, Channel, Notification
from verification.notifications.outbox import cancel
from verification.notifications.recipients import block
from verification.payments.models import Payment
from verification.values.clock import now
from workspaces.members import assign_owner, withdraw_all_invitations
from workspaces.models import Client as WorkspaceClient
from workspaces.models import Invitation, Workspace

pytestmark = pytest.mark.django_db
BLOCKS = reverse("admin:notifications_block_changelist")
LIST = reverse("admin:notifications_notification_changelist")
# What staff are told -> what has ended the link before
Ends = dict[str, Callable[[], Any]]


def staff(*permissions: str) -> Client:
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    log_in(client, user)
    return client


def send_again(client: Client, row: Notification) -> list[str]:
    data = {"_confirmed": "yes", "action": "send_again", "_selected_action": [row.pk]}
    return take_messages(client.post(LIST, data))


def page(row: Notification) -> str:
    return reverse("admin:notifications_notification_change", args=[row.pk])


def test_admin_masks_recipient_and_link_of_a_message(admin_client: Client):
    row = enqueue(email_message())
    for path in (LIST, page(row)):
        shown = admin_client.get(path).content.decode()
        assert "Consent Request" in shown
        assert ADDRESS not in shown
        assert LINK not in shown
    assert "w…@subject.test" in shown


def test_nothing_is_edited(admin_client: Client):
    row = enqueue(email_message())
    assert admin_client.post(page(row), {"status": "SENT"}).status_code == 403


def test_staff_send_a_sent_message_again(admin_client: Client):
    row = enqueue(email_message())
    send_due_notifications()
    (told,) = send_again(admin_client, row)
    send_due_notifications()

    assert told.endswith("is sent again.")
    assert len(mail.outbox) == 2


def test_waiting_or_cancelled_message_is_not_sent_again(admin_client: Client):
    row = enqueue(email_message())
    assert "waits already" in send_again(admin_client, row)[0]
    cancel(row.cause)
    assert "was cancelled" in send_again(admin_client, row)[0]


def assert_answers(client: Client, row: Notification, ends: Ends) -> None:
    """Assert what staff who send the message again are told after each of the ends."""
    send_due_notifications()
    for answer, end in ends.items():
        with transaction.atomic():
            end()

            (told,) = send_again(client, row)

            assert answer in told
            row.refresh_from_db()
            assert (row.status == "PENDING") == (answer == "is sent again")
            transaction.set_rollback(True)


def age_link() -> None:
    """Let another link be sent."""
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))


def test_request_is_sent_again_only_while_its_link_takes_an_answer(
    api: Api, admin_client: Client
):
    report_id = api.create({**person(email=ADDRESS), "consent": HOSTED})["id"]
    row = Notification.objects.get(kind="CONSENT_REQUEST")

    def replace() -> None:
        age_link()
        consent_links.renew(Consent.objects.get().pk)

    too_many = len(Consent.LOCK_DURATIONS) + 1
    ends: Ends = {
        "is sent again": lambda: None,
        "newer link": replace,
        "EXPIRED": lambda: Consent.objects.update(expires_at=now()),
        "is locked": lambda: Consent.objects.update(locks=too_many),
        "needs no link": lambda: api.post(f"/reports/{report_id}/cancel"),
    }
    assert_answers(admin_client, row, ends)


@pytest.mark.parametrize("kind", ["ACCESS_LINK", "REVIEW_ANSWER"])
def test_link_to_own_data_is_sent_again_only_while_it_works(
    api: Api, admin_client: Client, kind: str
):
    report_id = api.create(person(email=ADDRESS))["id"]
    api.work()
    client = WorkspaceClient(api.workspace, api.account, "member")
    send_access_link(client, report_id)
    row = Notification.objects.get(kind="ACCESS_LINK")
    if kind == "REVIEW_ANSWER":
        row.context["link"] += "/notice"
        row.kind, row.cause = kind, "review:1"
        row.save()

    def replace() -> None:
        age_link()
        send_access_link(client, report_id)

    ends: Ends = {
        "is sent again": lambda: None,
        "newer link": replace,
        "has expired": lambda: Consent.objects.update(expires_at=now()),
    }
    assert_answers(admin_client, row, ends)


def test_message_that_a_part_is_missing_is_sent_again_only_while_its_link_works(
    api: Api, admin_client: Client
):
    api.create({**person(email=ADDRESS), "paymentMode": "CANDIDATE"})
    row = Notification.objects.get(kind="PAYMENT_REQUEST")
    row.kind, row.cause = "PAYMENT_SHORT", "short:1"
    row.context |= {"paid": "1.00", "number": "VR-1"}
    row.save()
    new = {"generation": 2, "token_digest": b"2" * 32}
    ends: Ends = {
        "is sent again": lambda: None,
        "newer link": lambda: Payment.objects.update(**new),
        "needs no link": lambda: Payment.objects.update(status="PAID", paid_at=now()),
    }
    assert_answers(admin_client, row, ends)


def accept_as_staff() -> None:
    user = User.objects.get(username="njeri")
    colleagues.accept_invitation(user, "nine loud purple hippos")


def test_invitation_is_sent_again_only_while_its_link_works(
    workspace: Workspace, admin_client: Client
):
    user = User.objects.create_user("njeri", "njeri@office.test", is_staff=True)
    colleagues.invite(user, by=User.objects.get(username="admin"))
    assign_owner(workspace, "new@people.test")
    invitations: list[tuple[str, Callable[[], Any]]] = [
        ("INVITATION", lambda: Invitation.objects.update(expires_at=now())),
        ("INVITATION", lambda: withdraw_all_invitations(workspace)),
        ("STAFF_INVITATION", lambda: StaffInvitation.objects.update(expires_at=now())),
        ("STAFF_INVITATION", accept_as_staff),
    ]
    for kind, end in invitations:
        row = Notification.objects.get(kind=kind)
        assert_answers(admin_client, row, {"is sent again": lambda: None})
        assert_answers(admin_client, row, {"no longer works": end})


def test_notice_of_a_decline_that_staff_send_again_is_served(
    api: Api, admin_client: Client
):
    wait(5, api)
    decline_by_policy(api, create_report(api))
    row = Notification.objects.get(kind="ADVERSE_NOTICE")
    ends = {"status": "FAILED", "error": "REFUSED", "next_attempt_at": None}
    Notification.objects.filter(pk=row.pk).update(**ends)
    record_outcomes()

    (soon,) = send_again(admin_client, row)
    assert "wait" in soon
    AdverseNotice.objects.update(messaged_at=now() - timedelta(minutes=2))
    (told,) = send_again(admin_client, row)

    assert told.endswith("is sent again.")
    notice = deliver()
    assert (notice.state, notice.rounds) == ("SERVED", 2)
    assert notice.waits_until


def test_staff_with_view_permission_cannot_send_again():
    row = enqueue(email_message())
    send_due_notifications()
    send_again(staff("view_notification"), row)
    send_due_notifications()
    assert len(mail.outbox) == 1


def test_recipients_are_masked():
    assert mask_recipient(ADDRESS, Channel.EMAIL) == "w…@subject.test"
    assert mask_recipient(NUMBER, Channel.SMS) == "+2547…11"


def test_staff_review_a_workspace_that_a_recipient_does_not_know(workspace):
    block(workspace.pk, [("EMAIL", ADDRESS)], Block.Reason.UNKNOWN)
    block(workspace.pk, [("SMS", NUMBER)], Block.Reason.UNWANTED)
    ids = list(Block.objects.values_list("pk", flat=True))
    to_review = f"{BLOCKS}?review=open"
    client = staff("view_block", "change_block")
    assert "1 block" in visible_text(client.get(to_review).content.decode())
    data = {"_confirmed": "yes", "action": "mark_reviewed", "_selected_action": ids}
    client.post(BLOCKS, data)

    assert "0 blocks" in visible_text(client.get(to_review).content.decode())
    assert Block.objects.filter(reviewed_at=None).get().reason == "UNWANTED"
    assert AuditEvent.objects.filter(action="block.reviewed").count() == 1
    assert take_messages(client.post(BLOCKS, data)) == [NOT_OFFERED]


def test_staff_with_view_permission_cannot_mark_as_reviewed(workspace):
    block(workspace.pk, [("EMAIL", ADDRESS)], Block.Reason.UNKNOWN)
    data = {
        "_confirmed": "yes",
        "action": "mark_reviewed",
        "_selected_action": [Block.objects.get().pk],
    }
    staff("view_block").post(BLOCKS, data)

    assert Block.objects.get().reviewed_at is None


def test_workspace_page_counts_its_blocks(workspace, admin_client):
    block(workspace.pk, [("EMAIL", ADDRESS)], Block.Reason.UNKNOWN)
    block(workspace.pk, [("SMS", NUMBER)], Block.Reason.UNWANTED)
    path = reverse("admin:workspaces_workspace_change", args=[workspace.pk])
    page = visible_text(admin_client.get(path).content.decode())
    assert "Recipients: 2, of whom 1 do not know it" in page
