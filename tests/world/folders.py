"""Folders that PostgreSQL's own user can reach when the tests run as root."""

import os
from pathlib import Path


def open_to_server(folder: Path) -> None:
    """Let other users pass this folder of the tests and those above it.

    Each start of pytest closes its folder to other users, and so does `tempfile`.
    """
    if os.geteuid() == 0:
        for each in (folder, *folder.parents):
            each.chmod(each.stat().st_mode | 0o001)
