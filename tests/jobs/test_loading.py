"""Each process loads the modules that it and its children need, and no others."""

import os
import subprocess
import sys

import pytest
from django.conf import settings


def loaded(code: str, *packages: str, **variables: str) -> set[str]:
    """Which of these a new process has loaded after this code."""
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


@pytest.mark.parametrize("command", ["run", "jobs"])
def test_what_forks_clusters_has_one_thread_and_no_back_office(command):
    assert not loaded(RUN.format(command), BACK_OFFICE, "unfold.admin")


def test_what_run_forks_the_web_server_from_finds_the_back_office():
    forked = "\nimport verification.asgi"
    assert loaded(RUN.format("run") + forked, BACK_OFFICE)


def test_web_server_reads_no_source_of_answers_when_it_loads():
    """For what the schema of the API says of their fields; it has few of queries."""
    read = "[f for f in linecache.cache if f.endswith('report_shapes.py')]"
    loaded(f"import verification.asgi,linecache;assert not {read}")


@pytest.mark.parametrize("module", [BACK_OFFICE, "unfold.admin", "redis"])
def test_a_job_cluster_does_without(module):
    assert not loaded(JOBS, module, JOB_CLUSTER="here")


def test_a_job_finds_pages_of_the_back_office_all_the_same():
    find = ";from django.urls import reverse;reverse('admin:index')"
    assert loaded(JOBS + find, BACK_OFFICE, JOB_CLUSTER="here")


def test_other_processes_have_the_back_office_from_the_start():
    assert loaded("import django;django.setup()", BACK_OFFICE)
