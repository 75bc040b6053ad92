"""The back office as staff see it: light and dark, in its dialogs."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import STILL, WCAG, take_picture
from tests.browser.people import log_in, make_staff, set_up_second_factor

pytestmark = pytest.mark.slow
DESK = {"width": 1280, "height": 860}


@pytest.fixture(scope="module")
def cookies(browser, service) -> list:
    """Log staff in with a new second factor; return the cookies."""
    service.start_web()
    make_staff(service, "wanjiku@office.test")
    page = browser.new_context(locale="en-KE").new_page()
    log_in(page, service, "wanjiku@office.test", "/admin/")
    set_up_second_factor(page)
    found = page.context.cookies()
    page.context.close()
    return found


@pytest.fixture(params=["light", "dark"])
def office(page, service, cookies, request):
    page.context.add_cookies(cookies)
    page.emulate_media(color_scheme=request.param)
    page.set_viewport_size(DESK)
    page.goto(f"{service.url}/admin/")
    page.theme = request.param
    return page


def see(page, name: str) -> None:
    """Check the accessibility of the page, and take its picture."""
    page.wait_for_load_state()
    page.evaluate(STILL)
    take_picture(page, f"admin-{name}-{page.theme}")
    found = Axe().run(page, options=WCAG)
    assert found.violations_count == 0, found.generate_report()


def test_dialog_takes_the_focus_and_gives_it_back(office, service, ask):
    report = ask()["id"]
    office.goto(f"{service.url}/admin/reports/report/{report}/change/")
    number = office.get_by_text("12345678").first
    expect(number).to_be_hidden()

    button = office.locator("a[hx-get$='/reveal/']").first
    button.focus()
    office.keyboard.press("Enter")
    dialog = office.get_by_role("dialog")
    dialog.get_by_label("Reason").wait_for()
    see(office, "reveal")
    assert office.evaluate("document.activeElement.name") == "reason"
    office.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert "reveal" in office.evaluate("document.activeElement.getAttribute('hx-get')")

    office.keyboard.press("Enter")
    dialog.get_by_label("Reason").fill("The subject asked us by telephone")
    with office.expect_navigation():
        office.keyboard.press("Enter")
    expect(number).to_be_visible()
    see(office, "revealed")
