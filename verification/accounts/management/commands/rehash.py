from collections.abc import Callable
from itertools import islice
from typing import Any

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.db.models import Model

from verification import links
from verification.accounts.adapters import SecondFactorAdapter
from verification.backoffice import models
from verification.backoffice.models import LookupKey
from verification.consents.models import Consent, RetiredLink
from verification.db.encryption import (
    KeyedHashField,
    KeyedTermsField,
    KeyedUUIDField,
    KeyedUUIDsField,
)
from verification.db.startup import require_own_schema
from verification.payments.models import Payment
from verification.references.models import Reference

KEYED = KeyedHashField, KeyedTermsField, KeyedUUIDField, KeyedUUIDsField
LINKS: dict[type[Model], str] = {
    Consent: "consent",
    Payment: "payment",
    Reference: "reference",
}
# Values that `SecondFactorAdapter` encrypts in the data of an authenticator.
SECRETS = ("secret", "seed")
ROWS = 1000
OTHER_CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename IS NOT NULL
    AND pid <> pg_backend_pid()
"""
# A process that connects later waits for the end; the check of its key then fails.
LOCK = "LOCK TABLE backoffice_lookupkey IN ACCESS EXCLUSIVE MODE"
FOREIGN_TABLES = """
SELECT count(*) FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
    AND NOT pg_has_role(relowner, 'MEMBER')
"""
WRONG_KEY = (
    "LOOKUP_KEY does not name the key that the database was written with. Write the "
    "newest key first and that one behind it: LOOKUP_KEY=new,former"
)


class Command(BaseCommand):
    help = (
        "Hashes every keyed hash again with the keys that were added to LOOKUP_KEY, in "
        "one transaction. Stop the service first; docs/operator/access.md says how."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--end-links",
            action="store_true",
            help="links to hosted pages that were sent before end: the key is known to "
            "others; those that are still needed are sent again",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with (
            models.allow_wrong_key(),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("SET LOCAL statement_timeout = 0")
            _require_ownership(cursor)
            require_own_schema()
            cursor.execute(LOCK)
            _refuse_while_others_are_connected(cursor)
            last = LookupKey.objects.last()
            known = models.fingerprints()
            if last is None or bytes(last.fingerprint) not in known:
                raise CommandError(WRONG_KEY)
            former = known.index(bytes(last.fingerprint)) + 1
            if former == len(known):
                self.stdout.write("The newest key of LOOKUP_KEY is in use already.")
                return
            ends_links = options["end_links"]
            self._rehash(cursor, former, ends_links=ends_links)
            LookupKey.objects.create(
                pk=len(known), fingerprint=known[-1], ends_links=ends_links
            )

    def _rehash(self, cursor: Any, former: int, *, ends_links: bool) -> None:
        hashed = sum(_rehash_rows(cursor, m, former) for m in apps.get_models())
        made = sum(_derive_links(cursor, m, LINKS[m]) for m in LINKS)
        if ends_links:
            RetiredLink.objects.all().delete()
        sealed = _seal_second_factors(former)
        self.stdout.write(
            f"{hashed} rows are hashed again, {made} links are derived again, and "
            f"{sealed} second factors are encrypted again. "
            "Leave the former keys in LOOKUP_KEY."
        )


def _require_ownership(cursor: Any) -> None:
    cursor.execute(FOREIGN_TABLES)
    if cursor.fetchone()[0]:
        raise CommandError("Run it as the owner of the tables, as `migrate` is run.")


def _refuse_while_others_are_connected(cursor: Any) -> None:
    cursor.execute(OTHER_CONNECTIONS)
    if others := cursor.fetchone()[0]:
        raise CommandError(
            f"Connections beside this one: {others}. Stop all web servers and jobs, "
            "and whatever else uses the database."
        )


def _rehash_rows(cursor: Any, model: type[Model], former: int) -> int:
    """Hash the model's rows again. Returns how many there are."""
    fields = [f for f in model._meta.local_concrete_fields if isinstance(f, KEYED)]
    if not fields:
        return 0
    keys = settings.LOOKUP_KEY[former:]
    table = connection.ops.quote_name(model._meta.db_table)

    def changed(row: tuple[Any, ...]) -> list[Any]:
        return [
            value if value is None else field.rehashed(value, keys)
            for field, value in zip(fields, row, strict=True)
        ]

    # Append-only rows keep their meaning; only their hashes change.
    cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    names = [field.name for field in fields]
    count = _update(cursor, model, names, names, changed)
    cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    return count


def _derive_links(cursor: Any, model: type[Model], purpose: str) -> int:
    """Derive the links again. Returns how many rows there are.

    The database keeps the former links, which lead to the same pages.
    """

    def changed(row: tuple[Any, ...]) -> list[Any]:
        digest, pk, generation = row
        if digest is None:
            return [None]
        return [links.digest(links.token(purpose, pk, generation))]

    read = ["token_digest", "pk", "generation"]
    return _update(cursor, model, ["token_digest"], read, changed)


def _update(
    cursor: Any,
    model: type[Model],
    written: list[str],
    read: list[str],
    changed: Callable[[tuple[Any, ...]], list[Any]],
) -> int:
    quote: Callable[[Any], str] = connection.ops.quote_name
    meta = model._meta
    table, pk = quote(meta.db_table), quote(meta.pk.column)
    fields = [meta.pk, *map(meta.get_field, written)]
    row = ", ".join(f"%s::{field.db_type(connection)}" for field in fields)
    columns = ", ".join(f"{quote(name)} = changed.{quote(name)}" for name in written)
    names = ", ".join(map(quote, ["of_pk", *written]))
    rows = model._base_manager.values_list("pk", *read).iterator(chunk_size=ROWS)
    count = 0
    while some := list(islice(rows, ROWS)):
        # Every name in it comes from a model.
        cursor.execute(
            f"UPDATE {table} SET {columns} "  # noqa: S608
            f"FROM (VALUES {', '.join([f'({row})'] * len(some))}) AS changed ({names}) "
            f"WHERE {table}.{pk} = changed.of_pk",
            [value for pk, *row in some for value in (pk, *changed(row))],
        )
        count += len(some)
    return count


def _seal_second_factors(former: int) -> int:
    adapter = SecondFactorAdapter()
    count = 0
    for authenticator in Authenticator.objects.all():
        for name in SECRETS:
            if sealed := authenticator.data.get(name):
                text = adapter.decrypt(sealed, keys=former)
                authenticator.data[name] = adapter.encrypt(text)
                count += 1
        authenticator.save(update_fields=["data"])
    return count
