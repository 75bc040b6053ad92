"""A subject calls a finding wrong on a phone, and a member decides in the console."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import add_member, log_in, reload_until
from tests.browser.test_consent import confirm, link_of, sees, sign, wait_for
from tests.files.samples import pdf

pytestmark = pytest.mark.slow

OWNER = "owner@corrections.test"
MISTYPED = "90000002"


def test_finding_is_disputed_and_corrected(page, ask, client, service):
    report = ask(subject={"idNumber": MISTYPED}, checksRequested=["IDENTITY"])
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    wait_for(client, report, "READY")
    data = f"{page.url}data/"
    page.goto(data)
    page.get_by_role("link", name="This is wrong").click()
    sees(page, "This is wrong")
    file = {"name": "id.pdf", "mimeType": "application/pdf", "buffer": pdf()}
    page.get_by_label("Document 1").set_input_files(file)
    page.get_by_role("button", name="Send the correction").click()
    assert page.title().startswith("Error: ")
    page.get_by_label("What is wrong?").fill("The name is not mine.")
    page.get_by_label("What is right").fill("Two digits were swapped.")
    page.get_by_label("Document 1").set_input_files(file)
    page.get_by_role("button", name="Send the correction").click()
    sees(page, "What you said is wrong")
    state = page.url

    add_member(service, OWNER, client.workspace)
    log_in(page, service, OWNER)
    page.goto(f"{service.url}/console/{client.workspace}/sandbox/corrections/")
    page.get_by_role("rowheader").first.get_by_role("link").click()
    page.get_by_role("button", name="Take for review").click()
    page.get_by_role("link", name="Run the check again").click()
    page.get_by_role("button", name="Run the check again").click()
    accept = page.get_by_role("button", name="Accept the new finding")
    reload_until(page, accept.is_visible)
    page.get_by_label("Your reason").fill("Two digits were swapped.")
    accept.click()
    expect(page.get_by_text("Corrected", exact=True).first).to_be_visible()

    page.goto(state)
    expect(page.get_by_text("Corrected: the check was made again")).to_be_visible()
