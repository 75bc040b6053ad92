from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from uuid import UUID

import pytest
from django.conf import settings

from tests.checks.source import route_all_checks
from verification.checks.catalogue import CATALOGUE
from verification.providers import registry, sandbox
from verification.providers.base import (
    AnswerPending,
    Finding,
    Inquiry,
    Provider,
    ProviderError,
)

ROOT = Path(registry.__file__).parents[2]
CHECKS = [entry.name for entry in CATALOGUE]
# The only imports that the sandbox's modules may have, at the top or in functions.
ALLOWED = {
    "__future__",
    "collections.abc",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
    "hashlib",
    "itertools",
    "logging",
    "orjson",
    "pathlib",
    "rapidfuzz.distance",
    "re",
    "string",
    "tomllib",
    "typing",
    "unicodedata",
    "uuid",
    "verification.values.clock",
    "verification.values.masking",
    "verification.values.public_text",
    "verification.providers.base",
    "verification.providers.name_comparison",
}
NETWORK_OR_ROWS = {
    "_socket",
    "asyncio",
    "django",
    "http.client",
    "httpx",
    "psycopg",
    "requests",
    "socket",
    "ssl",
    "subprocess",
    "urllib.request",
    "urllib3",
}


class Recording:
    """A live adapter that records its inquiries."""

    name: ClassVar[str] = "recording"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}
    asked: ClassVar[list[str]] = []

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, inquiry: Inquiry) -> Finding:
        self.asked.append(inquiry.check)
        return Finding("Found.", 5, {}, self.name)


@pytest.fixture
def live_everywhere() -> Iterator[type[Recording]]:
    Recording.asked.clear()
    adapter = (f"{__name__}.Recording", {"url": "https://registry.example"})
    registry.configure({"recording": adapter}, route_all_checks("recording"))
    yield Recording
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


@pytest.fixture
def live_nowhere() -> Iterator[None]:
    registry.configure({}, route_all_checks("recording"))
    yield
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


def first_asked(check: str, environment: str) -> Provider:
    return registry.route_for(check, environment, "KE").providers[0]


def inquiry(check: str, digit: int = 0) -> Inquiry:
    subject = {
        "subjectType": "INDIVIDUAL",
        "fullName": "Ada Obi",
        "idNumber": f"9000000{digit}",
        "registrationNumber": f"SBX-000000{digit}",
    }
    return Inquiry(check, subject, "run-1", UUID(int=1), 1, datetime.now(UTC))


@pytest.mark.parametrize("check", CHECKS)
def test_only_production_uses_a_live_adapter(
    live_everywhere: type[Recording], check: str
) -> None:
    first_asked(check, "production").ask(inquiry(check))
    assert live_everywhere.asked == [check]

    live_everywhere.asked.clear()
    for digit in range(10):
        try:
            first_asked(check, "sandbox").ask(inquiry(check, digit))
        except (ProviderError, AnswerPending):
            continue
    assert not live_everywhere.asked


@pytest.mark.parametrize("check", [*CHECKS, "AML"])
def test_other_environments_use_the_sandbox(
    live_everywhere: type[Recording], check: str
) -> None:
    for environment in ("sandbox", "", "live", "PRODUCTION", "production ", "test"):
        provider = first_asked(check, environment)

        assert type(provider) is sandbox.Sandbox, environment
        assert not provider.waits_on_network


@pytest.mark.parametrize("check", CHECKS)
def test_production_never_gets_the_sandbox(live_nowhere: None, check: str) -> None:
    provider = first_asked(check, "production")

    assert not isinstance(provider, sandbox.Sandbox)
    with pytest.raises(ProviderError) as refusal:
        provider.ask(inquiry(check))
    assert refusal.value.code == "PROVIDER_NOT_CONFIGURED"


def test_options_of_the_settings_reach_the_adapter(
    live_everywhere: type[Recording],
) -> None:
    provider = first_asked("IDENTITY", "production")

    assert isinstance(provider, Recording)
    assert provider.url == "https://registry.example"


def test_sandbox_imports_no_network_code() -> None:
    seen: set[str] = set()
    waiting = ["verification.providers.sandbox"]
    while waiting:
        module = waiting.pop()
        if module in seen or not module.startswith("verification"):
            continue
        seen.add(module)
        imports = imports_of(ROOT.joinpath(*module.split(".")).with_suffix(".py"))
        assert imports <= ALLOWED, module
        waiting.extend(imports)
    assert "verification.providers.name_comparison" in seen


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            assert node.module
            found.add(node.module)
        elif isinstance(node, ast.Name):
            assert node.id not in ("__import__", "eval", "exec")
    return found


def test_loading_the_sandbox_loads_no_network_and_no_database() -> None:
    code = "import sys, verification.providers.sandbox; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert "verification.providers.name_comparison" in loaded
    assert not NETWORK_OR_ROWS & set(loaded)


@pytest.fixture
def three_sources() -> Iterator[None]:
    adapter = (f"{__name__}.Recording", {"url": "https://registry.example"})
    routes = {"IDENTITY": {"KE": ["a", "b"], "UG": ["c"], "*": ["b"], "TZ": []}}
    registry.configure(dict.fromkeys(["a", "c"], adapter), routes)
    yield
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


@pytest.mark.parametrize(
    ("country", "asked", "lacking"),
    [("KE", "a", ("b",)), ("UG", "c", ()), ("TZ", None, ()), ("GB", None, ())],
)
def test_country_of_the_subject_decides_the_route(
    three_sources: None, country: str, asked: str | None, lacking: tuple[str, ...]
) -> None:
    route = registry.route_for("IDENTITY", "production", country)

    found = registry.provider_named(asked) if asked else None
    assert found is None or route.providers == (found,)
    assert route.lacking == lacking
    assert route.is_live == bool(asked)
