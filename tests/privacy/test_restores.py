"""Erasures, holds, corrections, crashes, backups and restores in any order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.utils.timezone import now
from hypothesis import HealthCheck, Phase, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.world.clients import Api, person, request_erasure
from tests.world.corrections import create_wrong_report, dispute
from verification.privacy.corrections import NoFinding, withdraw
from verification.privacy.erasure import erase_person, finish_erasures
from verification.privacy.holds import HoldRefused, hold, release
from verification.privacy.models import Correction, Erasure, Hold, RetentionRun
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report

pytestmark = pytest.mark.slow

STEPS = 12
EXAMPLES = 8
WHICH = strategies.integers(0, 99)
LONG_AGO = timedelta(days=400)


class Crash(Exception):
    pass


class Restores(RuleBasedStateMachine):
    """Backups are savepoints: all rows as they were, while files stay as they are."""

    def __init__(self, api: Api, journal: Path) -> None:
        super().__init__()
        self.api = api
        shutil.rmtree(journal, ignore_errors=True)
        self.backups = [transaction.savepoint()]
        # No restore takes a report out of these: one that is erased, or named for it.
        self.erased: set[UUID] = set()
        self.named: set[UUID] = set()
        # A report that is held in a backup, and one that has not ended there.
        self.order("READY")
        self.hold(0)
        self.order("RUNNING")
        self.back_up()

    @rule(kind=strategies.sampled_from(["RUNNING", "DRAFT", "READY"]))
    def order(self, kind: str) -> None:
        if kind == "READY":
            create_wrong_report(self.api)
        else:
            self.api.create({**person(), "draft": kind == "DRAFT", "reuse": False})

    @rule(which=WHICH)
    def hold(self, which: int) -> None:
        unheld = Report.objects.filter(erased_at=None, holds=None)
        if report := pick(unheld, which):
            with suppress(HoldRefused):
                hold(report.pk, "A court asks", now() + LONG_AGO, by="staff grace")

    @rule(which=WHICH)
    def dispute(self, which: int) -> None:
        ready = Report.objects.filter(status="READY", erased_at=None, corrections=None)
        if report := pick(ready.filter(checks_requested=["IDENTITY"]), which):
            with suppress(NoFinding):
                dispute(str(report.pk))

    @rule()
    def let_go(self) -> None:
        """End holds, corrections and checks."""
        for held in Hold.objects.open(now()):
            release(held.pk, by="staff grace")
        for correction in Correction.objects.filter(status="OPEN"):
            withdraw(correction.pk)
        self.api.work()

    @rule()
    def let_reports_expire(self) -> None:
        kept = Report.objects.filter(erased_at=None)
        kept.update(
            completed_at=F("completed_at") - LONG_AGO,
            updated_at=F("updated_at") - LONG_AGO,
        )

    @rule()
    def run_retention(self) -> None:
        erase_expired_reports()

    @rule(statement=strategies.integers(5, 60))
    def crash_in_retention(self, statement: int) -> None:
        crash_at(statement, erase_expired_reports)

    @rule(which=WHICH, waits=strategies.booleans())
    def erase_person(self, which: int, waits: bool) -> None:
        held = Hold.objects.open(now()).values("report__subject_id")
        free = Report.objects.filter(erased_at=None).exclude(subject_id__in=held)
        if report := pick(free, which):
            made = request_erasure(self.api, str(report.pk))
            if not waits:
                erase_person(made["id"])

    @rule()
    def back_up(self) -> None:
        self.backups.append(transaction.savepoint())

    @rule(which=WHICH)
    def restore(self, which: int) -> None:
        self.remember()
        number = which % len(self.backups)
        del self.backups[number + 1 :]
        transaction.savepoint_rollback(self.backups[number])
        waiting = Erasure.objects.filter(ended_at=None).values("request__subject_id")
        about = Report.objects.filter(subject_id__in=waiting)
        about_to_be_erased = set(about.values_list("pk", flat=True))

        call_command("replay_erasures", verbosity=0)

        there = set(Report.objects.values_list("pk", flat=True))
        erased = erased_reports()
        assert self.erased & there <= erased
        # Nobody else is erased.
        assert erased <= self.erased | self.named | about_to_be_erased

    def remember(self) -> None:
        self.erased |= erased_reports()
        for model in (RetentionRun, Erasure):
            named = model.objects.exclude(report_ids=None)
            for ids in named.values_list("report_ids", flat=True):
                self.named |= set(ids)

    def teardown(self) -> None:
        self.let_go()
        self.let_reports_expire()
        self.run_retention()
        finish_erasures(before=now())
        for number in reversed(range(len(self.backups))):
            self.restore(number)
        transaction.savepoint_rollback(self.backups[0])


def pick(rows: Any, which: int) -> Any:
    found = list(rows.order_by("pk"))
    return found[which % len(found)] if found else None


def erased_reports() -> set[UUID]:
    rows = Report.objects.exclude(erased_at=None).filter(subject=None)
    return set(rows.values_list("pk", flat=True))


def crash_at(number: int, action: Callable[[], object]) -> None:
    """Run an action that dies before its statement with this number."""
    count = 0

    def execute(run: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        nonlocal count
        # Django's transactions survive no exception at a savepoint.
        if "SAVEPOINT" not in sql:
            count += 1
            if count == number:
                raise Crash
        return run(sql, parameters, many, context)

    with connection.execute_wrapper(execute):
        try:
            action()
        except Crash:
            return


def test_restore_brings_back_nobody_who_was_erased(api: Api, documents: Path) -> None:
    run_state_machine_as_test(
        lambda: Restores(api, documents / "erasures"),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            database=None,
            # The same examples in each run, as Hypothesis makes them in CI
            derandomize=True,
            # Making a failing example smaller would take minutes.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
