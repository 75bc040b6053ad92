"""An owner sets the company's face, and people see it."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import add_member, log_in
from tests.browser.test_consent import confirm, link_of, sees, sign
from tests.world.brands import HOST, picture

pytestmark = pytest.mark.slow

OWNER = "owner@brand.test"


@pytest.fixture
def console(service, client):
    """Let the owner join the client's workspace; return the address of its console."""
    add_member(service, OWNER, client.workspace)
    yield f"{service.url}/console/{client.workspace}/sandbox"
    forget = f"Brand.objects.filter(workspace='{client.workspace}').delete()"
    imported = "from workspaces.models import Brand;"
    service.manage("shell", "-v", "0", "-c", imported + forget)


def test_face_is_set_and_seen(page, console, ask, service):
    log_in(page, service, OWNER)
    page.goto(f"{console}/settings/brand")
    logo = {"name": "logo.png", "mimeType": "image/png", "buffer": picture()}
    page.get_by_label("Logo", exact=True).set_input_files(logo)
    page.get_by_label("Colour of buttons").fill("#ffd100")
    page.get_by_label("in English").fill("Monday to Friday, 8 am to 5 pm")
    page.get_by_label("in Kiswahili").fill("Jumatatu hadi Ijumaa, saa 2 hadi 11")
    page.get_by_label("Hosts that pages").fill(HOST)
    page.get_by_label("Return address").fill(f"https://{HOST}/done")
    page.get_by_role("button", name="Preview").click()
    preview = page.frame_locator("iframe")
    expect(preview.get_by_text("Monday to Friday")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert", name="There is a problem")).to_be_focused()
    page.get_by_label("Colour of buttons").fill("#0a7a3c")
    page.get_by_label("Logo", exact=True).set_input_files(logo)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.", exact=True)).to_be_visible()

    page.goto(link_of(ask()))
    confirm(page)
    sees(page, "Acacia wants to check your details")
    sign(page)
    sees(page, "You agreed to the checks")
    back = page.get_by_role("link", name="Return to")
    assert back.get_attribute("href").startswith(f"https://{HOST}/done?report=")
