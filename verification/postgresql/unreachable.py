"""What to do about a database that no command can work with, in one sentence."""

import os
import re

from django.db import OperationalError

# What PostgreSQL and its client say, and what helps; the first that fits.
ADVICE = {
    r'database ".*" does not exist': "create that database, or name another",
    r'role ".*" (does not exist|is not permitted)|password|pg_hba': (
        "correct its user and password"
    ),
    "too many clients|starting up|shutting down": "try again in a minute",
    "resolve host|translate host name": "correct its host",
    "refused|timeout|timed out|No such file|unreachable": (
        "start the server, or correct its host and port"
    ),
}


class NotForUs(OperationalError):
    """The database answers, and this process must not work with it, as it says."""


def sentence(error: OperationalError) -> str:
    """How to reach the database, or "" for an error of a statement."""
    if isinstance(error, NotForUs):
        return str(error)
    if getattr(error.__cause__, "sqlstate", None) is not None:
        return ""
    text = str(error)
    said = re.search(r"FATAL: +(.*)", text) or re.search(r"(?:failed: )?(.+)", text)
    why = said[1].strip(" .") if said else type(error).__name__
    if not os.environ.get("DATABASE_URL"):
        return f"The embedded database cannot be used ({why}); start the command again."
    advice = next((a for found, a in ADVICE.items() if re.search(found, text)), "")
    return (
        f"The database that DATABASE_URL names cannot be used ({why}); "
        f"{advice or 'correct DATABASE_URL'}."
    )


def is_away(error: OperationalError) -> bool:
    """Whether the server does not answer at all, and may do so later."""
    text = str(error)
    refuses = isinstance(error, NotForUs) or "FATAL" in text
    return not refuses or "starting up" in text
