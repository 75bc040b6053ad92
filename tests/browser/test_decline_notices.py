"""A declined person reads why on a phone; a member hands over what no mail brings."""

import pytest
from playwright.sync_api import expect

from tests.browser.people import (
    log_in,
    make_member,
    read_in,
)
from tests.browser.test_consent import confirm, link_of, sees, wait_for
from tests.browser.test_corrections import JOIN
from tests.browser.test_subject_data import grant
from tests.world.clients import person
from verification.values.clock import now
from verification.values.local_time import NAIROBI

pytestmark = pytest.mark.slow

MEMBER = "member@notices.test"

DECIDE = (
    "from verification.decisions.decide import Maker, NewDecision, decide;"
    "from workspaces.models import ApiKey, Client, Workspace;"
    "w = Workspace.objects.get(pk='{workspace}');"
    "key = ApiKey.objects.filter(workspace=w).first();"
    "client = Client(w, w.accounts.get(environment='sandbox'), 'key of the test');"
    "new = NewDecision('DECLINED', ['ADVERSE_CREDIT']);"
    "decide(client, '{report}', new, Maker.of_key(key))"
)


def test_declined_person_reads_the_notice(page, ask, look, client, service):
    report = grant(page, ask, client, checksRequested=["CRB_SCORE"])
    wait_for(client, report, "READY")
    done = DECIDE.format(workspace=client.workspace, report=report["id"])
    service.manage("shell", "-v", "0", "-c", done)

    page.goto(f"{link_of(report)}/notice")
    sees(page, "Confirm that it is you")
    confirm(page)
    sees(page, "Your application was declined")
    look("data-notice")
    read_in(page, "Kiswahili")
    sees(page, "Ombi lako lilikataliwa")
    look("sw-data-notice")
    read_in(page, "English")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as PDF").click()
    assert saved.value.suggested_filename.startswith("N-")
    page.get_by_role("link", name="This is wrong").click()
    sees(page, "This is wrong")


def test_member_hands_over_what_no_message_delivers(page, look, own_client, service):
    (report,) = own_client.order(person(email=None))
    wait_for(own_client, report, "READY")
    done = DECIDE.format(workspace=own_client.workspace, report=report["id"])
    service.manage("shell", "-v", "0", "-c", done)
    make_member(service, MEMBER)
    join = JOIN.replace("owner@corrections.test", MEMBER)
    service.manage("shell", "-v", "0", "-c", join.format(own_client.workspace))
    log_in(page, service, MEMBER)

    page.goto(f"{service.url}/console/{own_client.workspace}/sandbox/")
    page.get_by_role("link", name="notice of a decline to deliver").first.click()
    look("console-notices")
    page.locator("tbody a").click()
    page.get_by_label("Handed over by").fill("Peter Otieno")
    page.get_by_label("Handed over on").fill(f"{now().astimezone(NAIROBI):%Y-%m-%d}")
    page.get_by_role("button", name="Record the hand-over").click()
    expect(page.get_by_text("The hand-over is recorded.")).to_be_visible()

    page.goto(f"{service.url}/console/{own_client.workspace}/sandbox/queue/notices")
    expect(page.get_by_text("Every notice has been delivered.")).to_be_visible()
    page.goto(page.url + "?lang=sw")
    look("sw-console-notices-none")
