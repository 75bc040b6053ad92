from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.fakes.smtp import MailServer
from tests.notifications.messages import ADDRESS, LINK, asked, wanted
from tests.world.clients import Api
from tests.world.clock import let_time_pass
from tests.world.logs import LogLines
from tests.world.threads import run_at_once
from verification.db.bulk_insert import insert
from verification.jobs.models import Job
from verification.notifications import delivery
from verification.notifications.delivery import (
    MAX_ATTEMPTS,
    Mailer,
    claim,
    message_id,
    send_due_notifications,
)
from verification.notifications.models import Notification, Outcome
from verification.notifications.outbox import (
    SEND_DUE,
    NotResendable,
    cancel,
    notification_rows,
    notify,
    purge_recipients,
    send_again,
    wake_up_row,
)
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db


def jobs() -> Any:
    return Job.objects.filter(function=SEND_DUE)


def test_what_is_wanted_is_sent_once(mail_server: MailServer):
    row = asked(wanted())
    send_due_notifications()
    send_due_notifications()

    (message,) = mail_server.messages
    row.refresh_from_db()
    assert message["To"] == ADDRESS
    assert message["From"] == "no-reply@localhost"
    assert message["Auto-Submitted"] == "auto-generated"
    assert LINK in message.get_content()
    assert (row.status, row.attempts) == ("SENT", 1)
    assert now() - row.sent_at < timedelta(minutes=1)


def test_nothing_is_told_twice_for_one_cause():
    notify(wanted())
    notify(wanted(), wanted("consent:1:2"))
    notify(wanted("consent:1:2"))
    send_due_notifications()

    assert len(mail.outbox) == 2


def test_rows_that_go_with_others_are_sent_and_refuse_a_second_for_a_cause():
    at = now()
    insert(notification_rows([wanted()], at), wake_up_row(at))
    assert jobs()
    send_due_notifications()
    assert len(mail.outbox) == 1

    with pytest.raises(IntegrityError), transaction.atomic():
        insert(notification_rows([wanted()], at))


def test_nothing_is_sent_of_what_was_rolled_back():
    with transaction.atomic():
        notify(wanted())
        transaction.set_rollback(True)
    send_due_notifications()

    assert mail.outbox == []
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_senders_at_once_send_each_message_once(mail_server: MailServer):
    people = [f"p{n}@subject.test" for n in range(30)]
    notify(*[wanted(f"consent:{one}:1", recipient=one) for one in people])

    run_at_once(3, lambda _: send_due_notifications())

    ids = [message["Message-ID"] for message in mail_server.messages]
    assert len(ids) == len(set(ids)) == 30
    assert set(Notification.objects.values_list("status", flat=True)) == {"SENT"}


def test_messages_of_one_run_share_a_connection(mail_server: MailServer):
    notify(*[wanted(f"consent:{n}:1") for n in range(5)])
    send_due_notifications()

    assert (len(mail_server.messages), mail_server.connections) == (5, 1)


def test_a_message_whose_sender_died_is_sent_again_under_the_same_id(
    mail_server: MailServer,
):
    asked(wanted())
    lost = claim()
    assert lost
    with Mailer() as mailer:
        delivery.attempt(lost, mailer)
    send_due_notifications()
    assert len(mail_server.messages) == 1

    let_time_pass()
    send_due_notifications()

    first, second = mail_server.messages
    assert first["Message-ID"] == second["Message-ID"] == message_id(lost)


def test_a_sender_that_comes_late_overwrites_nothing():
    row = asked(wanted())
    late = claim()
    assert late
    let_time_pass()
    send_due_notifications()

    assert not delivery.record(
        late, Outcome(Notification.Error.REFUSED, permanent=True)
    )
    row.refresh_from_db()
    assert row.status == "SENT"


def test_a_claim_is_nobody_elses_until_its_lease_ends():
    asked(wanted())
    assert claim()
    assert claim() is None
    Job.objects.all().delete()
    send_due_notifications()
    assert mail.outbox == []
    # Somebody looks when the lease has ended.
    row = Notification.objects.get()
    assert row.leased_until in jobs().values_list("due_at", flat=True)


def test_a_message_that_kills_every_sender_fails_in_the_end():
    row = asked(wanted())
    for _ in range(MAX_ATTEMPTS):
        assert claim()
        let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("FAILED", "INTERRUPTED")
    assert mail.outbox == []


