import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from verification.db import embedded


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_bench_runs(database_server: None, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--tiny"],
        cwd=settings.BASE_DIR,
        env=os.environ
        | {
            "BENCH_DATA_DIR": str(tmp_path),
            "BENCH_DATABASE": "bench_" + connection.settings_dict["TEST"]["NAME"],
            "DATABASE_URL": os.environ.get("DATABASE_URL")
            or embedded.url(settings.DATA_DIR),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    summary = done.stdout.partition("\nsummary\n")[2]
    for bench in (
        "create-batch",
        "create-single",
        "latency",
        "hosted-pages",
        "payment-events",
        "drain",
        "sources",
        "lists",
        "admin",
    ):
        assert f"\n{bench}: " in summary
