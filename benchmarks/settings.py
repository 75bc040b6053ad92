"""The service's own settings as in production, and an app of jobs that do nothing."""

import base64
import os

os.environ["DEBUG"] = "False"
os.environ["SECRET_KEY"] = "of no worth, for benches alone, and long enough"  # noqa: S105
os.environ["FIELD_KEYS"] = "k1:" + base64.b64encode(b"f" * 32).decode()
os.environ["LOOKUP_KEY"] = base64.b64encode(b"l" * 32).decode()

from verification.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]  # noqa: F405
