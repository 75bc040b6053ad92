"""Memory: processes load only the modules they need, and return what they freed."""

import os
import subprocess
import sys

import psutil
import pytest
from django.conf import settings

from verification.jobs.processes import trim_memory

pytestmark = pytest.mark.slow

START = "import django;django.setup()"
JOBS = f"{START};from verification.jobs.cluster import *;preload()"
BACK_OFFICE = "verification.payments.admin"
PACKAGES = {BACK_OFFICE, "unfold.admin", "redis"}

RUN = """
import os,sys,django
sys.argv = ["manage.py", {0!r}]
django.setup()
from verification.jobs.management.commands import {0}
from verification.jobs.cluster import preload
preload()
assert len(os.listdir("/proc/self/task")) == 1"""

MB = 10**6


def loaded(*steps: str, **variables: str) -> list[set[str]]:
    """Return which of PACKAGES a new process has loaded after each of these steps."""
    show = f"\nimport sys;print(*({PACKAGES} & sys.modules.keys()))\n"
    done = subprocess.run(
        [sys.executable, "-c", "".join(step + show for step in steps)],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_job_cluster_has_one_thread_and_no_back_office():
    (cluster,) = loaded(RUN.format("jobs"))

    assert cluster <= {"redis"}


def test_web_server_of_run_has_the_back_office_and_its_job_cluster_has_not():
    cluster, forked = loaded(RUN.format("run"), "import verification.asgi")

    assert cluster <= {"redis"}
    assert BACK_OFFICE in forked


def test_other_processes_load_the_back_office_at_start():
    """A web server reads no source code for what the API's schema says of fields.

    It reads some for what the schema says of queries.
    """
    read = "[f for f in linecache.cache if f.endswith('report_shapes.py')]"
    asgi = f"import verification.asgi,linecache;assert not {read}"
    started, _ = loaded(START, asgi)

    assert BACK_OFFICE in started


def test_job_cluster_loads_no_redis_and_the_back_office_when_a_job_needs_it():
    find = "from django.urls import reverse;reverse('admin:index')"
    cluster, job = loaded(JOBS, find, JOB_CLUSTER="here")

    assert cluster == set()
    assert BACK_OFFICE in job


def test_trim_memory_returns_freed_memory():
    blocks = [bytes(1000) for _ in range(50_000)]
    kept = [bytes(1000) for _ in range(2_000)]
    held = psutil.Process().memory_info().rss
    blocks.clear()

    trim_memory()

    assert kept
    assert held - psutil.Process().memory_info().rss > 30 * MB
