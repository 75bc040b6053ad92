"""Database rules that Django cannot express, as migration operations."""

from django.db import migrations

CREATE_FUNCTION = """
CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '23001';
END $$;
"""


def append_only_except(table: str, erasable: str) -> migrations.RunSQL:
    """Like `append_only`, but the column `erasable` may be set to NULL."""
    return migrations.RunSQL(
        f"""{CREATE_FUNCTION}
        CREATE FUNCTION {table}_only_erases() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.{erasable} IS NULL
                AND to_jsonb(NEW) - '{erasable}' = to_jsonb(OLD) - '{erasable}'
            THEN RETURN NEW; END IF;
            RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '23001';
        END $$;
        CREATE TRIGGER {table}_append_only BEFORE UPDATE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {table}_only_erases();
        CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION append_only();
        CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION append_only();
        """,
        f"""
        DROP TRIGGER {table}_append_only ON {table};
        DROP TRIGGER {table}_no_delete ON {table};
        DROP TRIGGER {table}_no_truncate ON {table};
        DROP FUNCTION {table}_only_erases;
        """,
    )


def append_only(table: str) -> migrations.RunSQL:
    """Refuse UPDATE, DELETE and TRUNCATE on this table to every role."""
    return migrations.RunSQL(
        f"""{CREATE_FUNCTION}
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION append_only();
        CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION append_only();
        """,
        f"""
        DROP TRIGGER {table}_append_only ON {table};
        DROP TRIGGER {table}_no_truncate ON {table};
        """,
    )
