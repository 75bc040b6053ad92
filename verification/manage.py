"""The command `verification` of an installed package, and `manage.py` of a checkout."""

import os
import sys

from verification import __version__
from verification.db import embedded


def main() -> None:
    """Run a management command; refusals are one sentence that says what to do."""
    if sys.argv[1:] in (["--version"], ["version"]):
        # Django would print its own.
        print(__version__)  # noqa: T201
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")
    embedded.start_if_needed(sys.argv)

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import NotSupportedError, OperationalError, ProgrammingError
    from environs import EnvError
    from psycopg.errors import UndefinedColumn, UndefinedTable

    from verification.db import startup
    from verification.db.base import name_sessions

    name_sessions(" ".join(sys.argv[1:2]) or "help")
    try:
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, NotSupportedError) as e:
        if sys.argv[1:] == ["jobs", "--alive"] and isinstance(e.__cause__, OSError):
            # The file or key management service of a secret is away now.
            print(f"not known ({e})")  # noqa: T201
            return
        sys.exit(str(e))
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)  # noqa: T201
        # As a shell says of a program that SIGINT ended.
        sys.exit(130)
    except EnvError as e:
        sys.exit(f"{e} docs/operator/configuration.md says what it may be.")
    except OperationalError as e:
        if explanation := startup.explain_error(e):
            sys.exit(explanation)
        raise
    except ProgrammingError as e:
        is_missing = isinstance(e.__cause__, UndefinedTable | UndefinedColumn)
        if is_missing and startup.count_unapplied_migrations():
            sys.exit("Tables are missing in the database; run: verification migrate")
        raise
