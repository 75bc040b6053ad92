"""Masked exports: each member that can hold text is masked, or stands in PLAIN."""

import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from verification.api.export_kinds import (
    ALERTS,
    AUDIT_TRAIL,
    DECISIONS,
    REPORTS,
    RESULTS,
    AuditEventBody,
    ExportedResult,
    Kind,
)
from verification.api.monitoring import AlertBody
from verification.api.report_shapes import DecisionBody
from verification.api.reports import ReportBody

LINES: dict[Kind, type[BaseModel]] = {
    REPORTS: ReportBody,
    RESULTS: ExportedResult,
    DECISIONS: DecisionBody,
    ALERTS: AlertBody,
    AUDIT_TRAIL: AuditEventBody,
}
# Codes, names of fields and members, sources, and the client's own reference
PLAIN_OF_RESULT = {
    "checkName",
    "evidence.editions.asOf",
    "evidence.editions.list",
    "evidence.editions.version",
    "evidence.environment",
    "evidence.fieldsNotTold",
    "evidence.nameComparison.matcherVersion",
    "evidence.provider",
    "evidence.responseDigest",
    "evidence.retrievedAt",
    "failure.code",
    "failure.message",
    "flags.code",
    "flags.severity",
    "outdatedDetails",
}
PLAIN_OF_DECISION = {
    "madeByName",
    "notice.bureaus",
    "notice.number",
    "reasonCodes",
    "secondName",
}
PLAIN = {
    "reports": {
        "checksRequested",
        "corrections.checkName",
        "failure.code",
        "failure.message",
        "package",
        "paymentState.amount.currency",
        "reference",
        "subject.country",
        *(f"checkResults.{path}" for path in PLAIN_OF_RESULT),
        *(f"decision.{path}" for path in PLAIN_OF_DECISION),
        *(f"proposedDecision.{path}" for path in PLAIN_OF_DECISION),
    },
    "results": {"reference", *PLAIN_OF_RESULT},
    "decisions": PLAIN_OF_DECISION,
    "alerts": {"changes.checkName", "changes.field", "reference", "title"},
    "audit-trail": {"action", "fields", "objectId", "objectType", "requestId"},
}


def fill(annotation: Any, path: str) -> Any:
    """Return a value of this type in which each text is the path of its member."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return fill(next(p for p in parts if p is not type(None)), path)
    if origin is Literal:
        return parts[0]
    if origin is list:
        return [fill(parts[0], path)]
    if origin is dict:
        return {"any": f"<{path}>"}
    if origin is not None:
        return fill(parts[0], path)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {
            field.alias: fill(field.annotation, f"{path}.{field.alias}".lstrip("."))
            for field in annotation.model_fields.values()
        }
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        # The actor of the audit trail is masked if it is a member.
        values = [one.value for one in annotation]
        return "MEMBER" if "MEMBER" in values else values[0]
    # Other types cannot hold what a person has written.
    return f"<{path}>" if annotation in {str, Any, object} else None


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else ():
        yield from texts(one)
    for one in value if isinstance(value, list) else ():
        yield from texts(one)


@pytest.mark.parametrize("kind", LINES, ids=lambda kind: kind.name)
def test_every_member_is_masked_or_plain(kind: Kind):
    line = fill(LINES[kind], "")
    marks = {text for text in texts(line) if text.startswith("<")}

    left = set(texts(kind.mask(line)))

    assert {mark[1:-1] for mark in marks & left} == PLAIN[kind.name]
