"""Messages to members about what has just happened."""

import re
from datetime import timedelta
from smtplib import SMTPRecipientsRefused

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.digests.conftest import Clock
from tests.world.clients import HOSTED, Api, person
from tests.world.decisions import (
    Officer,
    create_case,
    create_ready_report,
    decide,
    demand_second,
)
from tests.world.member_messages import choose, messages_to, news_of
from tests.world.members import create_member
from tests.world.notices import create_report as create_declinable
from tests.world.notices import decline
from tests.world.orders import REFUSED, create_report_with_status
from tests.world.rules import raise_alert
from tests.world.subject import EVIDENCE
from tests.world.threads import run_at_once
from verification.consents.models import Consent
from verification.consents.subject_decisions import decline as decline_consent
from verification.digests.messages import send_news
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Kind, Notification
from verification.notifications.templates import write_email
from workspaces import members
from workspaces.models import Member, MessageChoice, MessageWindow, Role, Scope

pytestmark = pytest.mark.django_db


def end_reports(api: Api, count: int = 1, **subject: str) -> list[str]:
    made = [api.create(person(**subject))["id"] for _ in range(count)]
    api.work()
    return made


@pytest.fixture
def tester(clock: Clock, api: Api) -> Member:
    """Return a member who wants all news of the sandbox at once."""
    member = Officer(api, name="tester").member
    kinds = ("REPORT_READY", "REPORT_FAILED", "DECISION_WAITING", "ALERT")
    choose(member, "sandbox", **dict.fromkeys(kinds, "NOW"))
    clock.pass_by(seconds=1)
    return member


def test_member_gets_a_link_to_a_report_that_is_ready(api, tester, clock):
    (report,) = end_reports(api)
    clock.pass_by(minutes=2)
    send_news()
    send_due_notifications()

    (message,) = mail.outbox
    assert message.to == [tester.user.email]
    english, kiswahili = message.subject.removeprefix("[SANDBOX] ").split(" / ")
    assert (english, kiswahili) == ("A report is ready", "Ripoti moja iko tayari")
    assert f"/sandbox/reports/{report}\n" in message.body
    assert "/sandbox/messages/\n" in message.body


def test_message_names_no_subject_and_no_reference(api, tester, clock):
    item = person(fullName="Wanjiku Kamau") | {"reference": "loan-of-wanjiku"}
    api.create(item)
    api.work()
    clock.pass_by(minutes=2)
    send_news()

    (message,) = messages_to(tester)
    assert "anjiku" not in str(message.context)
    assert "12345678" not in str(message.context)


def test_reports_of_one_minute_are_one_message(api, tester, clock):
    end_reports(api, 8)
    clock.pass_by(seconds=40)
    assert news_of(tester) == []
    end_reports(api, 3)
    clock.pass_by(seconds=60)

    assert news_of(tester) == [("REPORT_READY", 11)]
    (message,) = messages_to(tester)
    assert len(message.context["urls"]) == 10
    assert message.context["more"] == 1


def test_next_message_of_a_kind_rests_for_ten_minutes(api, tester, clock):
    end_reports(api)
    clock.pass_by(minutes=2)
    assert news_of(tester) == [("REPORT_READY", 1)]
    end_reports(api, 2)
    clock.pass_by(minutes=9)
    assert len(news_of(tester)) == 1
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("REPORT_READY", 1), ("REPORT_READY", 2)]
    clock.pass_by(minutes=20)
    assert len(news_of(tester)) == 2


def test_failed_and_partial_reports_are_one_kind(api, tester, clock):
    end_reports(api, idNumber=REFUSED)
    create_report_with_status(api, "PARTIAL ended")
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("REPORT_FAILED", 2)]


def test_news_of_a_refused_consent_speak_of_no_failed_check(api, tester, clock):
    made = api.create({**person(), "consent": HOSTED})["id"]
    consent = Consent.objects.get(report=made)
    decline_consent(consent.pk, consent.generation, EVIDENCE, "")
    clock.pass_by(minutes=2)
    send_news()

    (message,) = messages_to(tester, Kind.MEMBER_NEWS)
    text = write_email(message).text
    assert "A report has ended without all results" in text
    assert "failed checks" not in text


