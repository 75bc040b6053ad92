import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings as configured
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.utils.timezone import now
from prometheus_client.parser import text_string_to_metric_families

from tests.api.test_problems import unreachable_database as unreachable_database
from tests.checks.conftest import paying_api as paying_api
from tests.checks.source import DOWN
from tests.notifications.messages import email_message, enqueue
from tests.sources.test_health import count_calls
from tests.sources.test_routes import rests
from tests.sources.two import orders
from tests.sources.two import two as two
from tests.world.clients import person
from tests.world.clock import longest_pauses as longest_pauses
from tests.world.deliveries import configure_receiver, record_delivery
from tests.world.employer import create_reference
from tests.world.service import free_port
from verification.checks.models import CheckResult
from verification.jobs.models import Heartbeat, Job
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from verification.payments.alerts import count_failed_opening
from verification.payments.audit import audit_nightly
from verification.reports.models import Report
from verification.sources.models import Call, CallOutcome
from verification.web import metrics
from verification.web.gateway import REFUSAL
from verification.web.metrics import JOBS, QUEUES, UNFINISHED, count_messages
from workspaces.models import Workspace

HOUR = timedelta(hours=1)
TOKEN = {"HTTP_AUTHORIZATION": "Bearer correct horse"}


@pytest.fixture
def token(settings):
    settings.METRICS_TOKEN = "correct horse"
    # To print and read the requests of all tests before would take a third of a second.
    metrics.requests.clear()
    metrics.request_seconds.clear()


@pytest.fixture
def standby(db) -> Iterator[tuple[str, str]]:
    """Follow the database as a standby does that lacks its last 4 kB."""
    named = f"standby_{uuid4().hex}"
    with following(named, applies=True):
        yield "standby", named


@contextmanager
def following(named: str, *, applies: bool) -> Iterator[None]:
    """Receive what the database writes, as a standby or as `pg_receivewal`."""
    parameters = connection.get_connection_params()
    conninfo = psycopg.conninfo.make_conninfo(
        **{
            name: parameters[name]
            for name in ("host", "port", "user", "password")
            if parameters.get(name)
        },
        replication="true",
        application_name=named,
    )
    follower = psycopg.pq.PGconn.connect(conninfo.encode())
    assert follower.status == psycopg.pq.ConnStatus.OK, follower.error_message
    with connection.cursor() as cursor:
        # What is written and not yet flushed is not streamed: a start there is refused.
        cursor.execute("SELECT pg_current_wal_flush_lsn()")
        start = cursor.fetchone()[0]
        started = follower.exec_(f"START_REPLICATION PHYSICAL {start}".encode())
        assert started.status == psycopg.pq.ExecStatus.COPY_BOTH, started.error_message
        high, low = (int(part, 16) for part in start.split("/"))
        kept = (high << 32) + low - 4096
        applied = kept if applies else 0
        # The reply: written, flushed, applied, its time, no answer wanted.
        reply = struct.pack("!cQQQQB", b"r", kept, kept, applied, 0, 0)
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline
            follower.put_copy_data(reply)
            follower.flush()
            # The server streams only to a follower that has read what others wrote.
            follower.consume_input()
            while follower.get_copy_data(1)[0] > 0:
                pass
            # A transaction sees the connections that were there at its first look.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
                " AND application_name = %s AND flush_lsn IS NOT NULL",
                [named],
            )
            if cursor.fetchone()[0]:
                break
            time.sleep(0.05)
    yield
    follower.finish()


