"""Jobs of the benches."""

from django.db import connection


def nothing(number: int) -> None:
    """A job that costs what the engine costs."""


def stamp(number: int) -> None:
    """Say when it ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO bench_stamp VALUES (%s, clock_timestamp())", [number]
        )
