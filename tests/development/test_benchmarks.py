import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests.world.database import make_template
from verification.db import embedded


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_bench_runs(database_server: None, tmp_path: Path):
    output = tmp_path / "output"
    with output.open("w") as printed:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", "--tiny"],
            cwd=settings.BASE_DIR,
            env=os.environ
            | {
                "BENCH_DATA_DIR": str(tmp_path),
                "BENCH_DATABASE": "bench_" + connection.settings_dict["TEST"]["NAME"],
                "BENCH_TEMPLATE": make_template(),
                "DATABASE_URL": os.environ.get("DATABASE_URL")
                or embedded.url(settings.DATA_DIR),
            },
            stdout=printed,
            stderr=printed,
            check=False,
        )

    # A bench that hangs prints where, and ends all.
    said = output.read_text()
    assert done.returncode == 0, said[-10_000:]
    summary = said.partition("\nsummary\n")[2]
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
        "retention",
    ):
        assert f"\n{bench}: " in summary
