"""Unique marks for personal fields, and the search for them in all that is stored.

canaries = Canaries()
person(fullName=canaries.name("SubjectInput.fullName"))
assert found(canaries)["SubjectInput.fullName"] == {"reports_report.subject"}
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from email import message_from_bytes
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
from django.apps import apps
from django.conf import settings
from django.core.files.storage import storages
from django.db import connection
from pypdf import PdfReader

from verification.accounts.sessions import SessionStore
from verification.console.sandbox_pages import render_message
from verification.db.encryption import EncryptedJSONField
from verification.files.storage import read_content
from verification.golive.models import Document
from verification.notifications.models import Notification
from verification.privacy.models import CorrectionDocument

CONSONANTS = "bcdfghjklmnpqrstvwxz"
SEPARATORS = re.compile(r"[\s./+()-]")
Place = str
# Field -> the places where its mark is
Found = dict[str, set[Place]]


class Canaries:
    """Makes a mark for each field; `needles` are the normal forms to search for."""

    def __init__(self) -> None:
        self.fields: set[str] = set()
        # Fields that are hashed or not kept at all
        self.not_stored: set[str] = set()
        # Needle -> field
        self.needles: dict[str, str] = {}

    def word(self, field: str) -> str:
        """Return nine letters that stand nowhere else."""
        number = self._count(field) * 7919
        letters = "".join(CONSONANTS[number // 20**n % 20] for n in range(5))
        return self._mark(field, f"qzvx{letters}")

    def name(self, field: str) -> str:
        return self.word(field).title()

    def text(self, field: str) -> str:
        return f"About {self.word(field)}, as typed"

    def email(self, field: str) -> str:
        return f"{self.word(field)}@canary.test"

    def digits(self, field: str, ending: str = "") -> str:
        """Return eight digits, of which the last can be chosen."""
        made = str(71_390_000 + self._count(field) * 37)
        return self._mark(field, made[: 8 - len(ending)] + ending)

    def phone(self, field: str) -> str:
        return f"+2547{self.digits(field)}"

    def day(self, field: str) -> str:
        """Return a day of the fifties; it is also searched as people write it."""
        made = date(1951, 2, 3) + timedelta(days=self._count(field) * 41)
        self._mark(field, f"{made:%d%B%Y}".lstrip("0"))
        self._mark(field, f"{made:%d%m%Y}")
        self._mark(field, f"{made:%Y%m%d}")
        return made.isoformat()

    def unstored(self, field: str) -> str:
        """Return a word that must never be found."""
        self.not_stored.add(field)
        return self.word(field)

    def mark(self, field: str, text: str) -> str:
        """Take a text that stands nowhere else."""
        self._count(field)
        return self._mark(field, text)

    def _count(self, field: str) -> int:
        assert field not in self.fields, f"{field} has a mark"
        self.fields.add(field)
        return len(self.fields)

    def _mark(self, field: str, mark: str) -> str:
        assert self.needles.setdefault(normal_form(mark), field) == field
        return mark


def normal_form(text: str) -> str:
    """Return the text without case, spaces and the marks within numbers and dates."""
    return SEPARATORS.sub("", text.casefold())


def find_in(canaries: Canaries, places: Iterator[tuple[Place, str]]) -> Found:
    pattern = re.compile("|".join(map(re.escape, canaries.needles)))
    found: Found = defaultdict(set)
    for place, text in places:
        for needle in pattern.findall(normal_form(text)):
            found[canaries.needles[needle]].add(place)
    return found


def everything(*more: Callable[[], str]) -> Iterator[tuple[Place, str]]:
    """Yield (place, text) of all that is stored, decrypted where it can be."""
    yield from table_values()
    yield "pg_dump", dump("--statistics").decode("latin-1")
    yield from statistics()
    yield from files()
    yield from mailbox()
    for text in more:
        yield text.__name__, text()


def table_values() -> Iterator[tuple[Place, str]]:
    """Yield (table.column, text) of each value of each table of the database."""
    models = {model._meta.db_table: model for model in apps.get_models(True)}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT table_schema, table_name FROM information_schema.tables
            WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"""
        )
        for schema, table in cursor.fetchall():
            cursor.execute(f'SELECT * FROM "{schema}"."{table}"')  # noqa: S608
            names = [column.name for column in cursor.description]
            for row in cursor.fetchall():
                values = dict(zip(names, row, strict=True))
                for name, value in values.items():
                    for text in texts(models.get(table), name, value, values):
                        yield f"{table}.{name}", text


def texts(model: Any, column: str, value: Any, row: dict[str, Any]) -> Iterator[str]:
    """Yield the value as text, and decrypted or decoded."""
    if value is None:
        return
    if not isinstance(value, bytes | memoryview):
        yield value if isinstance(value, str) else str(value)
        if model is not None and column == "session_data":
            yield str(SessionStore().decode(value))
        return
    value = bytes(value)
    yield value.decode("latin-1")
    for field in model._meta.concrete_fields if model else ():
        if field.column == column and isinstance(field, EncryptedJSONField):
            yield orjson.dumps(field.open(value, row[model._meta.pk.column])).decode()


def dump(*options: str) -> bytes:
    """Return what `pg_dump` writes of the test database."""
    return run_postgres("pg_dump", *options)


def restore(backup: bytes) -> None:
    """Put back what `dump("--data-only")` has returned."""
    with connection.cursor() as cursor:
        tables = ", ".join(connection.introspection.table_names(cursor))
        # Triggers refuse to empty tables of history.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"TRUNCATE {tables}")
        cursor.execute("RESET session_replication_role")
    environment = {"PGOPTIONS": "-c session_replication_role=replica"}
    run_postgres(
        *("psql", "-q", "-v", "ON_ERROR_STOP=1"), input=backup, env=environment
    )


def run_postgres(program: str, *options: str, **more: Any) -> bytes:
    """Run a program of the server on the test database; return its output."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
        (folder,) = cursor.fetchone()
    at = connection.settings_dict
    where = ("-h", at["HOST"], "-U", at["USER"], "-d", at["NAME"])
    command = [str(Path(folder) / program), *where, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, **more).stdout


def statistics() -> Iterator[tuple[Place, str]]:
    """Yield the samples of values that PostgreSQL keeps for its planner."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename, attname, s::text FROM pg_stats s")
        for table, column, text in cursor.fetchall():
            yield f"statistics of {table}.{column}", text


def files() -> Iterator[tuple[Place, str]]:
    """Yield the files of the service, and the contents of sealed documents."""
    storage: Any = storages["documents"]
    for folder in (Path(settings.DATA_DIR), Path(storage.location)):
        for path in folder.rglob("*"):
            # The server's own files keep erased rows until it uses the space again.
            if path.is_file() and "postgres" not in path.relative_to(folder).parts:
                yield f"file {path.name}", path.read_bytes().decode("latin-1")
    for path in filter(Path.is_file, Path(settings.EMAIL_FILE_PATH).iterdir()):
        for part in message_from_bytes(path.read_bytes()).walk():
            yield "e-mails", str(part.items())
            if not part.is_multipart():
                content: Any = part.get_payload(decode=True)
                yield "e-mails", content.decode("latin-1")
    for document in [*CorrectionDocument.objects.all(), *Document.objects.all()]:
        if storage.exists(document.file):
            pages = PdfReader(BytesIO(read_content(document))).pages
            yield "documents", " ".join(page.extract_text() for page in pages)


def mailbox() -> Iterator[tuple[Place, str]]:
    """Yield every message as the pages with messages show it."""
    for notification in Notification.objects.all():
        yield "mailbox", str(render_message(notification))
