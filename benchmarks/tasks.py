"""Jobs of the benches."""

from django.db import connection

from verification.jobs.queue import job


@job
def nothing(number: int) -> None:
    """Do nothing, so that a run costs what the engine costs."""


@job
def stamp(number: int) -> None:
    """Record the time of the run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO bench_stamp VALUES (%s, clock_timestamp())", [number]
        )