def test_alert_is_told_with_its_page(api, tester, clock):
    alert = raise_alert(api)
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("ALERT", 1)]
    (message,) = messages_to(tester)
    (url,) = message.context["urls"]
    assert url.endswith(f"/sandbox/monitoring/alerts/{alert.pk}")


def test_proposal_is_told_to_all_but_its_maker(api, tester, clock):
    demand_second(api)
    maker = Officer(api)
    choose(maker.member, "sandbox", DECISION_WAITING="NOW")
    report = create_ready_report(api)
    choose(tester, "sandbox", REPORT_READY="OFF")
    maker.decide(report)
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("DECISION_WAITING", 1)]
    assert news_of(maker.member) == []


def test_proposal_of_a_key_is_not_told_to_the_maker_of_the_key(api, tester, clock):
    demand_second(api)
    other = Officer(api).member
    choose(other, "sandbox", DECISION_WAITING="NOW")
    choose(tester, "sandbox", REPORT_READY="OFF")
    key = Api(api.workspace, "sandbox", scopes=list(Scope), made_by=tester.user_id)
    decide(key, create_ready_report(api))
    clock.pass_by(minutes=2)

    assert news_of(other) == [("DECISION_WAITING", 1)]
    assert news_of(tester) == []


def test_report_in_the_queue_is_told_until_somebody_takes_it(api, tester, clock):
    choose(tester, "sandbox", REPORT_READY="OFF")
    create_case(api)
    taken = create_case(api)
    Officer(api).take(taken)
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("DECISION_WAITING", 1)]


def test_proposal_about_a_report_in_the_queue_counts_once(api, tester, clock):
    choose(tester, "sandbox", REPORT_READY="OFF")
    demand_second(api)
    Officer(api).decide(create_case(api))
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("DECISION_WAITING", 1)]


def test_notice_that_reaches_nobody_is_told(api, tester, clock):
    choose(tester, "sandbox", REPORT_READY="OFF", HAND_OVER="NOW")
    clock.pass_by(seconds=1)
    officer = Officer(api)
    for email in (None, "wanjiku@kamau.test"):
        decline(officer, create_declinable(api, email=email))
    clock.pass_by(minutes=2)

    assert news_of(tester) == [("HAND_OVER", 1)]


def test_what_happened_before_the_choice_is_no_news(api, clock):
    end_reports(api)
    member = Officer(api).member
    clock.pass_by(minutes=1)
    choose(member, "sandbox", REPORT_READY="NOW")
    clock.pass_by(minutes=5)

    assert news_of(member) == []


def test_workspace_that_wants_nothing_costs_no_statement(api, clock):
    """The job reads the windows, and nothing else; the engine writes nothing."""
    Officer(api)
    end_reports(api)
    with CaptureQueriesContext(connection) as queries:
        send_news()

    assert [q["sql"].split(" FROM ")[0][:6] for q in queries] == ["SELECT"]
    assert not MessageWindow.objects.exists()


def test_engine_makes_no_more_statements_for_members_who_want_all(api, clock):
    def statements() -> int:
        api.create(person())
        with CaptureQueriesContext(connection) as queries:
            api.work()
        return len(queries)

    statements()
    before = statements()
    member = Officer(api).member
    choose(member, "sandbox", REPORT_READY="NOW", REPORT_FAILED="NOW")

    assert statements() == before


def test_window_ends_with_its_last_reader(api, tester, clock):
    choose(tester, "sandbox", REPORT_READY="OFF")
    end_reports(api)
    clock.pass_by(minutes=2)
    send_news()

    kinds = set(MessageWindow.objects.values_list("kind", flat=True))
    assert kinds == {"REPORT_FAILED", "DECISION_WAITING", "ALERT"}


def test_quiet_window_moves_on_so_that_its_query_stays_short(api, tester, clock):
    before = MessageWindow.objects.get(kind="ALERT").told_until
    clock.pass_by(hours=2)
    send_news()

    window = MessageWindow.objects.get(kind="ALERT")
    assert window.told_until - before > timedelta(hours=1)


def test_statements_do_not_grow_with_the_workspaces_that_want_news(
    api, another_api, tester, clock
):
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            send_news()
        return len(queries)

    before = statements()
    kinds = ("REPORT_READY", "REPORT_FAILED", "DECISION_WAITING", "ALERT")
    for environment in ("sandbox", "production"):
        other = create_member(another_api.workspace, "ADMIN", environment)
        choose(other, environment, **dict.fromkeys(kinds, "NOW"))

    assert statements() == before


