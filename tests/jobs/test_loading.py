"""Memory: processes load only the modules they need, and return what they freed."""

import os
import subprocess
import sys

import psutil
import pytest
from django.conf import settings

from verification.jobs.processes import trim_memory

pytestmark = pytest.mark.slow

JOBS = "import django;django.setup();from verification.jobs.cluster import *;preload()"
BACK_OFFICE = "verification.payments.admin"

RUN = """
import os,sys,django
sys.argv = ["manage.py", {0!r}]
django.setup()
from verification.jobs.management.commands import {0}
from verification.jobs.cluster import preload
preload()
assert len(os.listdir("/proc/self/task")) == 1"""

MB = 10**6


def loaded(code: str, *packages: str, **variables: str) -> set[str]:
    """Return which of the packages a new process has loaded after this code."""
    code += f";import sys;print(*({set(packages)!r} & sys.modules.keys()), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["run", "jobs"])
def test_job_cluster_has_one_thread_and_no_back_office(command):
    assert not loaded(RUN.format(command), BACK_OFFICE, "unfold.admin")


def test_web_server_of_run_has_the_back_office():
    forked = "\nimport verification.asgi"
    assert loaded(RUN.format("run") + forked, BACK_OFFICE)


def test_web_server_reads_no_source_code_of_answers_at_start():
    """For what the schema of the API says of their fields; it has few of queries."""
    read = "[f for f in linecache.cache if f.endswith('report_shapes.py')]"
    loaded(f"import verification.asgi,linecache;assert not {read}")


def test_job_cluster_loads_no_back_office_and_no_redis():
    assert not loaded(JOBS, BACK_OFFICE, "unfold.admin", "redis", JOB_CLUSTER="here")


def test_job_finds_the_pages_of_the_back_office():
    find = ";from django.urls import reverse;reverse('admin:index')"
    assert loaded(JOBS + find, BACK_OFFICE, JOB_CLUSTER="here")


def test_other_processes_load_the_back_office_at_start():
    assert loaded("import django;django.setup()", BACK_OFFICE)


def test_trim_memory_returns_freed_memory():
    blocks = [bytes(1000) for _ in range(50_000)]
    kept = [bytes(1000) for _ in range(2_000)]
    held = psutil.Process().memory_info().rss
    blocks.clear()

    trim_memory()

    assert kept
    assert held - psutil.Process().memory_info().rss > 30 * MB
