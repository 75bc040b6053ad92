"""The pages that need scripts get along with their policy; see the fixture."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def staff(service):
    service.set_environment(DJANGO_SUPERUSER_PASSWORD="of no worth")
    service.manage(
        "createsuperuser", "--noinput", "--username=root", "--email=root@acacia.test"
    )
    return {"username": "root", "password": "of no worth"}


def test_the_documentation_is_drawn(page, service):
    page.goto(f"{service.url}/docs")

    title = page.get_by_role("heading", name="Verification report service")
    expect(title.first).to_be_visible()
    expect(page.get_by_text("/api/v1/reports", exact=True).first).to_be_visible()


def test_staff_find_their_way(page, service, staff, ask):
    report = ask()
    page.goto(f"{service.url}/admin/")
    for name, value in staff.items():
        page.locator(f"#id_{name}").fill(value)
    page.get_by_role("button").last.click()
    page.wait_for_url("**/admin/")

    page.goto(f"{service.url}/admin/reports/report/")
    expect(page.get_by_text(report["id"]).first).to_be_visible()
    page.goto(f"{service.url}/admin/reports/report/{report['id']}/change/")
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    page.goto(f"{service.url}/admin/workspaces/workspace/add/")
    expect(page.locator("form").last).to_be_visible()
