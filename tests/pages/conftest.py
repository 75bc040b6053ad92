"""Chromium before a server in the process of the tests, which shares their rows."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import DESK
from tests.browser.conftest import browser_type_launch_args as browser_type_launch_args
from tests.console.conftest import owner as owner
from tests.console.conftest import viewer as viewer
from tests.pages.walk import Walk


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    return {"viewport": DESK, "locale": "en-KE", "reduced_motion": "reduce"}


@pytest.fixture
def walk(page, settings, live_server, request) -> Iterator[Walk]:
    """Walk through the pages of this test; fails at its end if one has a fault."""
    # The server of tests serves static files under their plain names.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    settings.ROOT_URLCONF = "tests.pages.urls"
    settings.BASE_URL = live_server.url
    part = re.sub(r"test_|\W?chromium|\W", "", request.node.name)
    return Walk(page, live_server.url, part)
