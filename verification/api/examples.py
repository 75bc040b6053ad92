"""The examples of the OpenAPI document, which stand in `examples.yaml`."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def read_examples() -> dict[str, Any]:
    """Return the `shared` answers, and the examples of `operations` and `events`."""
    text = Path(__file__).with_suffix(".yaml").read_bytes()
    found: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found