def samples(text):
    """{(name, sorted labels): value} of what Prometheus reads."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_not_found_without_a_token(client, db):
    assert configured.METRICS_TOKEN == ""
    assert client.get("/metrics").status_code == 404


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Bearer ŵrong"])
def test_metrics_need_the_token(client, token, db, given):
    answer = client.get("/metrics", HTTP_AUTHORIZATION=given.encode().decode("latin1"))

    assert answer.status_code == 401


def test_metrics_show_the_last_hour_of_each_source(
    client, token, two, db, django_assert_max_num_queries
):
    count_calls("first", {"ANSWERED": 3, "UNAVAILABLE": 1}, milliseconds=9)
    # The rests have ended, and no call has succeeded since.
    rests("first", -15 * 60)
    rests("second", -1)
    # A process looks at the migrations until they are applied.
    client.get("/metrics", **TOKEN)

    with django_assert_max_num_queries(27):
        answer = client.get("/metrics", **TOKEN)

    text = answer.content.decode()
    read = samples(text)
    calls, first = "verification_source_calls_last_hour", ("source", "first")
    latency = ("verification_source_latency_seconds", ("quantile", "0.5"), first)
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert read[calls, ("end", "answered"), first] == 3
    assert read[calls, ("end", "unavailable"), first] == 1
    assert read[latency] == 0.01
    assert read["verification_source_resting", first] == 0
    assert read["verification_source_resting", ("source", "second")] == 1
    assert text.splitlines().count("# TYPE verification_source_resting gauge") == 1


def test_metrics_count_failed_openings_and_flagged_refunds(client, token, db):
    for code in ("SOURCE_UNAVAILABLE", "SOURCE_REFUSED", "SOURCE_REFUSED"):
        count_failed_opening("stripe", code)

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_checkouts_not_opened", ("provider", "stripe")] == 3
    assert read["verification_refunds_waiting",] == 0


def test_metrics_escape_the_values_of_labels(client, token, db):
    name = 'a "quoted" \\ name\nof two lines'
    count_failed_opening(name, "SOURCE_REFUSED")

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_checkouts_not_opened", ("provider", name)] == 1


def test_metrics_count_requests_by_route(client, token, db):
    name = "verification_http_requests_total"
    labels = [("method", "GET"), ("route", "healthz"), ("status", "200")]
    before = samples(client.get("/metrics", **TOKEN).content.decode())
    client.get("/healthz")

    after = samples(client.get("/metrics", **TOKEN).content.decode())

    assert after[name, *labels] == before.get((name, *labels), 0) + 1


def test_metrics_show_what_waits_in_the_queues(api, client, token):
    api.create(person())

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_queue_due", ("queue", "checks")] == 3
    assert read["verification_queue_age_seconds", ("queue", "checks")] >= 0
    api.work()
    read = samples(client.get("/metrics", **TOKEN).content.decode())
    assert read["verification_queue_due", ("queue", "checks")] == 0


def test_metrics_leave_out_what_a_suspended_workspace_sends_later(api, client, token):
    queues = ("deliveries", "messages")
    configure_receiver(api.workspace)
    record_delivery(api)
    enqueue(email_message(workspace_id=api.workspace.pk))
    read = samples(client.get("/metrics", **TOKEN).content.decode())
    assert [read["verification_queue_due", ("queue", q)] for q in queues] == [1, 1]

    Workspace.objects.get(pk=api.workspace.pk).suspend("Unpaid invoices")

    read = samples(client.get("/metrics", **TOKEN).content.decode())
    assert [read["verification_queue_due", ("queue", q)] for q in queues] == [0, 0]
    assert read["verification_queue_age_seconds", ("queue", "messages")] == 0


def test_metrics_tell_how_long_the_mail_server_is_away(client, token, db, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    row = enqueue(email_message())
    # Staff send an old message again.
    Notification.objects.filter(pk=row.pk).update(created_at=now() - 30 * HOUR)
    figure = "verification_messages_away_seconds", ("channel", "EMAIL")
    assert figure not in samples(client.get("/metrics", **TOKEN).content.decode())

    send_due_notifications()
    Notification.objects.filter(pk=row.pk).update(counted_at=F("counted_at") - HOUR)

    read = samples(client.get("/metrics", **TOKEN).content.decode())
    assert 3600 <= read[figure] < 3700
    assert read["verification_messages_retrying", ("channel", "EMAIL")] == 1


def test_metrics_tell_of_no_server_that_is_away_when_it_refuses_one_message(
    client, token, db
):
    row = enqueue(email_message())
    Notification.objects.filter(pk=row.pk).update(
        error="NOT_TAKEN",
        attempts=1,
        created_at=now() - 30 * HOUR,
        counted_at=now() - HOUR,
    )

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_messages_retrying", ("channel", "EMAIL")] == 1
    age = read["verification_messages_retrying_seconds", ("channel", "EMAIL")]
    assert 3600 <= age < 3700
    assert ("verification_messages_away_seconds", ("channel", "EMAIL")) not in read


def test_metrics_show_what_became_of_the_messages_of_the_last_hour(client, token, db):
    old, *_ = [enqueue(email_message(f"consent:{n}:1")) for n in range(4)]
    Notification.objects.update(
        status="FAILED", error="REFUSED", attempts=1, next_attempt_at=None
    )
    Notification.objects.filter(pk=old.pk).update(created_at=F("created_at") - HOUR)
    enqueue(email_message("consent:4:1"))

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    figure, channel = "verification_messages_last_hour", ("channel", "EMAIL")
    assert read[figure, channel, ("status", "FAILED")] == 3
    assert read[figure, channel, ("status", "PENDING")] == 1


def test_metrics_show_the_last_audit_of_the_ledger(api, client, token):
    audit_nightly()

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_ledger_differences",] == 0
    assert read["verification_ledger_audit_age_seconds",] < 60
    assert read["verification_ledger_all_audited_seconds",] < 60


def test_metrics_show_running_and_given_up_jobs_and_live_clusters(client, token, db):
    jobs = Job.objects
    jobs.create(function="a", claimed_by="one", due_at=now() + timedelta(minutes=5))
    jobs.create(function="b", gave_up_at=now())
    Heartbeat.objects.create(cluster="one")
    Heartbeat.objects.create(cluster="two", beat_at=now() - timedelta(minutes=1))

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_jobs_running",] == 1
    assert read["verification_jobs_given_up",] == 1
    assert read["verification_job_clusters",] == 1
    assert read["verification_queue_due", ("queue", "jobs")] == 0
    assert read["verification_ready", ("part", "jobs")] == 1


def test_metrics_count_checks_that_wait_for_a_source(api, client, token):
    api.create(person())
    waiting = CheckResult.objects.order_by("id").first()
    hour_ago = now() - timedelta(hours=1)
    CheckResult.objects.filter(pk=waiting.pk).update(
        waits_for="kra", next_attempt_at=hour_ago
    )

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_queue_due", ("queue", "checks")] == 3
    assert read["verification_queue_age_seconds", ("queue", "checks")] >= 3600


def unfinished(client):
    """Return the number of unfinished reports of production, and their age."""
    read = samples(client.get("/metrics", **TOKEN).text)
    production = ("environment", "production")
    assert read["verification_reports_unfinished", ("environment", "sandbox")] == 0
    return (
        read["verification_reports_unfinished", production],
        read["verification_reports_unfinished_age_seconds", production],
    )


def test_metrics_count_reports_that_hang_at_a_source(
    paying_api, two, client, token, longest_pauses
):
    two.set_route("first")
    two.first.answers((202, {"askAt": (now() + HOUR).isoformat()}), DOWN)
    # This source has announced its answer.
    paying_api.create(*orders(1))
    paying_api.work()
    assert unfinished(client) == (0, 0)

    hanging = paying_api.create(*orders(1))
    paying_api.work()
    Report.objects.update(updated_at=now() - HOUR)
    CheckResult.objects.update(next_attempt_at=now() + HOUR)

    number, age = unfinished(client)
    read = samples(client.get("/metrics", **TOKEN).text)
    assert (number, age // 60) == (1, 60)
    assert read["verification_queue_due", ("queue", "checks")] == 0
    Workspace.objects.update(suspended_at=now(), suspension_reason="An audit")
    assert unfinished(client) == (0, 0)
    Workspace.objects.update(suspended_at=None, suspension_reason="")
    assert paying_api.post(f"/reports/{hanging['id']}/cancel").status_code == 200
    assert unfinished(client) == (0, 0)


def test_metrics_count_no_report_that_waits_for_a_person(paying_api, client, token):
    reference = create_reference(paying_api)
    assert reference.report.status == "RUNNING"

    assert unfinished(client) == (0, 0)


def test_metrics_count_reports_that_hang_behind_many_that_wait(
    paying_api, two, client, token, monkeypatch, longest_pauses
):
    monkeypatch.setattr(metrics, "UNFINISHED_LIMIT", 1)
    two.set_route("first")
    two.first.answers((202, {"askAt": (now() + HOUR).isoformat()}), DOWN)
    paying_api.create(*orders(1))
    paying_api.work()
    Report.objects.update(updated_at=now() - HOUR)
    hanging = paying_api.create(*orders(1))
    paying_api.work()
    older = now() - timedelta(minutes=11)
    Report.objects.filter(pk=hanging["id"]).update(updated_at=older)

    assert unfinished(client)[0] == 1


def test_metrics_show_connections_and_standbys(client, token, db, standby):
    read = samples(client.get("/metrics", **TOKEN).content.decode())

    used = read["verification_database_server_connections",]
    assert 1 <= used < read["verification_database_server_connections_limit",]
    # Other tests may follow the same server.
    assert read["verification_database_standbys",] >= 1
    assert read["verification_database_writes_waiting_seconds",] == 0
    assert read["verification_database_standby_lag_seconds", standby] < 5
    assert read["verification_database_standby_lag_bytes", standby] > 0


def test_metrics_count_no_backup_as_a_standby(client, token, db, standby):
    receiver = f"receiver_{uuid4().hex}"
    with following(receiver, applies=False):
        read = samples(client.get("/metrics", **TOKEN).content.decode())

    lag = "verification_database_standby_lag_bytes"
    standbys = [key[1] for key in read if key[0] == lag]
    assert read["verification_database_standbys",] == len(standbys)
    assert standby in standbys
    assert ("standby", receiver) not in standbys


def test_metrics_show_the_numbers_that_are_expected(client, token, db, settings):
    settings.EXPECTED_JOB_CLUSTERS, settings.EXPECTED_STANDBYS = 3, 2

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_job_clusters_expected",] == 3
    assert read["verification_database_standbys_expected",] == 2


def test_metrics_count_unsettled_calls_in_doubt_of_each_source(
    paying_api, client, token, two
):
    two.set_route("second")
    paying_api.create(*orders(3))
    paying_api.work()
    doubted, settled, _ = Call.objects.all()
    for call in (doubted, settled):
        call.end = CallOutcome.IN_DOUBT
        call.save()
    settled.settled_at, settled.was_paid = now(), True
    settled.save()

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    figure = "verification_source_calls_in_doubt"
    assert read[figure, ("source", "second")] == 1
    assert read[figure, ("source", "first")] == 0


def test_metrics_count_checks_that_were_given_up_within_a_day(api, client, token):
    api.create(person())
    today, before, _ = CheckResult.objects.order_by("id")
    for check, at in ((today, now()), (before, now() - timedelta(days=2))):
        CheckResult.objects.filter(pk=check.pk).update(
            status="FAILED",
            failure_code="ENGINE_GAVE_UP",
            completed_at=at,
            next_attempt_at=None,
        )

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    assert read["verification_checks_given_up",] == 1


def test_metrics_tell_the_age_of_the_installation(client, token, db):
    applied = MigrationRecorder.Migration.objects.all()
    applied.filter(pk=applied.earliest("pk").pk).update(
        applied=now() - timedelta(days=3)
    )

    read = samples(client.get("/metrics", **TOKEN).content.decode())

    age = read["verification_installation_age_seconds",]
    assert timedelta(days=3) <= timedelta(seconds=age) < timedelta(days=4)


@pytest.mark.django_db(transaction=True)
def test_metrics_tell_that_the_database_is_away(client, token, unreachable_database):
    answer = client.get("/metrics", **TOKEN)

    read = samples(answer.content.decode())
    assert answer.status_code == 200
    assert read["verification_ready", ("part", "database")] == 0
    assert not any(name == "verification_queue_due" for name, *_ in read)


def test_metrics_that_wait_too_long_are_answered_without_the_database(
    client, token, db, django_assert_num_queries
):
    with django_assert_num_queries(0):
        answer = client.get("/metrics", **TOKEN, **{REFUSAL: "overloaded"})

    read = samples(answer.content.decode())
    assert answer.status_code == 200
    assert read["verification_ready", ("part", "database")] == 0


@pytest.mark.parametrize("query", [QUEUES, JOBS, UNFINISHED])
def test_figures_of_queues_need_no_whole_table(db, query):
    with connection.cursor() as cursor:
        # An index is used if there is one, however small the tables are.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {query}", {"limit": 1})
        plan = "\n".join(line for (line,) in cursor.fetchall())
        plan += count_messages().explain()

    tables = ("checks_checkresult", "notifications_notification", "jobs_job")
    for table in (*tables, "reports_report"):
        assert f"Seq Scan on {table}" not in plan
    assert "Seq Scan on webhooks_delivery" not in plan
