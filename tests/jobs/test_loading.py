"""What processes of jobs load: each has its own copy of much of it."""

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


def test_the_supervisor_does_without_django():
    assert not loaded("import verification.jobs.supervisor", "django", "environs")


@pytest.mark.parametrize("module", [BACK_OFFICE, "unfold.admin", "redis"])
def test_a_job_cluster_does_without(module):
    assert not loaded(JOBS, module, JOB_CLUSTER="here")


def test_a_job_finds_pages_of_the_back_office_all_the_same():
    find = ";from django.urls import reverse;reverse('admin:index')"
    assert loaded(JOBS + find, BACK_OFFICE, JOB_CLUSTER="here")


def test_other_processes_have_the_back_office_from_the_start():
    assert loaded("import django;django.setup()", BACK_OFFICE)
