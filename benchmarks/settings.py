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
# Production takes no order that no source could answer; calls to this machine are
# refused before they are made. A bench that asks sources names its own.
os.environ.setdefault("SMILE_ID_PARTNER_ID", "0000")
os.environ.setdefault("SMILE_ID_API_KEY", "of no worth")
os.environ.setdefault("SMILE_ID_URL", "https://127.0.0.1")
os.environ.setdefault("METROPOL_PUBLIC_KEY", "of no worth")
os.environ.setdefault("METROPOL_PRIVATE_KEY", "of no worth")
os.environ.setdefault("METROPOL_URL", "https://127.0.0.1/v2_1")

from verification.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]  # noqa: F405
JOB_PACKAGES = {*JOB_PACKAGES, "benchmarks"}  # noqa: F405
