"""A member looks at the figures of the company, by keyboard and in both languages."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import log_in, make_member
from tests.browser.test_consent import wait_for
from tests.browser.test_corrections import JOIN
from tests.world.clients import person

pytestmark = pytest.mark.slow

EMAIL = "board@figures.test"
COUNT = """
from verification.figures.daily import count_changed_days
count_changed_days()
"""


def test_member_reads_figures(page, look_in_both, look, client, service):
    for number in ("90000003", "22345678"):
        (report,) = client.order(person(idNumber=number))
        wait_for(client, report, "READY")
    service.manage("shell", "-v", "0", "-c", COUNT)
    make_member(service, EMAIL)
    join = JOIN.replace("owner@corrections.test", EMAIL)
    service.manage("shell", "-v", "0", "-c", join.format(client.workspace))
    log_in(page, service, EMAIL)
    page.goto(f"{service.url}/console/{client.workspace}/sandbox/figures/")

    expect(page.get_by_role("img", name="Reports by outcome")).to_be_visible()
    for summary in page.locator("main summary").all():
        summary.focus()
        page.keyboard.press("Enter")
    expect(page.get_by_role("table").first).to_be_visible()
    look("console-figures-tables")
    page.get_by_role("link", name="365 days").click()
    expect(page.get_by_role("img", name="How long checks take")).to_be_visible()
    look_in_both("console-figures")
    page.get_by_role("link", name="Last month").click()
    expect(page.get_by_text("There is nothing to count")).to_be_visible()
    look("console-figures-none")
