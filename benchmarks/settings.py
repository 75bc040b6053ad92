"""The service's own settings as in production, and an app of jobs that do nothing."""

import base64
import os

os.environ["DEBUG"] = "False"
os.environ["SECRET_KEY"] = "of no worth, for benches alone, and long enough"  # noqa: S105
os.environ["FIELD_KEYS"] = "k1:" + base64.b64encode(b"f" * 32).decode()
os.environ["OPERATOR_CONTACT"] = "help@operator.test"
os.environ["LOOKUP_KEY"] = base64.b64encode(b"l" * 32).decode()
# Whose events are signed by it; nobody answers there.
os.environ["PAYSTACK_SECRET_KEY"] = "sk_live_of_no_worth"  # noqa: S105
os.environ["PAYSTACK_URL"] = "https://paystack.invalid"

from verification.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]  # noqa: F405
