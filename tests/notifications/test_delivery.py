from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.timezone import now

from tests.fakes.smtp import MailServer
from tests.notifications.messages import ADDRESS, LINK, email_message, enqueue
from tests.world.clients import Api
from tests.world.clock import let_time_pass
from tests.world.logs import LogLines
from tests.world.threads import run_at_once, uncommitted
from verification.db.bulk_insert import insert
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.notifications import delivery
from verification.notifications.delivery import (
    MAX_ATTEMPTS,
    Mailer,
    claim,
    message_id,
    send_due_notifications,
)
from verification.notifications.models import (
    Kind,
    Notification,
    NotificationError,
    Outcome,
    RefusedAddress,
)
from verification.notifications.outbox import (
    NotResendable,
    cancel,
    notification_rows,
    notify,
    purge_recipients,
    send_again,
    wake_up_row,
)
from verification.notifications.templates import EmailText
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db


def jobs() -> Any:
    return Job.objects.filter(function=JobName.SEND_NOTIFICATIONS)


def test_message_is_sent_once(mail_server: MailServer):
    row = enqueue(email_message())
    send_due_notifications()
    send_due_notifications()

    (message,) = mail_server.messages
    row.refresh_from_db()
    assert message["To"] == ADDRESS
    assert message["From"] == "no-reply@localhost"
    assert message["Auto-Submitted"] == "auto-generated"
    text, html = message.iter_parts()
    assert message.get_content_type() == "multipart/alternative"
    assert [text.get_content_type(), html.get_content_type()] == [
        "text/plain",
        "text/html",
    ]
    assert LINK in text.get_content()
    assert f'href="{LINK}"' in html.get_content()
    assert (row.status, row.attempts) == ("SENT", 1)
    assert now() - row.sent_at < timedelta(minutes=1)


def test_cause_has_one_message():
    notify(email_message())
    notify(email_message(), email_message("consent:1:2"))
    notify(email_message("consent:1:2"))
    send_due_notifications()

    assert len(mail.outbox) == 2


def test_inserted_rows_are_sent_and_allow_one_message_a_cause():
    at = now()
    insert(notification_rows([email_message()], at), wake_up_row(at))
    assert jobs()
    send_due_notifications()
    assert len(mail.outbox) == 1

    once = pytest.raises(IntegrityError, match="one_notification_a_cause")
    with once, transaction.atomic():
        insert(notification_rows([email_message()], at))


def test_rolled_back_message_is_not_sent():
    with transaction.atomic():
        notify(email_message())
        transaction.set_rollback(True)
    send_due_notifications()

    assert mail.outbox == []
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_senders_send_each_message_once(mail_server: MailServer):
    people = [f"p{n}@subject.test" for n in range(12)]
    notify(*[email_message(f"consent:{one}:1", recipient=one) for one in people])

    run_at_once(3, lambda _: send_due_notifications())

    ids = [message["Message-ID"] for message in mail_server.messages]
    assert len(ids) == len(set(ids)) == 12
    assert set(Notification.objects.values_list("status", flat=True)) == {"SENT"}


def test_messages_of_one_run_share_a_connection(mail_server: MailServer):
    notify(*[email_message(f"consent:{n}:1") for n in range(5)])
    send_due_notifications()

    assert (len(mail_server.messages), mail_server.connections) == (5, 1)


def test_retry_after_a_dead_sender_has_the_same_message_id(
    mail_server: MailServer,
):
    enqueue(email_message())
    lost = claim()
    assert lost
    with closing(Mailer()) as mailer:
        delivery.attempt(lost, mailer)
    send_due_notifications()
    assert len(mail_server.messages) == 1

    let_time_pass()
    send_due_notifications()

    first, second = mail_server.messages
    assert first["Message-ID"] == second["Message-ID"] == message_id(lost)


def test_late_sender_overwrites_nothing():
    row = enqueue(email_message())
    late = claim()
    assert late
    let_time_pass()
    send_due_notifications()

    assert not delivery.record(late, Outcome(NotificationError.REFUSED, permanent=True))
    row.refresh_from_db()
    assert row.status == "SENT"


def test_claim_is_exclusive_until_its_lease_ends():
    enqueue(email_message())
    assert claim()
    assert claim() is None
    Job.objects.all().delete()
    send_due_notifications()
    assert mail.outbox == []
    # Somebody looks when the lease has ended.
    row = Notification.objects.get()
    assert row.leased_until in jobs().values_list("due_at", flat=True)


def test_message_that_kills_its_senders_fails_at_last():
    row = enqueue(email_message())
    for _ in range(MAX_ATTEMPTS):
        assert claim()
        let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("FAILED", "INTERRUPTED")
    assert mail.outbox == []


