"""Subjects with a phone look at what was found about them."""

import pytest

from tests.browser.test_consent import confirm, link_of, sees, sign, wait_for

pytestmark = pytest.mark.slow

HEAVY = ["IDENTITY", "KRA_PIN", "CRB_STANDARD", "CRB_FULL"]


def grant(page, ask, client, **members):
    """Let the subject consent and the checks run; return the report."""
    report = ask(**members)
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    sees(page, "You agreed to the checks")
    wait_for(client, report, "READY")
    return report


def test_subject_sees_what_was_found(page, ask, client):
    grant(page, ask, client, subject={"idNumber": "90000003"}, checksRequested=HEAVY)
    page.get_by_role("link", name="See what was found about you").click()
    sees(page, "What was found about you")
    for details in page.locator("details").all():
        details.locator("summary").click()
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Yaliyopatikana kukuhusu")
    page.get_by_role("link", name="English").click()
    for name, end in (("Save as PDF", ".pdf"), ("Save as JSON", ".json")):
        with page.expect_download() as saved:
            page.get_by_role("link", name=name).click()
        assert saved.value.suggested_filename.endswith(end)
