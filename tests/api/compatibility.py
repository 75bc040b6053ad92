"""Compare the OpenAPI document with those of released versions.

`make check` runs this module. docs/client/changes.md has the rule: a request that was
accepted stays accepted and means the same, and an answer keeps its members and their
types. Answers may gain members and values of enumerations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PRESENT = ROOT / "docs" / "openapi.yaml"
RELEASED = Path(__file__).parent / "released"
# Differences that break nobody, each with its reason.
CORRECTED = RELEASED / "corrected.txt"
# A limit of a request must not become smaller ...
UPPER = ("maxLength", "maximum", "maxItems", "maxProperties")
# ... nor larger, ...
LOWER = ("minLength", "minimum", "minItems", "minProperties")
# ... and such a rule must not be added or change.
RULES = ("pattern", "format", "uniqueItems", "const", "if", "not")
ALL_RULES = {*UPPER, *LOWER, *RULES}
# In these documents `allOf` has one entry, and stands for it.
ALTERNATIVES = {"anyOf", "oneOf", "allOf"}

Json = dict[str, Any]
Compare = Callable[[str, Json, Json], Iterator[str]]


def read(file: Path) -> Json:
    document: Json = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    return document


def broken(old: Json, new: Json) -> list[str]:
    """Return each difference that breaks a client of the old document, once."""
    return list(dict.fromkeys(Comparison(old, new).all()))


class Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self.old, self.new = old, new
        self.seen: set[tuple[str, str, bool]] = set()

    def all(self) -> Iterator[str]:
        for path, methods in self.old["paths"].items():
            for method, old in methods.items():
                name = old["operationId"]
                new = self.new["paths"].get(path, {}).get(method)
                if new is None:
                    yield f"{name}: removed ({method.upper()} {path})"
                else:
                    yield from self.operation(name, old, new)
        for event, methods in self.old["webhooks"].items():
            if event not in self.new["webhooks"]:
                yield f"{event}: removed event"
                continue
            bodies = (
                content(methods["post"]["requestBody"]),
                content(self.new["webhooks"][event]["post"]["requestBody"]),
            )
            yield from self.contents(event, *bodies, is_request=False)
        yield from self.statuses()

    def operation(self, name: str, old: Json, new: Json) -> Iterator[str]:
        if new["operationId"] != name:
            yield f"{name}: renamed to {new['operationId']}"
        if new["security"] != old["security"]:
            yield f"{name}: another key or scope is needed"
        yield from self.parameters(name, old, new)
        yield from self.body(name, old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            if not status.startswith("2"):
                continue
            if status not in new["responses"]:
                yield f"{name}: no longer answers {status}"
                continue
            now = new["responses"][status]
            for header in answer.get("headers", {}):
                if header not in now.get("headers", {}):
                    yield f"{name}: {status} without the header {header}"
            yield from self.contents(
                f"{name} {status}", content(answer), content(now), is_request=False
            )
        for status in new["responses"]:
            if status.startswith("2") and status not in old["responses"]:
                yield f"{name}: new answer {status}"

    def parameters(self, name: str, old: Json, new: Json) -> Iterator[str]:
        before, now = (
            {(p["in"], p["name"]): p for p in operation.get("parameters", ())}
            for operation in (old, new)
        )
        for key, parameter in before.items():
            if key not in now:
                yield f"{name}: removed parameter {key[1]}"
                continue
            place = f"{name} ?{key[1]}"
            yield from self.request(place, parameter["schema"], now[key]["schema"])
        for key, parameter in now.items():
            was_required = before.get(key, {}).get("required")
            if parameter.get("required") and not was_required:
                yield f"{name}: parameter {key[1]} is now required"

    def body(self, name: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if old and not new:
            yield f"{name}: takes no body any more"
        elif new and new.get("required") and not (old and old.get("required")):
            yield f"{name}: a body is now required"
        if old and new:
            yield from self.contents(name, content(old), content(new), is_request=True)

    def contents(
        self, name: str, old: Json, new: Json, *, is_request: bool
    ) -> Iterator[str]:
        for media_type, described in old.items():
            if media_type not in new:
                yield f"{name}: no longer {media_type}"
                continue
            compare = self.request if is_request else self.answer
            yield from compare(name, described["schema"], new[media_type]["schema"])

    def statuses(self) -> Iterator[str]:
        """A problem keeps its status."""
        before, now = (
            {n: e["value"]["status"] for n, e in d["components"]["examples"].items()}
            for d in (self.old, self.new)
        )
        for code, status in before.items():
            if code not in now:
                yield f"{code}: removed problem"
            elif now[code] != status:
                yield f"{code}: status {now[code]} in place of {status}"

    def request(self, place: str, old: Json, new: Json) -> Iterator[str]:
        """A request that was accepted stays accepted."""
        if self.is_known(old, new, is_request=True):
            return
        before, now = Part(self.old, old), Part(self.new, new)
        yield from (f"{place}: no longer {t}" for t in sorted(before.types - now.types))
        if now.values is not None:
            if before.values is None and "string" in before.types:
                yield f"{place}: only certain values"
            for value in sorted((before.values or set()) - now.values):
                yield f"{place}: no longer {value}"
        for rule in UPPER:
            if now.limit(rule, float("inf")) < before.limit(rule, float("inf")):
                yield f"{place}: smaller {rule}"
        for rule in LOWER:
            if now.limit(rule, float("-inf")) > before.limit(rule, float("-inf")):
                yield f"{place}: larger {rule}"
        for rule in RULES:
            if rule in now.rules and now.rules[rule] != before.rules.get(rule):
                yield f"{place}: {rule} is new or another"
        yield from self.members(place, before, now, self.request)
        for member in sorted(now.required - before.required):
            yield f"{place}.{member}: now required"
        if before.takes_more and not now.takes_more:
            yield f"{place}: takes no further members"
        if before.items and now.items:
            yield from self.request(f"{place}[]", before.items, now.items)

    def answer(self, place: str, old: Json, new: Json) -> Iterator[str]:
        """An answer has the same members, and they can be read as before."""
        if self.is_known(old, new, is_request=False):
            return
        before, now = Part(self.old, old), Part(self.new, new)
        yield from (f"{place}: may be {t}" for t in sorted(now.types - before.types))
        for rule in ("format", "const"):
            if rule in before.rules and now.rules.get(rule) != before.rules[rule]:
                yield f"{place}: another {rule}"
        yield from self.members(place, before, now, self.answer)
        for member in sorted((before.required - now.required) & now.properties.keys()):
            yield f"{place}.{member}: may be missing"
        if before.items and now.items:
            yield from self.answer(f"{place}[]", before.items, now.items)

    def members(
        self, place: str, before: Part, now: Part, compare: Compare
    ) -> Iterator[str]:
        for member, described in before.properties.items():
            if member in now.properties:
                found = now.properties[member]
                yield from compare(f"{place}.{member}", described, found)
            else:
                yield f"{place}.{member}: removed"

    def is_known(self, old: Json, new: Json, *, is_request: bool) -> bool:
        """Return True if both are components that have been compared."""
        if "$ref" not in old or "$ref" not in new:
            return False
        key = (old["$ref"], new["$ref"], is_request)
        is_known = key in self.seen
        self.seen.add(key)
        return is_known


class Part:
    """A schema with its references and alternatives put together."""

    def __init__(self, document: Json, schema: Json) -> None:
        self.document = document
        self.types: set[str] = set()
        self.values: set[str] | None = None
        """None if any will do."""
        self.properties: Json = {}
        self.required: set[str] = set()
        self.items: Json | None = None
        self.rules: Json = {}
        self.takes_more = True
        is_open = False
        for option in self.options(schema):
            types = option.get("type", [])
            types = {types} if isinstance(types, str) else set(types)
            if not types:
                types = {"string"} if "enum" in option else {"any"}
            self.types |= types
            if "enum" in option:
                self.values = (self.values or set()) | set(option["enum"])
            elif "string" in types and "const" not in option:
                is_open = True
            self.properties |= option.get("properties", {})
            self.required |= set(option.get("required", ()))
            self.items = option.get("items", self.items)
            self.takes_more &= option.get("additionalProperties", True) is not False
            self.rules |= {name: option[name] for name in ALL_RULES & option.keys()}
        if is_open:
            self.values = None
        if "number" in self.types:
            self.types.add("integer")

    def options(self, schema: Json) -> Iterator[Json]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self.options(self.document["components"]["schemas"][name])
        elif named := ALTERNATIVES & schema.keys():
            for option in schema[named.pop()]:
                yield from self.options(option)
        else:
            yield schema

    def limit(self, rule: str, default: float) -> float:
        found: float = self.rules.get(rule, default)
        return found


def content(described: Json) -> Json:
    found: Json = described.get("content", {})
    return found


def major(version: str) -> str:
    return version.partition(".")[0]


def corrected() -> set[str]:
    lines = CORRECTED.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def findings(present: Json) -> Iterator[tuple[str, str]]:
    """Yield each break, after the released version of the same major one."""
    for file in sorted(RELEASED.glob("*.yaml")):
        if major(present["info"]["version"]) == major(file.stem):
            for finding in broken(read(file), present):
                yield file.stem, finding


def main() -> int:
    found = [each for each in findings(read(PRESENT)) if each[1] not in corrected()]
    for version, finding in found:
        print(f"{version}: {finding}")  # noqa: T201
    if found:
        print(  # noqa: T201
            "docs/openapi.yaml breaks clients of released versions: see "
            "docs/client/changes.md."
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
