"""Two live sources of IDENTITY, each a server of its own, and what tests do with them.

def test_something(paying_api, two):
    two.first.play = lambda asked: DOWN
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tests.checks.source import Acme, Source, everything_by, served
from tests.world.clients import person
from verification.providers import registry
from verification.sources.models import Call

CHECK = {"checksRequested": ["IDENTITY"]}


class First(Acme):
    """Knows our references: asking it again costs nothing."""

    name: ClassVar[str] = "first"


class Second(Acme):
    """Does not: whoever asks again pays again."""

    name: ClassVar[str] = "second"
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}


@dataclass
class Two:
    first: Source
    second: Source

    def routed(self, *names: str) -> None:
        """From now on only these are asked, in this order."""
        registry.configure(self.sources, everything_by(*names))

    @property
    def sources(self) -> dict[str, Any]:
        return {
            kind.name: (f"{__name__}.{kind.__name__}", {"url": source.url})
            for kind, source in ((First, self.first), (Second, self.second))
        }


@pytest.fixture
def two() -> Iterator[Two]:
    with ExitStack() as stack:
        two = Two(stack.enter_context(served()), stack.enter_context(served()))
        two.routed("first", "second")
        yield two
        registry.configure({}, {})


def orders(count: int) -> list[dict[str, Any]]:
    return [person(idNumber=str(20000000 + n)) | CHECK for n in range(count)]


def calls() -> list[tuple[str, str]]:
    """(source, how it ended) of every call, in their order."""
    return list(Call.objects.order_by("id").values_list("source", "end"))
