"""Chromium on a phone's screen, against the real service.

CHROMIUM names another browser than Debian's. `tests/pages` looks at every page; here
people do their work. With PICTURES=1 both leave pictures in `.data/screenshots/`.
"""

import os
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from playwright.sync_api import expect

from tests.service.conftest import Client
from tests.world.clients import HOSTED, person

# The browser without windows needs a third less processor time for the same pages.
CHROMIUM = (
    os.environ.get("CHROMIUM")
    or shutil.which("chromium-headless-shell")
    or shutil.which("chromium")
)
SCREENSHOTS = settings.BASE_DIR / ".data" / "screenshots"
# Pictures take a quarter of the time of these tests.
PICTURES = os.environ.get("PICTURES") == "1"
NARROW = {"width": 320, "height": 640}
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
CONFIRMED_BY_SHELL = """
from tests.world.clients import confirm_sandbox_addresses
from workspaces.models import Workspace
confirm_sandbox_addresses(Workspace.objects.get(pk="{workspace}"), "{address}")
"""
# The text spacing of WCAG 2.2, 1.4.12, which a reader may set.
SPACED = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`p { margin-bottom: 2em !important } * {
        line-height: 1.5 !important; letter-spacing: .12em !important;
        word-spacing: .16em !important }`);
    document.adoptedStyleSheets = [sheet];
}"""
# A first page after start can take longer than the library's 5 s on a busy machine:
# the reference of the API is drawn from a document that takes seconds to make.
expect.set_options(timeout=20_000)
WIDTH = "() => document.documentElement.scrollWidth"
# A picture is taken, and a contrast measured, when no colour is on its way.
STILL = """() => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync('* { transition: none !important; animation: none !important }')
    document.adoptedStyleSheets = [sheet]
}"""
WCAG = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}


def take_picture(page, name):
    """Save `<name>.png` for a person to look at, if pictures are wanted."""
    if PICTURES:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def browser_type_launch_args():
    if not CHROMIUM:
        pytest.fail("no chromium here; install it, or name one by CHROMIUM")
    # Within a container there is no sandbox of its own, nor much shared memory.
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    return {"executable_path": CHROMIUM, "args": arguments}


@pytest.fixture(scope="session")
def browser_context_args():
    return {"viewport": PHONE, "locale": "en-KE"}


@pytest.fixture(autouse=True)
def nothing_from_elsewhere(browser, service, monkeypatch):
    """Fail if a page requests another host, or breaks its security policy."""
    asked, refused = [], []
    new_context = browser.new_context

    def watched(**arguments):
        context = new_context(**arguments)
        context.on("request", lambda request: asked.append(request.url))
        context.on("console", lambda message: refused.append(message.text))
        return context

    monkeypatch.setattr(browser, "new_context", watched)
    yield
    assert asked
    ours = service.url, f"http://localhost:{service.port}"
    assert [url for url in asked if not url.startswith(ours)] == []
    assert [text for text in refused if "Content Security" in text] == []


@pytest.fixture(autouse=True)
def whole_service(service):
    """Start both processes, which tests of other modules stop."""
    service.start_web()
    service.start_jobs()


@pytest.fixture(scope="session")
def client(service):
    return Client(service, "sandbox")


@pytest.fixture
def own_client(service):
    """A client for tests that change the settings of their workspace."""
    return Client(service, "sandbox")


@pytest.fixture
def ask(client):
    """Create a report that asks its subject; returns it as the API does."""

    def create(**members):
        subject = {"dateOfBirth": "1990-03-27", **members.pop("subject", {})}
        item = {**person(**subject), "consent": HOSTED, "reference": "LN-2041"}
        return client.order({**item, **members})[0]

    return create


@pytest.fixture
def let_get_messages(service, client):
    """Confirm an address, so that the sandbox sends messages to it."""

    def confirm(address):
        told = CONFIRMED_BY_SHELL.format(workspace=client.workspace, address=address)
        service.manage("shell", "-c", told)

    return confirm


@pytest.fixture
def look(page):
    """Check a page that `tests/pages` does not reach, and take its pictures."""

    def at(name):
        # A click waits until another page begins, and not for the whole of it.
        page.wait_for_load_state()
        for size in (DESK, PHONE) if PICTURES else ():
            page.set_viewport_size(size)
            take_picture(page, f"{name}-{size['width']}")
        found = Axe().run(page, options=WCAG)
        assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size(NARROW)
        assert page.evaluate(WIDTH) <= NARROW["width"]
        page.evaluate(SPACED)
        assert page.evaluate(WIDTH) <= NARROW["width"]
        page.evaluate("document.adoptedStyleSheets = []")
        page.set_viewport_size(PHONE)

    return at
