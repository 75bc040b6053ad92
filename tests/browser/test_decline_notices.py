"""A declined person reads why on a phone, and asks for a correction."""

import pytest

from tests.browser.test_consent import confirm, link_of, sees, wait_for
from tests.browser.test_subject_data import grant

pytestmark = pytest.mark.slow

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
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Ombi lako lilikataliwa")
    look("sw-data-notice")
    page.get_by_role("link", name="English").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="document (PDF)").click()
    assert saved.value.suggested_filename.startswith("N-")
    page.get_by_role("link", name="This is wrong").click()
    sees(page, "This is wrong")
