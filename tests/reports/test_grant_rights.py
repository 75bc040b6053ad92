"""The service's database role can change rows, but no table or trigger."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection, transaction
from django.test import Client

from tests.configuration.test_refusals_to_start import database_url, refusal
from tests.world.clients import Api, person
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from verification.backups.checks import check_keys
from verification.privacy.personal_data import refresh_statistics
from verification.values.clock import now
from workspaces.api_requests import purge_api_requests

ROLE = "served by tests"


@pytest.fixture
def role(db: None) -> None:
    """Create a role that disappears with the test's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE ROLE "{ROLE}"')


def become(role: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'SET ROLE "{role}"')


def test_role_serves_orders_and_checks(api: Api, role: None):
    call_command("grant_rights", ROLE)
    become(ROLE)

    report = api.create(person())
    api.work()

    assert api.get(f"/reports/{report['id']}").json()["status"] == "READY"


def test_role_divides_the_records_of_requests(role: None):
    call_command("grant_rights", ROLE)
    weeks = "SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass"
    with connection.cursor() as cursor:
        year_ago = now() - timedelta(days=365)
        cursor.execute("SELECT keep_api_requests(%s, %s)", [year_ago, now()])
        become(ROLE)

        purge_api_requests()

        cursor.execute(weeks, ["workspaces_apirequest"])
        assert cursor.fetchone()[0] < 10


def test_role_without_rights_drops_no_records_of_requests(role: None):
    with connection.cursor() as cursor:
        cursor.execute(f'GRANT USAGE ON SCHEMA public TO "{ROLE}"')
        cursor.execute(f'SET SESSION AUTHORIZATION "{ROLE}"')

    with pytest.raises(ProgrammingError, match="no right"):
        purge_api_requests()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE consents_consentrecord DISABLE TRIGGER ALL",
        "DROP TRIGGER consents_consentrecord_append_only ON consents_consentrecord",
        "TRUNCATE workspaces_ledgerentry",
        "DROP TABLE workspaces_ledgerentry",
        "CREATE TABLE more (n int)",
        "DELETE FROM django_migrations",
        "SET session_replication_role = replica",
    ],
)
def test_role_changes_no_table(role: None, statement: str):
    call_command("grant_rights", ROLE)
    become(ROLE)

    with (
        pytest.raises(ProgrammingError, match=r"permission|must be owner"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


def test_role_gets_rights_on_later_tables(role: None):
    call_command("grant_rights", ROLE)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE later (n int)")
        become(ROLE)
        cursor.execute("INSERT INTO later VALUES (1)")
        assert cursor.rowcount == 1


def analyzed_tables() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT DISTINCT tablename FROM pg_stats
            WHERE schemaname = current_schema() AND attname = 'subject_name'"""
        )
        return {name for (name,) in cursor.fetchall()}


def test_role_analyzes_the_tables_after_an_erasure(
    api: Api, role: None, log_lines: LogLines
):
    api.create(person())
    call_command("grant_rights", ROLE)
    become(ROLE)

    refresh_statistics()

    assert analyzed_tables() == {"reports_report"}
    assert "may not analyze" not in str(log_lines())


def test_role_that_may_not_analyze_is_in_the_log(
    api: Api, role: None, log_lines: LogLines
):
    api.create(person())
    call_command("grant_rights", ROLE)
    with connection.cursor() as cursor:
        cursor.execute(f'REVOKE MAINTAIN ON reports_report FROM "{ROLE}"')
    become(ROLE)

    refresh_statistics()

    (line,) = [one for one in log_lines() if one["level"] == "WARNING"]
    assert "may not analyze reports_report, whose" in line["message"]


def test_owner_of_the_tables_is_refused(db: None):
    with pytest.raises(CommandError, match="owns the tables"):
        call_command("grant_rights", connection.settings_dict["USER"] or "postgres")


def test_role_that_does_not_exist_is_refused(db: None):
    with pytest.raises(CommandError, match="There is no role nobody"):
        call_command("grant_rights", "nobody")


@pytest.fixture
def bare_role(transactional_db: None) -> Iterator[str]:
    """A role that can log in and has no rights, as after a restore."""
    name = f"bare_{os.getpid()}"
    server = psycopg.connect(database_url("postgres", "postgres"), autocommit=True)
    with server:
        server.execute(f"CREATE ROLE {name} LOGIN")
        yield name
        server.execute(f"DROP ROLE {name}")


@pytest.mark.slow
def test_command_of_a_role_without_rights_is_refused_in_one_sentence(
    bare_role: str, tmp_path: Path
):
    url = database_url(bare_role, connection.settings_dict["NAME"])

    told = refusal("audit_ledger", DATABASE_URL=url, DATA_DIR=str(tmp_path))

    assert told.startswith(f"The role {bare_role} has no rights to the tables")
    assert f"verification grant_rights {bare_role}" in told


@pytest.fixture
def without_rights(bare_role: str) -> Iterator[str]:
    """Let this process connect as that role."""
    connection.close()
    # The rows are deleted by the owner afterwards, so this ends before.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "USER", bare_role)
        yield bare_role
    connection.close()


def test_readyz_says_that_the_role_is_refused(without_rights: str, client: Client):
    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["database"]) == (503, "refuses the role")


def test_readyz_says_that_the_role_lacks_a_right_to_one_table(
    role: None, client: Client
):
    call_command("grant_rights", ROLE)
    with connection.cursor() as cursor:
        cursor.execute(f'REVOKE ALL ON payments_checkout FROM "{ROLE}"')
    become(ROLE)

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["database"]) == (503, "refuses the role")


def test_check_says_that_the_role_has_no_rights(without_rights: str):
    (found,) = list(check_keys())

    assert found.id == "deploy.E022"
    assert f"verification grant_rights {without_rights}" in found.msg