def test_failure_is_retried_on_the_schedule():
    row = enqueue(email_message())
    waits = []
    while claimed := claim():
        delivery.record(claimed, Outcome(NotificationError.NOT_TAKEN))
        row.refresh_from_db()
        if row.status == "PENDING":
            waits.append(round((row.next_attempt_at - now()).total_seconds() / 60))
        let_time_pass()

    assert waits == [1, 5, 30, 120, 360, 360, 360, 360]
    assert (row.status, row.attempts) == ("FAILED", 9)


def test_message_is_retried_when_the_server_is_down(
    settings: Any, mail_server: MailServer
):
    row = enqueue(email_message())
    settings.EMAIL_PORT = 1
    send_due_notifications()
    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "UNREACHABLE")

    settings.EMAIL_PORT = mail_server.port
    let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("SENT", "")


@pytest.mark.django_db(transaction=True)
def test_messages_wait_for_the_mail_server_beside_one_that_is_cancelled(
    settings: Any, mail_server: MailServer
):
    cancelled = enqueue(email_message("consent:1:1"))
    waiting = enqueue(email_message("consent:2:1"), email_message("consent:3:1"))
    settings.EMAIL_PORT = 1

    with uncommitted(lambda: cancel("consent:1:1")):
        send_due_notifications()

    cancelled.refresh_from_db()
    waiting.refresh_from_db()
    assert cancelled.status == "CANCELLED"
    assert (waiting.status, waiting.error) == ("PENDING", "UNREACHABLE")


@pytest.mark.parametrize(
    ("waited", "rest"), [(0, 5), (20, 20), (600, 60)], ids=["short", "longer", "long"]
)
def test_rest_grows_with_the_absence_of_the_mail_server(
    settings: Any, mail_server: MailServer, waited: int, rest: int
):
    row = enqueue(email_message())
    Notification.objects.update(created_at=now() - timedelta(seconds=waited))
    settings.EMAIL_PORT = 1

    send_due_notifications()

    row.refresh_from_db()
    assert round((row.next_attempt_at - now()).total_seconds()) in (rest, rest - 1)


def test_messages_outlast_a_day_without_the_mail_server(
    settings: Any, mail_server: MailServer, log_lines: LogLines
):
    people = [f"p{n}@subject.test" for n in range(3)]
    rows = [enqueue(email_message(f"consent:{p}:1", recipient=p)) for p in people]
    settings.EMAIL_PORT = 1
    for tries in range(1, 4):
        send_due_notifications()
        # A message that comes while the server rests does not try it.
        late = enqueue(email_message(f"late:{tries}:1"))
        send_due_notifications()
        late.refresh_from_db()
        assert (late.status, late.error, late.attempts) == ("PENDING", "UNREACHABLE", 0)
        assert len(log_lines()) == tries
        late.delete()
        Notification.objects.update(created_at=F("created_at") - timedelta(hours=9))
        let_time_pass()

    settings.EMAIL_PORT = mail_server.port
    send_due_notifications()

    for row in rows:
        row.refresh_from_db()
        assert (row.status, row.attempts, row.error) == ("SENT", 1, "")
    assert sorted(message["To"] for message in mail_server.messages) == people
    assert mail_server.connections == 1


def test_message_fails_after_three_days_without_the_mail_server(settings: Any):
    row = enqueue(email_message())
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    Notification.objects.update(created_at=now() - timedelta(days=3))

    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("FAILED", "UNREACHABLE")


def test_codes_are_sent_first_and_messages_of_the_sandbox_last():
    rows = [
        enqueue(email_message("sandbox", sandbox=True)),
        enqueue(email_message("sandbox:code", kind=Kind.CONSENT_CODE, sandbox=True)),
        enqueue(email_message("request")),
        enqueue(email_message("code", kind=Kind.ACCESS_CODE)),
    ]

    claimed = [claim() for _ in rows]

    causes = [row.cause for row in claimed if row]
    assert causes == ["code", "request", "sandbox:code", "sandbox"]


def test_code_is_not_sent_after_its_lifetime(mail_server: MailServer):
    row = enqueue(email_message())
    Notification.objects.update(
        kind=Kind.CONSENT_CODE,
        created_at=now() - delivery.CODE_LIFETIME,
    )

    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error, mail_server.messages) == ("FAILED", "LATE", [])