def test_a_failure_is_tried_again_on_the_schedule(mail_server: MailServer):
    mail_server.data_code = 451
    row = asked(wanted())
    waits = []
    for _ in range(5):
        send_due_notifications()
        row.refresh_from_db()
        assert (row.status, row.error) == ("PENDING", "NOT_TAKEN")
        waits.append(round((row.next_attempt_at - now()).total_seconds() / 60))
        let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert waits == [1, 5, 30, 120, 360]
    assert (row.status, row.attempts) == ("FAILED", 6)


def test_a_server_that_is_away_is_tried_again(settings: Any, mail_server: MailServer):
    row = asked(wanted())
    settings.EMAIL_PORT = 1
    send_due_notifications()
    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "UNREACHABLE")

    settings.EMAIL_PORT = mail_server.port
    let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("SENT", "")


def test_an_address_that_is_refused_for_good_fails_at_once(mail_server: MailServer):
    mail_server.refuses[ADDRESS] = 550
    row = asked(wanted())
    another = asked(wanted("consent:2:1", recipient="kamau@subject.test"))
    send_due_notifications()

    row.refresh_from_db()
    another.refresh_from_db()
    assert (row.status, row.error, row.attempts) == ("FAILED", "REFUSED", 1)
    assert another.status == "SENT"


def test_an_address_that_is_refused_for_now_is_tried_again(mail_server: MailServer):
    mail_server.refuses[ADDRESS] = 450
    row = asked(wanted())
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "NOT_TAKEN")


@pytest.mark.parametrize("address", ["no address\nBcc: eve@evil.test", "two words"])
def test_what_is_no_address_fails_at_once(mail_server: MailServer, address: str):
    row = asked(wanted(recipient=address))
    mail_server.refuses[address] = 553
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, mail_server.messages) == ("FAILED", [])


def test_a_message_that_cannot_be_written_is_tried_again(log_lines: LogLines):
    row = asked(wanted(context={**wanted().context, "expiresAt": "Wanjiku Kamau"}))
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "NOT_WRITTEN")
    assert "Wanjiku" not in str(log_lines())


def test_nothing_personal_is_logged(mail_server: MailServer, log_lines: LogLines):
    mail_server.refuses[ADDRESS] = 550
    asked(wanted())
    send_due_notifications()

    (line,) = log_lines()
    assert line["message"].endswith("was not mailed: SMTPRecipientsRefused")
    assert ADDRESS not in str(line)


def test_cancelling_keeps_what_waits_from_being_sent():
    row = asked(wanted(), wanted("consent:2:1"))
    assert cancel("consent:1:1") == 1
    assert cancel("consent:1:1") == 0
    send_due_notifications()

    row.refresh_from_db()
    assert row.status == "CANCELLED"
    assert len(mail.outbox) == 1
    assert cancel("consent:2:1") == 0


def test_what_a_suspended_workspace_would_send_waits_until_it_works_again(
    workspace: Workspace, another_api: Api
):
    workspace.suspend("Unpaid invoices")
    row = asked(wanted(workspace_id=workspace.pk))
    asked(wanted("consent:2:1", workspace_id=another_api.workspace.pk))
    asked(wanted("staff:1"))
    Job.objects.all().delete()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.attempts, len(mail.outbox)) == ("PENDING", 0, 2)
    # Nobody looks for it again and again meanwhile.
    assert not jobs().exists()

    workspace.resume()
    assert jobs().exists()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, len(mail.outbox)) == ("SENT", 3)


def test_what_is_being_sent_is_not_cancelled():
    asked(wanted())
    assert claim()
    assert cancel("consent:1:1") == 0


def test_staff_send_again_what_ended_under_another_id(mail_server: MailServer):
    row = asked(wanted())
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
def test_who_it_went_to_is_forgotten_after_30_days_and_the_skeleton_stays(
    days: int, kept: bool
):
    row = asked(wanted())
    send_due_notifications()
    Notification.objects.update(created_at=now() - timedelta(days=days))
    purge_recipients()

    row.refresh_from_db()
    assert (row.recipient is not None, row.context is not None) == (kept, kept)
    assert (row.status, row.cause) == ("SENT", "consent:1:1")
    if not kept:
        with pytest.raises(NotResendable):
            send_again(row)


def test_the_database_refuses_a_row_that_contradicts_itself():
    asked(wanted())
    for wrong in [
        {"status": "SENT"},
        {"next_attempt_at": None},
        {"recipient": None},
        {"sent_at": now()},
    ]:
        with pytest.raises(IntegrityError), transaction.atomic():
            Notification.objects.update(**wrong)
