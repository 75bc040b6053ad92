from collections.abc import Callable, Sequence
from errno import ENOSPC

import pytest
from django.db import connection
from django.utils.timezone import now

from tests.world.logs import log_lines as log_lines
from verification.jobs import claims, queue
from verification.jobs.claims import delete_in_batches, sweep, update_in_batches
from verification.jobs.models import Job


def jobs(count: int) -> list[int]:
    rows = [
        Job(function="tests.jobs.tasks.nothing", arguments=[]) for _ in range(count)
    ]
    return [job.pk for job in Job.objects.bulk_create(rows)]


def waiting():
    return Job.objects.filter(gave_up_at=None)


def sweep_waiting(fails: Callable[[int], object] = bool) -> list[int]:
    """Sweep the waiting rows; return the ids with which the verb was called."""
    called = []

    def verb(pk: int) -> None:
        called.append(pk)
        fails(pk)
        Job.objects.filter(pk=pk).update(gave_up_at=now())

    sweep(waiting(), verb)
    return called


def waiting_ids() -> Sequence[int]:
    return list(waiting().values_list("pk", flat=True))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(claims, "PAGE_SIZE", 2)
    monkeypatch.setattr(claims, "BATCH_SIZE", 2)


@pytest.fixture
def stopping(monkeypatch):
    return lambda: monkeypatch.setattr(queue, "stopping", True)


def test_sweep_handles_each_row_once(db):
    ids = jobs(5)

    assert sweep_waiting() == ids
    assert waiting_ids() == []


def test_sweep_goes_on_after_a_bad_row(db, log_lines):
    ids = jobs(5)

    def fails(pk):
        if pk == ids[1]:
            raise OSError(ENOSPC, "Wanjiku Kamau", "/wanjiku")
        if pk in ids[:3]:
            raise ValueError("Wanjiku Kamau")

    assert sweep_waiting(fails) == ids
    assert sweep_waiting(fails) == waiting_ids() == ids[:3]
    written = [line["message"] for line in log_lines()]
    assert f"jobs.Job {ids[0]} is left for the next run: ValueError" in written
    full = "OSError (No space left on device)"
    assert f"jobs.Job {ids[1]} is left for the next run: {full}" in written
    assert "Wanjiku" not in str(log_lines())


def test_sweep_ignores_deleted_rows(db, log_lines):
    first, second = jobs(2)

    def fails(pk):
        if pk == first:
            Job.objects.filter(pk=first).delete()
            Job.objects.get(pk=first)

    assert sweep_waiting(fails) == [first, second]
    assert waiting_ids() == log_lines() == []


def test_sweep_ends_when_the_worker_stops(db, stopping):
    ids = jobs(3)

    def fails(pk):
        stopping()

    assert sweep_waiting(fails) == ids[:1]


@pytest.mark.django_db(transaction=True)
def test_sweep_goes_on_after_a_lost_connection():
    ids = jobs(3)

    def fails(pk):
        if pk == ids[0]:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    assert sweep_waiting(fails) == ids
    assert waiting_ids() == ids[:1]


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_updates_go_on_until_no_row_is_left(db, count):
    ids = jobs(count)

    update_in_batches(waiting(), gave_up_at=now())

    assert waiting_ids() == []
    assert Job.objects.filter(pk__in=ids).count() == count


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_deletions_go_on_until_no_row_is_left(db, count):
    jobs(count)

    delete_in_batches(waiting())

    assert not Job.objects.exists()


def test_no_batch_begins_when_the_worker_stops(db, stopping):
    ids = jobs(1)
    stopping()

    update_in_batches(waiting(), gave_up_at=now())

    assert waiting_ids() == ids
