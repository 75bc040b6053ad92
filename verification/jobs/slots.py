"""Keeping one kind of job from taking every worker of a cluster, and two workers from
doing one thing."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from verification.jobs.queue import cluster_name

TAKE = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
GIVE_BACK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"


@contextmanager
def slot(kind: str, most: int) -> Iterator[bool]:
    """Hold one of the cluster's `most` slots of this kind; False if all are taken.

    The database takes back the slot of a worker that dies. Whoever finds none leaves
    the work to those who have one: they look once more after they have given it back.
    """
    names = [f"{cluster_name()}:{kind}:{number}" for number in range(most)]
    taken = next((name for name in names if _ask(TAKE, name)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None:
            _ask(GIVE_BACK, taken)


@contextmanager
def alone(name: str) -> Iterator[bool]:
    """Hold what has this name; False if somebody else does, in whichever cluster.

    Unlike a claim with a time limit it does not lapse while its holder lives.
    """
    is_mine = _ask(TAKE, name)
    try:
        yield is_mine
    finally:
        if is_mine:
            _ask(GIVE_BACK, name)


def _ask(sql: str, name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, [name])
        return bool(cursor.fetchone()[0])
