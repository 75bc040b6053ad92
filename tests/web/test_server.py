"""The main process of the web server, before it serves."""

import os

from verification.web.server import COUNTS, remove_abandoned_folders


def test_counts_of_killed_web_servers_are_removed(tmp_path):
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    # A restarted container gives its web server the number of the former one.
    stale = {f"{COUNTS}{ended}-a", f"{COUNTS}{os.getpid()}-a"}
    kept = {f"{COUNTS}{os.getppid()}-a", f"{COUNTS}1-a", f"{COUNTS}a", "of-others"}
    kept.add(f"{COUNTS}{10**20}-a")
    for name in stale | kept:
        (tmp_path / name).mkdir()
        (tmp_path / name / "counter_1.db").touch()

    remove_abandoned_folders(tmp_path)

    assert {folder.name for folder in tmp_path.iterdir()} == kept
