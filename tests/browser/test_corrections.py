"""A subject calls a finding wrong on a phone, and a member decides in the console."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import log_in, make_member, reload_until
from tests.browser.test_consent import confirm, link_of, sees, sign, wait_for
from tests.files.samples import pdf

pytestmark = pytest.mark.slow

OWNER = "owner@corrections.test"
JOIN = f"""
from django.contrib.auth.models import User
from workspaces.models import Member
user = User.objects.get(email={OWNER!r})
Member.objects.create(workspace_id="{{}}", user=user, role="OWNER")
"""
MISTYPED = "90000002"


def test_finding_is_disputed_and_corrected(page, ask, look, client, service):
    report = ask(subject={"idNumber": MISTYPED}, checksRequested=["IDENTITY"])
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    wait_for(client, report, "READY")
    data = f"{page.url}data/"
    page.goto(data)
    page.get_by_role("link", name="This is wrong").click()
    sees(page, "This is wrong")
    look("correction-form")
    file = {"name": "id.pdf", "mimeType": "application/pdf", "buffer": pdf()}
    page.get_by_label("Document 1").set_input_files(file)
    page.get_by_role("button", name="Send the correction").click()
    assert page.title().startswith("Error: ")
    look("correction-form-errors")
    page.get_by_label("What is wrong?").fill("The name is not mine.")
    page.get_by_label("What is right").fill("Two digits were swapped.")
    page.get_by_label("Document 1").set_input_files(file)
    page.get_by_role("button", name="Send the correction").click()
    sees(page, "What you said is wrong")
    look("correction-received")
    state = page.url
    page.goto(data)
    look("correction-on-the-data-page")
    page.goto(f"{data}?lang=sw")
    look("sw-correction-on-the-data-page")
    page.goto(f"{state}?lang=sw")
    look("sw-correction-received")
    page.get_by_role("button", name="Ondoa marekebisho").click()
    page.goto(data)
    page.get_by_role("link", name="Hii si sahihi").click()
    look("sw-correction-form")
    page.locator("main button").click()
    look("sw-correction-form-errors")
    page.locator("#id_what").fill("Jina si langu.")
    page.locator("#id_why").fill("Tarakimu mbili zimebadilishana.")
    page.locator("main button").click()
    sees(page, "Ulichosema si sahihi")
    page.goto(f"{data}?lang=en")

    make_member(service, OWNER)
    service.manage("shell", "-v", "0", "-c", JOIN.format(client.workspace))
    log_in(page, service, OWNER)
    page.goto(f"{service.url}/console/{client.workspace}/sandbox/corrections/")
    look("console-corrections")
    page.get_by_role("rowheader").first.get_by_role("link").click()
    look("console-correction")
    page.get_by_role("button", name="Take for review").click()
    page.get_by_role("link", name="Run the check again").click()
    look("console-correction-run")
    page.get_by_role("button", name="Run the check again").click()
    accept = page.get_by_role("button", name="Accept the new finding")
    reload_until(page, accept.is_visible)
    look("console-correction-run-again")
    page.get_by_label("Your reason").fill("Two digits were swapped.")
    accept.click()
    expect(page.get_by_text("Corrected", exact=True).first).to_be_visible()
    look("console-correction-decided")

    page.goto(state)
    page.goto(data)
    page.get_by_role("link", name=re.compile("^D-")).last.click()
    expect(page.get_by_text("Corrected: the check was made again")).to_be_visible()
    look("correction-decided")
