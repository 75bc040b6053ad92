"""Marks in every personal field are found before erasing, and nowhere after it."""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils.timezone import now

from monitoring.models import Rule
from tests.privacy.canaries import Canaries, Found, dump, everything, find_in, restore
from tests.privacy.fields import (
    COLUMNS_WITHOUT_MARK,
    WITHOUT_MARK,
    fields_with_text,
    personal_columns,
)
from tests.privacy.marks import World
from tests.privacy.marks import live_source as live_source
from tests.privacy.marks import sources as sources
from tests.privacy.marks import world as world
from tests.world.clients import erase
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.receiver import authority as authority
from tests.world.receiver import receiver as receiver
from tests.world.refunds import paystack_api as paystack_api
from verification.batches.models import Upload, purge_uploads
from verification.jobs.models import Job
from verification.privacy.corrections import withdraw
from verification.privacy.models import Erasure
from verification.privacy.personal_data import refresh_statistics
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report
from verification.settings.providers import checks_by_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def find(world: World, log_lines: LogLines) -> Callable[[], Found]:
    """Return a function that looks for the marks in all that is stored and logged."""

    def log() -> str:
        return json.dumps(log_lines())

    return lambda: find_in(world.canaries, everything(log))


def plant(world: World, find: Callable[[], Found]) -> Found:
    """Plant every mark and find it again; return where."""
    world.plant()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    found = find()
    assert world.canaries.fields - world.canaries.not_stored - found.keys() == set()
    assert found.keys() & world.canaries.not_stored == set()
    marked = {field.split(" of ")[0] for field in world.canaries.fields}
    assert fields_with_text() - marked - WITHOUT_MARK.keys() == set(), "plant these"
    places = set().union(*found.values())
    unplanted = personal_columns() - places - COLUMNS_WITHOUT_MARK.keys()
    assert not unplanted, f"plant these: {sorted(unplanted)}"
    return found


def run_scheduled(function: Callable[[], object]) -> None:
    path = f"{function.__module__}.{function.__qualname__}"
    assert Job.objects.filter(function=path).exists()
    function()


def test_scan_reads_tables_of_which_no_model_knows(
    db: None, settings: Any, tmp_path: Path
):
    settings.EMAIL_FILE_PATH = str(tmp_path)
    canaries = Canaries()
    # Statistics of tables keep the marks of earlier tests.
    name = canaries.mark("anything", "qzvyforgotten").upper()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE forgotten (said text)")
        try:
            cursor.execute("INSERT INTO forgotten VALUES (%s)", [f"It was {name}."])
            found = find_in(canaries, everything())
        finally:
            cursor.execute("DROP TABLE forgotten")

    assert found == {"anything": {"forgotten.said", "pg_dump"}}


def test_lists_without_mark_name_existing_fields_and_columns(db: None):
    assert WITHOUT_MARK.keys() - fields_with_text() == set()
    assert COLUMNS_WITHOUT_MARK.keys() - personal_columns() == set()


def test_every_live_source_is_planted(sources: dict[str, Any]):
    """Findings of `watchlists` quote public lists, as those of opensanctions do."""
    assert sources.keys() | {"watchlists"} == checks_by_source().keys()


def test_retention_erases_every_mark(world: World, find: Callable[[], Found]):
    found = plant(world, find)
    assert found["SubjectInput.fullName"] >= {
        "mailbox",
        "monitoring_rule.subject",
        "pg_dump",
        "reports_report.subject",
        "reports_report.subject_name",
        "statistics of reports_report.subject_name",
    }
    assert found["name of a file"] >= {"batches_batch.name", "batches_upload.content"}
    assert "e-mails" in found["SubjectInput.email"]
    assert found["DisputeForm.documents of CRB_FULL"] == {"documents"}

    old = now() - timedelta(days=400)
    withdraw(UUID(world.open_correction))
    for report in Report.objects.filter(completed_at=None):
        assert world.api.post(f"/reports/{report.pk}/cancel").status_code == 200
    Report.objects.update(completed_at=old)
    # The objection has paused it.
    assert Rule.objects.update(paused_at=old) == 1
    erase_expired_reports()
    Upload.objects.update(created_at=old)
    purge_uploads()
    run_scheduled(refresh_statistics)

    assert find() == {}


def erase_everybody(world: World) -> None:
    """Erase the person and the company by the API, as their jobs do."""
    of_sandbox = [(world.sandbox, report_id) for report_id in world.sandbox_reports]
    for api, report_id in [(world.api, one) for one in world.reports] + of_sandbox:
        if Report.objects.get(pk=report_id).erased_at is None:
            erase(api, report_id)
    run_scheduled(refresh_statistics)


def test_erasure_erases_every_mark_also_from_a_restored_backup(
    world: World, find: Callable[[], Found], documents: Path
):
    before = plant(world, find)
    backup = dump("--data-only")

    erase_everybody(world)

    companies = [world.company, "of GLEIF", "of Companies House"]
    people = [world.person, "the same in the sandbox"]
    assert Erasure.objects.count() == len([*people, *companies])
    assert find() == {}
    assert {path.suffix for path in documents.rglob("*.*")} == {".json"}, "the journal"

    restore(backup)
    files_alone = {field for field, at in before.items() if at <= {"documents"}}
    assert find().keys() == before.keys() - files_alone

    call_command("replay_erasures", stdout=io.StringIO())
    run_scheduled(refresh_statistics)

    assert find() == {}
