"""The service's own settings, and an app of jobs that sleep, fail and kill."""

import os

from verification.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.jobs"]  # noqa: F405
JOB_PACKAGES = {*JOB_PACKAGES, "tests"}  # noqa: F405
Q_CLUSTER["timeout"] = int(os.environ.get("JOB_SECONDS") or Q_CLUSTER["timeout"])  # noqa: F405
