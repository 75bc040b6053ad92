"""The clock that all machines of the service share: the database's.

Leases, due times, tokens and signatures must not depend on the machine that writes
them. A machine whose clock is right uses it. If it is wrong by more than a second,
`now` corrects it by what the database said at the last look.
"""

import logging
from datetime import UTC, datetime, timedelta

# Less is the time that a busy machine takes for a look.
TOLERANCE = timedelta(seconds=1)
logger = logging.getLogger(__name__)
_follows = False
_correction = timedelta(0)


def now() -> datetime:
    return datetime.now(UTC) + _correction


def follow_database() -> None:
    """Correct the clock of this process and of its later forks."""
    global _follows
    _follows = True


def compare(database_time: datetime) -> None:
    """Take over the time that the database has just said, if this process follows."""
    global _correction
    if not _follows:
        return
    # The answer was under way for a while, so `now` is never ahead of the database.
    behind = database_time - datetime.now(UTC)
    correction = behind if abs(behind) > TOLERANCE else timedelta(0)
    if _correction and not correction:
        logger.warning("this machine's clock agrees with the database's again")
    elif abs(correction - _correction) > TOLERANCE:
        logger.warning(
            "this machine's clock is %+.0f s off the database's, which counts",
            -behind.total_seconds(),
        )
    _correction = correction
