"""The pages that need scripts get along with their policy; see the fixture."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import log_in, make_staff, set_up_second_factor

pytestmark = pytest.mark.slow


def test_the_documentation_is_drawn(page, service):
    page.goto(f"{service.url}/docs")

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
    expect(page.get_by_text(report["id"]).first).to_be_visible()
    page.goto(f"{service.url}/admin/reports/report/{report['id']}/change/")
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    page.goto(f"{service.url}/admin/workspaces/workspace/add/")
    expect(page.locator("form").last).to_be_visible()
