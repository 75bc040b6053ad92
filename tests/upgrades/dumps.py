"""Dumps of released versions: backups that today's code has to restore and migrate.

`make dump` tells the story with this version's code and writes its backup. A dump of a
version that is released stays as it is. It is sealed with the keys of `tests.settings`,
and `expected.json` beside it in the archive says what a client read before.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from tests.configuration.test_refusals_to_start import database_url
from tests.upgrades.story import *  # noqa: F403

FOLDER = Path(__file__).parent
SUFFIX = ".tar.xz"
# Tables that stay empty -> why
UNUSED = {
    "account_emailconfirmation": "allauth signs its links, and keeps no row",
    "axes_accessattemptexpiration": "the setting for it is off",
    "axes_accessfailurelog": "the setting for it is off",
    "axes_accesslog": "the setting for it is off",
    "socialaccount_socialapp": "settings name the identity providers",
    "socialaccount_socialtoken": "no token of an identity provider is stored",
    "django_q_ormq": "jobs have a table of their own",
}


def test_dump(story: Any, documents: Path, tmp_path: Path) -> None:
    """Not collected unless it is named, as `make dump` does."""
    reports = {one: story.api.report(one) for one in story.reports}
    url = database_url("postgres", connection.settings_dict["NAME"])
    made = manage("backup", str(tmp_path / "backups"), url=url, documents=documents)
    backup = Path(made.stdout.strip())
    expected = {"key": story.api.text, "reports": reports}
    (backup / "expected.json").write_text(json.dumps(expected, indent=1))
    with tarfile.open(FOLDER / f"{settings.VERSION}{SUFFIX}", "w:xz") as dump:
        for path in sorted(backup.rglob("*")):
            dump.add(path, path.relative_to(backup), recursive=False)


def manage(
    *arguments: str, url: str, documents: Path
) -> subprocess.CompletedProcess[str]:
    """Run a management command on this database and these documents."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=os.environ
        | {
            "DATABASE_URL": url,
            "DOCUMENTS_DIR": str(documents),
            "DJANGO_SETTINGS_MODULE": "tests.world.service_settings",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
