"""A member logs in by a provider that somebody else wrote, in Chromium."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import expect

from tests.browser.conftest import browser_context_args as browser_context_args
from tests.browser.conftest import browser_type_launch_args as browser_type_launch_args
from tests.fakes.identity_provider import make_provider
from tests.world.service import free_port
from tests.world.waiting import until
from verification.backoffice.models import AuditEvent
from workspaces.create import create_workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
]
CLAIMS = {
    "email": "grace@bank.test",
    "email_verified": True,
    "name": "Grace Wambui",
    "groups": ["officers"],
}


@pytest.fixture
def issuer(tmp_path) -> Iterator[str]:
    """Start the provider as a program of its own; it knows Grace."""
    port = free_port()
    url = f"http://localhost:{port}"
    with (tmp_path / "provider.log").open("w") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)],
            stdout=log,
            stderr=log,
            env=os.environ | {"AUTHLIB_INSECURE_TRANSPORT": "1"},
        )
    try:
        with requests.Session() as session:
            session.trust_env = False
            until(lambda: _put_person(session, url))
        yield url
    finally:
        program.terminate()
        program.wait(30)


def _put_person(session: requests.Session, url: str) -> bool:
    try:
        answer = session.put(f"{url}/users/grace", json=CLAIMS, timeout=5)
    except requests.ConnectionError:
        return False
    return answer.status_code == 204


def test_member_logs_in_and_out_by_the_provider(page, live_server, settings, issuer):
    workspace = create_workspace(name="Bank of Nyeri", owner_email="owner@bank.test")
    settings.BASE_URL = live_server.url
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    provider = make_provider(
        issuer=issuer,
        private=True,
        workspace=workspace.pk,
        roles={"officers": "OFFICER"},
    )
    settings.IDENTITY_PROVIDERS = {"bank": provider}
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))

    page.goto(f"{live_server.url}/accounts/login/?next=/accounts/security/")
    page.get_by_role("button", name="Log in with Bank of Nyeri").click()
    page.get_by_placeholder("sub").fill("grace")
    page.get_by_role("button", name=re.compile("authorize", re.IGNORECASE)).click()

    expect(page.get_by_text("You log in with Bank of Nyeri")).to_be_visible()
    assert workspace.members.get().role == "OFFICER"
    page.locator("details.menu-end > summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{issuer}/oauth2/end_session?**")
    page.goto(f"{live_server.url}/accounts/security/")
    expect(page.get_by_label("Password", exact=True)).to_be_visible()
    actions = AuditEvent.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == [
        "user.created-by-provider",
        "member.added",
        "user.logged-in-by-provider",
    ]
    assert [text for text in refused if "Content Security" in text] == []
