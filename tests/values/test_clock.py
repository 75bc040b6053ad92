"""The clock of the service: the database's, if this machine's is wrong."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from verification.values import clock


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_follows", True)
    monkeypatch.setattr(clock, "_correction", timedelta(0))


def off_by() -> float:
    return (clock.now() - datetime.now(UTC)).total_seconds()


@pytest.mark.parametrize("minutes", [-60, -5, 5])
def test_clock_that_is_wrong_is_corrected(minutes: int, following: None, caplog: Any):
    clock.compare(datetime.now(UTC) + timedelta(minutes=minutes))

    assert off_by() == pytest.approx(60 * minutes, abs=0.1)
    assert f"clock is {-60 * minutes:+} s off the database's" in caplog.text


def test_clock_that_was_set_right_is_used_again(following: None, caplog: Any):
    clock.compare(datetime.now(UTC) + timedelta(minutes=5))
    clock.compare(datetime.now(UTC) + timedelta(milliseconds=300))

    assert off_by() == pytest.approx(0, abs=0.1)
    assert caplog.messages[-1].endswith("agrees with the database's again")


def test_commands_and_tests_keep_their_own_clock():
    clock.compare(datetime.now(UTC) + timedelta(minutes=5))

    assert off_by() == pytest.approx(0, abs=0.1)


def test_new_rows_are_dated_by_this_clock():
    packages = "verification", "workspaces", "webhooks", "monitoring"
    models = [m for m in apps.get_models() if not m._meta.proxy]
    ours = [m for m in models if m.__module__.startswith(packages)]
    fields = [field for model in ours for field in model._meta.concrete_fields]

    assert any(field.default is clock.now for field in fields)
    assert [str(f) for f in fields if f.default is timezone.now] == []
