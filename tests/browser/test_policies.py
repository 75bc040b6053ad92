"""Pages with scripts obey their security policy; the fixture checks that."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DESK, take_screenshots
from tests.browser.people import log_in, make_staff, set_up_second_factor
from tests.service.test_database_away import database_away as database_away
from verification.db.ids import number_of_id

pytestmark = pytest.mark.slow


def test_documentation_begins_with_a_page_that_everybody_can_read(page, service, look):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path, name in (("/docs", "docs"), ("/", "front"), ("/none", "missing")):
            page.goto(service.url + path)
            look(f"{name}-{scheme}")


def test_commands_of_the_documentation_fit_their_column(page, service):
    page.set_viewport_size(DESK)
    page.goto(f"{service.url}/docs")

    overflow = "all => all.map(one => one.scrollWidth - one.clientWidth)"
    assert set(page.eval_on_selector_all("pre", overflow)) == {0}


def test_reference_of_the_api_is_dark_in_the_dark(page, service):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{service.url}/docs/try")
    expect(page.get_by_text("/api/v1/reports", exact=True).first).to_be_visible()
    take_screenshots(page, "docs-try-dark")

    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate(
        "getComputedStyle(document.querySelector('.opblock-summary-path')).color"
    )
    assert brightness(ground) < 60 < 150 < brightness(ink)


def brightness(colour):
    return max(map(int, re.findall(r"\d+", colour)[:3]))


def test_documentation_is_rendered(page, service):
    page.goto(f"{service.url}/docs/try")

    title = page.get_by_role("heading", name="Verification report service")
    expect(title.first).to_be_visible()
    expect(page.get_by_text("/api/v1/reports", exact=True).first).to_be_visible()


def test_staff_find_their_way(page, service, ask, look):
    report = ask()
    make_staff(service, "staff@people.test")
    log_in(page, service, "staff@people.test", "/admin/")
    look("staff-password-again")
    set_up_second_factor(page)
    look("staff-recovery-codes")
    page.goto(f"{service.url}/admin/")

    page.goto(f"{service.url}/admin/reports/report/")
    number = number_of_id("R", UUID(report["id"]))
    expect(page.get_by_role("link", name=number)).to_be_visible()
    page.goto(f"{service.url}/admin/reports/report/{report['id']}/change/")
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    page.goto(f"{service.url}/admin/workspaces/workspace/add/")
    expect(page.locator("form").last).to_be_visible()


LANGUAGES = [("en", "English"), ("sw", "Kiswahili")]


@pytest.fixture
def broken(service):
    """Rename the table of consents, so that their pages answer with an error."""
    with service.connect() as connection:
        connection.execute("ALTER TABLE consents_consent RENAME TO lost")
        yield
        connection.execute("ALTER TABLE lost RENAME TO consents_consent")


def test_error_of_the_service_looks_like_the_product(page, service, look, broken):
    for code, name in LANGUAGES:
        page.goto(f"{service.url}/c/0123456789?lang={code}")
        expect(page.get_by_role("link", name=name)).to_have_attribute(
            "aria-current", "true"
        )
        look(f"error-500-{code}")


def test_lost_database_shows_an_error_page(page, service, look, database_away):
    for code, told in (("en", "try again in a minute"), ("sw", "baada ya dakika moja")):
        page.goto(f"{service.url}/c/0123456789?lang={code}")
        expect(page.get_by_role("main")).to_contain_text(told)
        look(f"error-503-{code}")
