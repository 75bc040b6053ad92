"""The service's settings for tests; nothing needs to be set in the environment.

Tests have a folder and an embedded server of their own, so that they may run while
`make run` does. TEST_DATA_DIR and TEST_DATABASE set two test runs apart.
"""

import base64
import os
from pathlib import Path

# Processes that `tests.world.service` starts inherit these.
os.environ["DATA_DIR"] = os.environ.get("TEST_DATA_DIR") or str(
    Path(__file__).resolve().parent.parent / ".data" / "test"
)
os.environ["DEBUG"] = "False"
os.environ["ALLOWED_HOSTS"] = "*"
os.environ["SECRET_KEY"] = "secret-for-tests-only-and-long-enough-for-django"
os.environ["FIELD_KEYS"] = "k1:" + base64.b64encode(b"f" * 32).decode()
os.environ["COMPRESS_SEALED_VALUES"] = "True"
os.environ["OPERATOR_CONTACT"] = "help@operator.test"
os.environ["LOOKUP_KEY"] = base64.b64encode(b"l" * 32).decode()

# Playwright runs its event loop in the thread of the tests, which use the database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

from tests.world.service_settings import *  # noqa: F403

DATABASES["default"]["TEST"] = {  # noqa: F405
    "NAME": os.environ.get("TEST_DATABASE", "test_verification")
}

# Tests list the stored files, and other processes of the run store theirs.
STORAGES["documents"]["OPTIONS"]["location"] /= os.environ.get(  # noqa: F405
    "PYTEST_XDIST_WORKER", "alone"
)

# Each test client builds the middleware, which would list all static files each time.
WHITENOISE_AUTOREFRESH = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
