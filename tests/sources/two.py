"""Two live sources of IDENTITY, each with its own server, and helpers for them.

def test_something(paying_api, two):
    two.first.play = lambda asked: DOWN
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tests.checks.source import Acme, Source, route_all_checks, run_source
from tests.world.clients import person
from verification.providers import registry
from verification.sources.models import Call

CHECK = {"checksRequested": ["IDENTITY"]}


class First(Acme):
    """It recognises our references, so repeated calls are free."""

    name: ClassVar[str] = "first"


class Second(Acme):
    """It does not recognise our references, so every call may be charged."""

    name: ClassVar[str] = "second"
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}


@dataclass
class Two:
    first: Source
    second: Source

    def set_route(self, *names: str) -> None:
        """Route all checks to these sources, in this order."""
        registry.configure(self.sources, route_all_checks(*names))

    @property
    def sources(self) -> dict[str, Any]:
        return {
            kind.name: (f"{__name__}.{kind.__name__}", {"url": source.url})
            for kind, source in ((First, self.first), (Second, self.second))
        }


@pytest.fixture
def two() -> Iterator[Two]:
    with ExitStack() as stack:
        two = Two(stack.enter_context(run_source()), stack.enter_context(run_source()))
        two.set_route("first", "second")
        yield two
        registry.configure({}, {})


def orders(count: int) -> list[dict[str, Any]]:
    return [person(idNumber=str(20000000 + n)) | CHECK for n in range(count)]


def calls() -> list[tuple[str, str]]:
    """Return (source, end) of every call, oldest first."""
    return list(Call.objects.order_by("id").values_list("source", "end"))