REFUSED_FOR_GOOD = [
    "5.1.1 No such user",
    "unrouteable address",
    "Requested mailbox is unavailable",
    "5.4.1 Recipient address rejected: Access denied",
    "The account that you tried to reach does not exist",
]
NOT_TAKEN = [
    (450, "4.2.1 Greylisted"),
    (554, "Relay access denied"),
    (550, "5.7.1 Client host rejected"),
    (550, "relay not permitted"),
    (550, "Administrative prohibition"),
    (553, "not in my list of allowed rcpthosts (#5.7.1)"),
    (553, "5.1.8 Sender address not owned by user"),
    (550, "Access denied"),
    (550, "5.2.2 The recipient is over its limit"),
    (550, "Mailbox is full"),
    (550, "User over quota"),
    (550, "User exceeds the size limit"),
    (550, "Mailbox temporarily unavailable"),
    (550, "5.2.1 The user receives mail at a rate that prevents more"),
    (550, "Too many invalid recipients"),
    (550, "Your IP address is not welcome"),
    (550, "Your address is blacklisted"),
    (553, "Domain blocked"),
    (550, "5.1.0 192.0.2.1 may not mail from example.com by its SPF record"),
    (550, "5.2.0 Message rejected due to DMARC"),
    (550, "Domain may not exist or DNS check failed"),
    (550, "Domain has a bad reputation"),
    (550, "Anti-Spoofing: the domain is ours"),
    (550, "Spam for this user"),
    (550, "Rejected by the policy of this user"),
    (530, "Authentication required"),
]


def test_answer_about_the_mailbox_alone_refuses_it_for_good(mail_server: MailServer):
    row = Notification(kind=Kind.MEMBER_NEWS, recipient=ADDRESS)
    for_good = Outcome(NotificationError.REFUSED, permanent=True)
    for_now = Outcome(NotificationError.NOT_TAKEN)
    answers = [
        *((550, reason, for_good) for reason in REFUSED_FOR_GOOD),
        *((*answer, for_now) for answer in NOT_TAKEN),
    ]
    with closing(Mailer()) as mailer:
        for mail_server.refuses[ADDRESS], mail_server.reason, expected in answers:
            found = mailer.send(row, EmailText("Hello", "Hello", "<p>Hello</p>"))
            assert found == expected, mail_server.reason
        mail_server.refuses.clear()
        mail_server.data_code = 451
        assert mailer.send(row, EmailText("Hello", "Hello", "<p>Hello</p>")) == for_now


def test_permanently_refused_address_fails_at_once(mail_server: MailServer):
    mail_server.refuses[ADDRESS] = 550
    mail_server.reason = REFUSED_FOR_GOOD[0]
    row = enqueue(email_message())
    another = enqueue(email_message("consent:2:1", recipient="kamau@subject.test"))
    send_due_notifications()

    row.refresh_from_db()
    another.refresh_from_db()
    assert (row.status, row.error, row.attempts) == ("FAILED", "REFUSED", 1)
    assert another.status == "SENT"


def test_address_refused_for_now_is_not_remembered(mail_server: MailServer):
    mail_server.refuses[ADDRESS], mail_server.reason = NOT_TAKEN[0]
    row = enqueue(email_message(kind=Kind.MEMBER_NEWS))
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "NOT_TAKEN")
    assert not RefusedAddress.objects.exists()


@pytest.mark.parametrize("address", ["no address\nBcc: eve@evil.test", "two words"])
def test_malformed_address_fails_at_once(mail_server: MailServer, address: str):
    row = enqueue(email_message(recipient=address))
    mail_server.refuses[address] = 553
    mail_server.reason = "malformed address"
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, mail_server.messages) == ("FAILED", [])


def test_message_is_retried_when_its_template_fails(log_lines: LogLines):
    row = enqueue(
        email_message(context={**email_message().context, "expiresAt": "Wanjiku Kamau"})
    )
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "NOT_WRITTEN")
    assert "Wanjiku" not in str(log_lines())


def test_nothing_personal_is_logged(mail_server: MailServer, log_lines: LogLines):
    mail_server.refuses[ADDRESS] = 550
    enqueue(email_message())
    send_due_notifications()

    (line,) = log_lines()
    assert line["message"].endswith("was not mailed: SMTPRecipientsRefused")
    assert ADDRESS not in str(line)


def test_cancelled_message_is_not_sent():
    row = enqueue(email_message(), email_message("consent:2:1"))
    assert cancel("consent:1:1") == 1
    assert cancel("consent:1:1") == 0
    send_due_notifications()

    row.refresh_from_db()
    assert row.status == "CANCELLED"
    assert len(mail.outbox) == 1
    assert cancel("consent:2:1") == 0


