"""Empties the database after a test that commits, faster than Django's `flush`.

Django truncates all tables, of which most are empty, and then looks for every content
type and permission and writes the roles anew. This deletes rows where there are some.
Tables that `migrate` fills get their rows back if the test has changed them.
"""

from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase

TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND c.relname <> 'django_migrations'
"""
# History is append-only, and its triggers refuse to delete it; a replica has none.
DELETE_ROWS = """
DO $$
DECLARE
    name text;
    has_rows boolean;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN {tables} AND c.oid::regclass::text <> ALL ({kept}) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('DELETE FROM %s', name);
        END IF;
    END LOOP;
END $$
"""


def install_flush() -> None:
    """Replace Django's flush by one that restores the rows which are there now."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        tables = [name for (name,) in cursor.fetchall()]
        filled = {name: rows for name in tables if (rows := read_rows(name))}
    statement = DELETE_ROWS.format(tables=TABLES, kept=f"ARRAY{[*filled]}")

    def flush(case: TransactionTestCase) -> None:
        # A test may have broken the connection.
        connection.close_if_unusable_or_obsolete()
        with connection.cursor() as cursor:
            cursor.execute(statement)
        for table, rows in filled.items():
            if read_rows(table) != rows:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute("SET LOCAL session_replication_role = replica")
                    cursor.execute(f"DELETE FROM {table}")  # noqa: S608
                    write_rows(table, rows)
        ContentType.objects.clear_cache()

    TransactionTestCase._fixture_teardown = flush


def read_rows(table: str) -> bytes:
    """Return the rows as PostgreSQL copies them."""
    rows = f"COPY (SELECT * FROM {table} ORDER BY 1) TO STDOUT"  # noqa: S608
    with connection.cursor() as cursor, cursor.copy(rows) as copy:
        return b"".join(copy)


def write_rows(table: str, rows: bytes) -> None:
    copy = f"COPY {table} FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(copy) as to:
        to.write(rows)
