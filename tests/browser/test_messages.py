"""Messages as their recipients and the members of a sandbox see them."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.people import (
    go_to,
    log_in,
    make_member,
    open_account,
    read_in,
)

pytestmark = pytest.mark.slow

EMAIL = "makena@people.test"
STRANGER = "stranger@elsewhere.test"
CHOOSER = "akinyi@people.test"
OFF_LINK = (
    "import json; from workspaces.models import Member;"
    "from workspaces.member_messages import links_of;"
    f"m = Member.objects.get(user__email={CHOOSER!r});"
    "print(json.dumps(links_of(m, 'sandbox-REPORT_READY', 'sandbox')['offUrl']))"
)
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


def test_member_reads_the_mailbox_and_stranger_blocks(page, service, look):
    make_member(service, EMAIL)
    block_link, consent_link = ask_stranger(service)
    log_in(page, service, EMAIL)
    go_to(page, "Mailbox")
    look("mailbox-1-list")
    page.get_by_role("link", name="Request for consent").click()
    expect(page.get_by_role("link", name=consent_link).first).to_be_visible()
    look("mailbox-2-message")
    go_to(page, "Mailbox")
    page.get_by_role("link", name="Addresses that get messages").click()
    page.get_by_label("E-mail address").fill("tester@people.test")
    page.get_by_role("button", name="Send a code").click()
    expect(page.get_by_text("A code is sent to this address.")).to_be_visible()
    look("mailbox-3-addresses")

    page.goto(block_link)
    look("block-1-choice")
    page.get_by_role("button", name="I do not know them").click()
    expect(page.get_by_role("status")).to_contain_text("is blocked")
    look("block-2-blocked")
    read_in(page, "Kiswahili")
    look("block-3-kiswahili")
    read_in(page, "English")
    page.get_by_role("button", name="Allow their messages again").click()
    expect(page.get_by_role("button", name="I do not know them")).to_be_visible()

    page.goto(consent_link)
    page.get_by_role("link", name="Stop these messages").click()
    look("block-4-from-a-page")


@pytest.fixture
def development(service):
    with service.changed(DEBUG="True"):
        yield


def test_developer_reads_every_message(page, service, ask, look, development):
    link = ask(subject={"email": STRANGER})["consentState"]["consentUrl"]
    page.goto(f"{service.url}/dev/mail")

    expect(page.get_by_role("link", name=link).first).to_be_visible()
    look("dev-mail")
    page.get_by_role("link", name="Show the e-mail as HTML").first.click()
    button = page.get_by_role("link", name="Read and decide")
    expect(button).to_have_attribute("href", link)
    button.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm that it is you")
    page.goto(f"{service.url}/dev/mail")
    page.get_by_role("link", name=link).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm that it is you")


def test_member_chooses_messages_and_turns_one_kind_off_by_its_link(
    page, browser, service, look
):
    make_member(service, CHOOSER)
    log_in(page, service, CHOOSER)
    open_account(page)
    page.get_by_role("link", name="Choose the messages that you get").click()
    page.get_by_label("Reports that are ready").select_option("NOW")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_label("Reports that are ready")).to_have_value("NOW")
    look("messages-choice")
    read_in(page, "Kiswahili")
    look("sw-messages-choice")

    link = json.loads(
        service.manage("shell", "-v", "0", "-c", OFF_LINK).splitlines()[-1]
    )
    stranger = browser.new_context().new_page()
    stranger.goto(link)
    stranger.get_by_role("button", name="Stop these messages").click()
    expect(stranger.get_by_text("You no longer get these messages.")).to_be_visible()
    stranger.close()
    page.goto(link)
    look("sw-messages-off")
    page.goto(page.url.partition("/console/")[0] + "/console/messages?lang=en")
    expect(page.get_by_label("Reports that are ready")).to_have_value("OFF")
