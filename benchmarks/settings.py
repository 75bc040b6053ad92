"""The service's settings as in production, and an app with the jobs of benches."""

import base64
import os

os.environ["DEBUG"] = "False"
os.environ["SECRET_KEY"] = "of no worth, for benches alone, and long enough"  # noqa: S105
os.environ["FIELD_KEYS"] = "k1:" + base64.b64encode(b"f" * 32).decode()
os.environ["COMPRESS_SEALED_VALUES"] = "True"
os.environ["OPERATOR_CONTACT"] = "help@operator.test"
os.environ["LOOKUP_KEY"] = base64.b64encode(b"l" * 32).decode()
# The bench signs events with this key; no provider answers at the URL.
os.environ["PAYSTACK_SECRET_KEY"] = "sk_live_of_no_worth"  # noqa: S105
os.environ["PAYSTACK_URL"] = "https://paystack.invalid"
# Production needs sources to accept an order. The service refuses calls to this machine
# before it makes them; the bench of sources configures its own.
os.environ.setdefault("SMILE_ID_PARTNER_ID", "0000")
os.environ.setdefault("SMILE_ID_API_KEY", "of no worth")
os.environ.setdefault("SMILE_ID_URL", "https://127.0.0.1")
os.environ.setdefault("METROPOL_PUBLIC_KEY", "of no worth")
os.environ.setdefault("METROPOL_PRIVATE_KEY", "of no worth")
os.environ.setdefault("METROPOL_URL", "https://127.0.0.1/v2_1")

from verification.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]  # noqa: F405
JOB_PACKAGES = {*JOB_PACKAGES, "benchmarks"}  # noqa: F405
