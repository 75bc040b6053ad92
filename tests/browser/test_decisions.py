"""Two members decide about a report in the console, by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import log_in, make_member
from tests.browser.test_consent import wait_for
from tests.browser.test_corrections import JOIN
from tests.world.clients import person

pytestmark = pytest.mark.slow

FIRST, SECOND = "first@decisions.test", "second@decisions.test"


def test_two_members_decline(page, browser, look, own_client, service):
    (report,) = own_client.order(person(idNumber="90000003"))
    wait_for(own_client, report, "READY")
    for email in (FIRST, SECOND):
        make_member(service, email)
        join = JOIN.replace("owner@corrections.test", email)
        service.manage("shell", "-v", "0", "-c", join.format(own_client.workspace))
    console = f"{service.url}/console/{own_client.workspace}/sandbox"
    log_in(page, service, FIRST)
    page.goto(f"{console}/settings/decisions")
    page.get_by_label("All declines").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    look("console-decision-settings")
    page.get_by_role("link", name="Add a reason").click()
    look("console-decision-reason")

    page.goto(f"{console}/reports/{report['id']}")
    look("console-decision-form")
    decline = page.get_by_label("Decline", exact=True)
    page.get_by_label("Approve").focus()
    page.keyboard.press("ArrowDown")
    expect(decline).to_be_checked()
    page.locator("summary", has_text="reasons").press("Enter")
    page.get_by_label("Credit score below").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Decide", exact=True).focus()
    page.keyboard.press("Enter")
    propose = page.get_by_role("button", name="Propose the decline")
    expect(propose).to_be_visible()
    look("console-decision-decline")
    propose.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("It is proposed.")).to_be_visible()
    look("console-decision-proposed")
    assert page.get_by_role("button", name="Confirm the decision").count() == 0

    other = browser.new_context().new_page()
    log_in(other, service, SECOND)
    other.goto(f"{console}/reports/{report['id']}")
    other.get_by_role("button", name="Confirm the decision").focus()
    other.keyboard.press("Enter")
    expect(other.get_by_text("The decision counts now.")).to_be_visible()
    other.close()

    page.goto(f"{console}/reports/{report['id']}")
    expect(page.get_by_text("counts now")).to_be_visible()
    look("console-decision-made")
    page.goto(re.sub(r"\?.*|$", "?lang=sw", page.url, count=1))
    look("sw-console-decision-made")