def test_member_who_left_gets_none(api, tester, clock):
    end_reports(api)
    members.leave(tester)
    clock.pass_by(minutes=2)

    assert news_of(tester) == []
    assert not MessageChoice.objects.exists()


def test_deactivated_member_gets_none(api, tester, clock):
    end_reports(api)
    tester.user.is_active = False
    tester.user.save()
    clock.pass_by(minutes=2)

    assert news_of(tester) == []


def test_viewer_gets_no_decisions_that_they_may_not_see(api, tester, clock):
    demand_second(api)
    report = create_ready_report(api)
    choose(tester, "sandbox", REPORT_READY="OFF")
    Member.objects.filter(pk=tester.pk).update(role=Role.VIEWER)
    Officer(api).decide(report)
    clock.pass_by(minutes=2)

    assert news_of(tester) == []


def test_suspended_workspace_sends_none(api, tester, clock):
    end_reports(api)
    api.workspace.suspend("unpaid")
    clock.pass_by(minutes=2)

    assert news_of(tester) == []


def test_two_jobs_at_once_send_one_message(clock, api, tester, transactional_db):
    end_reports(api)
    clock.pass_by(minutes=2)
    run_at_once(2, send_news)

    assert news_of(tester) == [("REPORT_READY", 1)]


def test_killed_job_sends_the_message_next_time(api, tester, clock, monkeypatch):
    """The window moves on in the transaction that stores the message."""
    end_reports(api)
    clock.pass_by(minutes=2)
    monkeypatch.setattr("verification.digests.messages.utc_text", ("x" * 99).format)
    with pytest.raises(Exception, match="too long"):
        send_news()
    monkeypatch.undo()

    assert news_of(tester) == [("REPORT_READY", 1)]


class TestOffLink:
    def header(self) -> str:
        send_news()
        send_due_notifications()
        headers = mail.outbox[-1].extra_headers
        assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        return re.fullmatch("<https?://[^/]+(/.+)>", headers["List-Unsubscribe"])[1]

    def test_one_click_turns_off_this_kind_alone(self, api, tester, clock):
        end_reports(api)
        clock.pass_by(minutes=2)
        path = self.header()
        browser = Client(enforce_csrf_checks=True)
        assert browser.get(path).status_code == 200
        assert not MessageChoice.objects.filter(time="OFF").exists()

        answer = browser.post(path, {"List-Unsubscribe": "One-Click"})

        assert answer.status_code == 204
        (off,) = MessageChoice.objects.filter(time="OFF")
        assert (off.environment, off.kind) == ("sandbox", "REPORT_READY")

    def test_forged_token_or_that_of_a_former_member_turns_nothing_off(
        self, api, tester, clock
    ):
        end_reports(api)
        clock.pass_by(minutes=2)
        path = self.header()
        forged = [
            path[:-1] + ("a" if path[-1] != "a" else "b"),
            path.replace("REPORT_READY", "ALERT"),
            path.replace("sandbox", "production"),
        ]
        for other in forged:
            answer = Client().post(other, {"List-Unsubscribe": "One-Click"})
            assert answer.status_code == 404
        assert not MessageChoice.objects.filter(time="OFF").exists()
        members.leave(tester)
        assert Client().get(path).status_code == 404


def test_address_that_was_refused_gets_none_until_its_member_saves(
    api, tester, clock, monkeypatch
):
    def refuse(self, messages):
        raise SMTPRecipientsRefused({messages[0].to[0]: (550, b"no such user")})

    end_reports(api)
    clock.pass_by(minutes=2)
    monkeypatch.setattr(EmailBackend, "send_messages", refuse)
    assert len(news_of(tester)) == 1
    send_due_notifications()
    monkeypatch.undo()
    end_reports(api)
    clock.pass_by(minutes=20)
    assert len(news_of(tester)) == 1

    choose(tester, "sandbox", REPORT_READY="NOW")
    end_reports(api)
    clock.pass_by(minutes=20)
    assert len(news_of(tester)) == 2
    statuses = Notification.objects.filter(kind=Kind.MEMBER_NEWS).order_by("id")
    assert list(statuses.values_list("status", flat=True)) == ["FAILED", "PENDING"]
