"""What the machines of rules are up against: a source of every mood, and crashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import OperationalError, connection

from verification.checks.catalogue import CATALOGUE
from verification.providers import registry
from verification.providers.base import Finding, Inquiry
from verification.providers.sandbox import Sandbox


class Source(Sandbox):
    """A live source that plays what the sandbox plays for the same last digit."""

    name = "played"

    def ask(self, inquiry: Inquiry) -> Finding:
        reserved = "9" + str(inquiry.subject["idNumber"])[1:]
        played = {**inquiry.subject, "idNumber": reserved}
        return super().ask(replace(inquiry, subject=played))


@contextmanager
def played_source() -> Iterator[None]:
    path = f"{Source.__module__}.{Source.__name__}"
    routes = {entry.name: {"*": [Source.name]} for entry in CATALOGUE}
    registry.configure({Source.name: (path, {})}, routes)
    yield
    registry.configure({}, {})


class Killed(BaseException):
    """A process that dies; nothing of ours catches it."""


@contextmanager
def crash_at(number: int, done: Counter[str], *, killed: bool) -> Iterator[None]:
    """At the statement of this number the process dies, or loses the database."""
    left = number

    def execute(run: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            return run(sql, *rest)
        done["crash"] += 1
        if str(sql).startswith("ROLLBACK"):
            # What is not kept is gone all the same.
            run(sql, *rest)
        # To lose the database at a commit is to see it rolled back.
        if killed and not str(sql).startswith("RELEASE"):
            raise Killed
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(execute):
        yield
