"""Connections: several hosts, the limits of a session, and a lost primary server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.utils.timezone import now

from verification.db.base import SESSION_SETTINGS, name_sessions
from verification.db.bulk_insert import COPY_THRESHOLD, Rows, insert
from verification.jobs.models import Heartbeat
from verification.settings.connections import database_settings, primary_url


def test_several_hosts_are_named_with_their_ports():
    url = primary_url("postgresql://u:p%40@h1:5432,h2:5433/db?sslmode=require")

    made = database_settings("DATABASE_URL", url)

    assert (made["HOST"], made["PORT"], made["PASSWORD"]) == (
        "h1,h2",
        "5432,5433",
        "p@",
    )
    options = made["OPTIONS"]
    assert options["target_session_attrs"] == "read-write"
    assert (options["sslmode"], options["connect_timeout"]) == ("require", 3)


def test_parameters_of_the_url_win():
    url = primary_url(
        "postgresql://h1,h2/db?target_session_attrs=any&connect_timeout=9"
    )

    options = database_settings("DATABASE_URL", url)["OPTIONS"]

    assert options["target_session_attrs"] == "any"
    assert options["connect_timeout"] == "9"


@pytest.mark.parametrize("url", ["mysql://h/db", "postgresql://h:x/db", "h1,h2"])
def test_wrong_url_is_refused_by_the_name_of_its_variable(url: str):
    with pytest.raises(ImproperlyConfigured, match="DATABASE_DIRECT_URL is no"):
        database_settings("DATABASE_DIRECT_URL", url)


def test_each_session_has_limits(db: None):
    with connection.cursor() as cursor:
        for name, value in SESSION_SETTINGS.items():
            cursor.execute("SELECT setting FROM pg_settings WHERE name = %s", [name])
            # A unix socket has no keepalives.
            if not name.startswith("tcp_"):
                assert cursor.fetchone() == (f"{value.removesuffix('s')}000",), name


def test_sessions_bear_the_name_of_their_program(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGAPPNAME", "")
    name_sessions("backup")

    with other_session() as cursor:
        cursor.execute("SHOW application_name")
        assert cursor.fetchone() == ("verification backup",)


@pytest.mark.django_db(transaction=True)
def test_server_that_became_a_standby_is_left():
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")

    with pytest.raises(OperationalError, match="read-only"):
        Heartbeat.objects.create(cluster="c")

    # As at the start of each request and job.
    connection.close_if_unusable_or_obsolete()
    Heartbeat.objects.create(cluster="c")


@pytest.mark.django_db(transaction=True)
def test_session_that_the_server_ended_is_left():
    end_session()

    connection.close_if_unusable_or_obsolete()
    Heartbeat.objects.create(cluster="c")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, COPY_THRESHOLD])
def test_lost_session_fails_with_the_error_that_answers_503(count: int):
    beats = [{"cluster": str(n), "beat_at": now()} for n in range(count)]
    end_session()

    with pytest.raises(OperationalError):
        insert(Rows(Heartbeat, beats))


def end_session() -> None:
    """End the session on the server, which the client notices at its next statement."""
    connection.ensure_connection()
    with other_session() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(%s, 5000)",
            [connection.connection.info.backend_pid],
        )


@contextmanager
def other_session() -> Iterator[Any]:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            yield cursor
    finally:
        other.close()
