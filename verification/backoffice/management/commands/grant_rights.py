from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from psycopg import sql

GRANTS = """
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema}
GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema}
GRANT USAGE, SELECT ON SEQUENCES TO {role};
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}
"""
# An erasure analyzes the tables with it; before PostgreSQL 17 only the owner can.
GRANT_MAINTAIN = """
GRANT MAINTAIN ON ALL TABLES IN SCHEMA {schema} TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT MAINTAIN ON TABLES TO {role}
"""
MAINTAIN_VERSION = 17_00_00
# True for a role that can disable the triggers that protect records from changes.
CAN_DISABLE_TRIGGERS = """
SELECT rolsuper OR pg_has_role(rolname, relowner, 'MEMBER')
FROM pg_roles, pg_class
WHERE rolname = %s AND pg_class.oid = 'consents_consentrecord'::regclass
"""


class Command(BaseCommand):
    help = (
        "Grants the rights that the web server and the jobs need to a role of "
        "PostgreSQL: it can read and write rows, but change no table or trigger. Run "
        "it once, as the owner of the tables; later tables are included."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", help="a role that can log in and owns no table")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        role = options["role"]
        with connection.cursor() as cursor:
            cursor.execute(CAN_DISABLE_TRIGGERS, [role])
            found = cursor.fetchone()
            if found is None:
                raise CommandError(f"There is no role {role}; createuser makes it.")
            if found[0]:
                raise CommandError(
                    f"{role} is a superuser or owns the tables, so no rights can be "
                    "kept from it; name another role."
                )
            cursor.execute("SELECT current_schema()")
            names = {"schema": cursor.fetchone()[0], "role": role}
            quoted = {name: sql.Identifier(text) for name, text in names.items()}
            cursor.execute(sql.SQL(GRANTS).format(**quoted))
            if connection.connection.info.server_version >= MAINTAIN_VERSION:
                cursor.execute(sql.SQL(GRANT_MAINTAIN).format(**quoted))
        self.stdout.write(f"{role} can read and write rows, and change no table.")
