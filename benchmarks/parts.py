"""Where the time of a create request goes, by timing the service's own functions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from django.db import transaction

from benchmarks import orders
from verification.api.content import parse_json_object, to_json
from verification.api.report_shapes import CreatedReport, CreatedReports
from verification.db import bulk_insert, encryption
from verification.reports import create as report_create
from verification.reports import request as report_orders
from workspaces.models import Client

# What is timed: (module, function, what it is told as). The time of one that is
# called within another counts for itself alone.
TIMED = [
    (report_create, "price_orders", "questions and reuse lookup"),
    (report_create, "_gather", "rows"),
    (report_create, "search_entry_rows", "search terms"),
    (bulk_insert, "_adapt", "adapting values"),
    (encryption, "seal", "encryption"),
    (bulk_insert, "_copy", "COPY"),
    (report_create, "move_balances", "moving the balance"),
]


class Clock:
    """Milliseconds by name, without those of what was timed within."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._within = [0.0]

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        self._within.append(0.0)
        yield
        taken = (time.perf_counter() - started) * 1000
        self.spent[name] += taken - self._within.pop()
        self._within[-1] += taken

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self(name):
                return function(*args, **kwargs)

        return timed


class Parts:
    """Creates reports in this process, and notes where the time went."""

    def __init__(self, client: Client, reports: int) -> None:
        self._client, self._reports = client, reports
        self.samples: dict[str, list[float]] = defaultdict(list)

    def create(self) -> None:
        clock = Clock()
        _create(self._client, orders.body(self._reports), clock)
        for name, spent in clock.spent.items():
            self.samples[name].append(spent)


def _create(client: Client, raw: bytes, clock: Clock) -> None:
    with clock("JSON"):
        body = parse_json_object(raw)
    with clock("catalogue"):
        definitions = report_orders.catalogue()
    with clock("validation"):
        placed = report_orders.read_orders(body, client.environment, definitions)
    with ExitStack() as patches, clock("commit and the rest"):
        for module, name, told in TIMED:
            around = clock.around(getattr(module, name), told)
            patches.enter_context(patch.object(module, name, around))
        with transaction.atomic():
            made = report_create.create_reports(client, placed)
    with clock("rendering"):
        bodies = [CreatedReport.of(one) for one in made]
        answer = CreatedReports(count=len(made), reports=bodies)
        to_json(answer.model_dump(mode="json", by_alias=True))
