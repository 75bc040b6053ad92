"""Jobs of the benches."""

from django.db import connection

from verification.jobs.queue import job


@job
def nothing(number: int) -> None:
    """A job that costs what the engine costs."""


@job
def stamp(number: int) -> None:
    """Say when it ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO bench_stamp VALUES (%s, clock_timestamp())", [number]
        )
