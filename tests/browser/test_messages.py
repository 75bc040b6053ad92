"""Messages as their recipients and the members of a sandbox see them."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.people import (
    go_to,
    log_in,
    make_member,
)

pytestmark = pytest.mark.slow

EMAIL = "makena@people.test"
STRANGER = "stranger@elsewhere.test"
# A sandbox report that asks a stranger, of the member's own workspace.
ASK = (
    "import json; from django.contrib.auth.models import User;"
    "from tests.world.clients import HOSTED, Api, person;"
    "from verification.notifications.models import Notification as N;"
    "from verification import links;"
    f"w = User.objects.get(email={EMAIL!r}).memberships.get().workspace;"
    f"item = person(email={STRANGER!r}, dateOfBirth='1990-03-27');"
    "r = Api(w, 'sandbox').create({**item, 'consent': HOSTED});"
    "n = N.objects.get(cause__startswith='consent:', workspace=w);"
    "print(json.dumps([links.block_url(n.pk), n.context['link']]))"
)


def ask_stranger(service) -> list[str]:
    """Return the link to block the workspace, and the link to consent."""
    printed = service.manage("shell", "-v", "0", "-c", ASK)
    return json.loads(printed.splitlines()[-1])


def test_member_reads_the_mailbox_and_stranger_blocks(page, service):
    make_member(service, EMAIL)
    block_link, consent_link = ask_stranger(service)
    log_in(page, service, EMAIL)
    go_to(page, "Mailbox")
    page.get_by_role("link", name="Request for consent").click()
    expect(page.get_by_role("link", name=consent_link).first).to_be_visible()
    go_to(page, "Mailbox")
    page.get_by_role("link", name="Addresses that get messages").click()
    page.get_by_label("E-mail address").fill("tester@people.test")
    page.get_by_role("button", name="Send a code").click()
    expect(page.get_by_text("A code is sent to this address.")).to_be_visible()

    page.goto(block_link)
    page.get_by_role("button", name="I do not know them").click()
    expect(page.get_by_role("status")).to_contain_text("is blocked")
    page.get_by_role("button", name="Allow their messages again").click()
    expect(page.get_by_role("button", name="I do not know them")).to_be_visible()
