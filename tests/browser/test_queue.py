"""An officer sets the hours, takes what waits and decides, with the keyboard alone."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import log_in, make_member, reload_until
from tests.browser.test_corrections import JOIN
from tests.world.clients import person

pytestmark = pytest.mark.slow

OFFICER = "officer@queue.test"
ALT = 1


def press_access_key(page, key):
    """Press Alt and the key. `keyboard.press` leaves out the text of such a key."""
    pressed = {
        "type": "keyDown",
        "modifiers": ALT,
        "key": key,
        "code": f"Key{key.upper()}",
        "windowsVirtualKeyCode": ord(key.upper()),
        "unmodifiedText": key,
    }
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchKeyEvent", pressed)
    session.send("Input.dispatchKeyEvent", {**pressed, "type": "keyUp"})


def test_officer_works_through_the_queue(page, look, own_client, service):
    make_member(service, OFFICER)
    join = JOIN.replace("owner@corrections.test", OFFICER)
    service.manage("shell", "-v", "0", "-c", join.format(own_client.workspace))
    console = f"{service.url}/console/{own_client.workspace}/sandbox"
    log_in(page, service, OFFICER)
    page.goto(f"{console}/queue/")
    look("console-queue-off")
    page.goto(f"{console}/settings/queue")
    page.get_by_label("Hours until a report is decided").fill("24")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Saved.")).to_be_visible()
    look("console-queue-settings")

    own_client.order(person(), person(idNumber="90000003"))
    rows = page.locator("tbody tr")
    page.goto(f"{console}/queue/")
    reload_until(page, lambda: rows.count() == 2)
    look("console-queue")
    press_access_key(page, "s")
    expect(page.get_by_label("Search")).to_be_focused()
    press_access_key(page, "n")
    expect(page.get_by_text("It is yours.")).to_be_visible()
    page.get_by_label("New note").fill("Rang the employer")
    page.get_by_role("button", name="Add the note").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Rang the employer")).to_be_visible()
    look("console-queue-case")
    page.get_by_label("Approve").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Decide", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The decision counts now.")).to_be_visible()

    press_access_key(page, "q")
    expect(rows).to_have_count(1)
    page.goto(re.sub(r"\?.*|$", "?lang=sw", page.url, count=1))
    look("sw-console-queue")
