"""What is wrong with a request, member by member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

Path = tuple[str | int, ...]

# No more are told. Finding all of a large body takes longer than doing what it asks.
MAX_FAULTS = 100

# pydantic's word -> ours; what is not named here is a wrong format.
CODES = {
    "missing": "required",
    "string_too_short": "required",
    "extra_forbidden": "unknown-member",
    "string_too_long": "too-long",
    "too_long": "too-many",
    "too_short": "too-few",
    "enum": "invalid-choice",
    "literal_error": "invalid-choice",
    "greater_than_equal": "out-of-range",
    "less_than_equal": "out-of-range",
    "int_parsing_size": "out-of-range",
}
DETAILS = {
    "missing": "This member is required.",
    "string_too_short": "This must not be empty.",
    "extra_forbidden": "There is no such member here; check its spelling and place.",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule; `path` leads to the member from the top of the body."""

    path: Path
    code: str
    detail: str


class InvalidRequest(Exception):
    """The request breaks these rules; nothing was done."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__(f"{len(self.faults)} members break a rule")


def shape_faults(error: ValidationError, at: Path = ()) -> list[Fault]:
    """The faults in a pydantic error, of a value that stands at this path."""
    return [
        _fault(problem, at)
        for problem in error.errors(include_url=False, include_context=True)
    ]


def _fault(problem: Mapping[str, Any], at: Path) -> Fault:
    kind = problem["type"]
    # pydantic leads into a mapping's key by "[key]"; a pointer names the member.
    path = (*at, *(part for part in problem["loc"] if part != "[key]"))
    told_as_null = kind not in {"missing", "extra_forbidden"}
    if problem.get("input", ...) is None and told_as_null:
        return Fault(path, "required", "This must not be null.")
    code = CODES.get(kind)
    if code is None:
        code = "invalid-type" if kind.endswith("_type") else kind
    return Fault(path, code, DETAILS.get(kind) or f"{problem['msg']}.")