def test_messages_of_a_suspended_workspace_wait(workspace: Workspace, another_api: Api):
    workspace.suspend("Unpaid invoices")
    row = enqueue(email_message(workspace_id=workspace.pk))
    enqueue(email_message("consent:2:1", workspace_id=another_api.workspace.pk))
    enqueue(email_message("staff:1"))
    # The service gives money back nevertheless.
    refund = {"kind": Kind.PAYMENT_REFUNDED, "workspace_id": workspace.pk}
    enqueue(email_message("refunded:1", **refund))
    Job.objects.all().delete()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.attempts, len(mail.outbox)) == ("PENDING", 0, 3)
    # Claims of others do not pass it.
    assert row.next_attempt_at > now()
    # No job runs for it before the workspace is resumed.
    assert not jobs().exists()

    workspace.resume()
    (job,) = jobs()
    send_due_notifications(*job.arguments)

    row.refresh_from_db()
    assert (row.status, len(mail.outbox)) == ("SENT", 4)


@pytest.mark.django_db(transaction=True)
def test_resume_waits_for_no_message_that_is_being_cancelled(workspace: Workspace):
    of_workspace = {"workspace_id": workspace.pk}
    cancelled = enqueue(email_message("consent:1:1", **of_workspace))
    held = enqueue(email_message("consent:2:1", **of_workspace))
    workspace.suspend("Unpaid invoices")
    send_due_notifications()
    workspace.resume()

    with uncommitted(lambda: cancel("consent:1:1")):
        send_due_notifications(str(workspace.pk))

    cancelled.refresh_from_db()
    held.refresh_from_db()
    assert (cancelled.status, held.status) == ("CANCELLED", "SENT")


def test_messages_of_a_suspended_workspace_fail_after_30_days(workspace: Workspace):
    row = enqueue(email_message(workspace_id=workspace.pk))
    workspace.suspend("Unpaid invoices")
    Notification.objects.update(created_at=now() - timedelta(days=31))
    send_due_notifications()
    purge_recipients()

    row.refresh_from_db()
    assert (row.status, row.recipient) == ("FAILED", None)


def test_resumed_messages_do_not_look_as_if_the_server_were_away(workspace: Workspace):
    unreachable = {"error": NotificationError.UNREACHABLE, "attempts": 0}
    row = enqueue(email_message(workspace_id=workspace.pk))
    Notification.objects.update(**unreachable)
    workspace.suspend("Unpaid invoices")
    send_due_notifications()
    workspace.resume()
    other = enqueue(email_message("staff:1"))

    # A job that began before that of the resume.
    send_due_notifications()

    other.refresh_from_db()
    row.refresh_from_db()
    assert (row.status, other.status) == ("PENDING", "SENT")


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(Outcome(), "SENT"), (Outcome(NotificationError.NOT_TAKEN), "CANCELLED")],
)
def test_message_cancelled_during_its_attempt_is_not_tried_again(
    outcome: Outcome, status: str
):
    row = enqueue(email_message())
    claimed = claim()
    cancel("consent:1:1")
    delivery.record(claimed, outcome)

    row.refresh_from_db()
    assert row.status == status


def test_message_sent_again_has_another_message_id(mail_server: MailServer):
    row = enqueue(email_message())
    with pytest.raises(NotResendable):
        send_again(row)
    send_due_notifications()
    send_again(row)
    send_due_notifications()

    first, second = mail_server.messages
    assert first["Message-ID"] != second["Message-ID"]
    row.refresh_from_db()
    assert (row.status, row.rounds, row.attempts) == ("SENT", 2, 1)


@pytest.mark.parametrize(("days", "kept"), [(29, True), (31, False)])
def test_purge_erases_recipients_after_30_days(days: int, kept: bool):
    row = enqueue(email_message())
    send_due_notifications()
    Notification.objects.update(created_at=now() - timedelta(days=days))
    purge_recipients()

    row.refresh_from_db()
    assert (row.recipient is not None, row.context is not None) == (kept, kept)
    assert (row.status, row.cause) == ("SENT", "consent:1:1")
    if not kept:
        with pytest.raises(NotResendable):
            send_again(row)


def test_database_refuses_contradictory_rows():
    enqueue(email_message())
    for wrong, constraint in [
        ({"status": "SENT"}, "notifications_wait_until_they_end"),
        ({"next_attempt_at": None}, "notifications_wait_until_they_end"),
        ({"recipient": None}, "waiting_notifications_can_be_written"),
        ({"sent_at": now()}, "sent_at_iff_sent"),
    ]:
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Notification.objects.update(**wrong)


def test_mail_for_a_try_names_a_server_that_is_away(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    with pytest.raises(CommandError, match=r"^127.0.0.1:1 took no e-mail: .*refused"):
        call_command("sendtestemail", ADDRESS)


def test_mail_for_a_try_tells_the_answer_of_the_server(mail_server: MailServer, capsys):
    call_command("sendtestemail", ADDRESS)
    mail_server.refuses[ADDRESS] = 550

    with pytest.raises(CommandError, match=r"took no e-mail: .*\(550"):
        call_command("sendtestemail", ADDRESS)
    assert capsys.readouterr().out == "The mail server took the e-mail.\n"
