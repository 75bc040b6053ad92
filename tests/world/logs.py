"""Read the log as an operator gets it."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

LogLines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    """Return a function that reads the log lines written since."""
    handler = next(h for h in logging.getLogger().handlers if h.name == "stderr")
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    before = handler.setStream(written)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    handler.setStream(before)
