"""Subjects with a phone look at what was found about them."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_consent import confirm, link_of, sees, shell, sign, wait_for

pytestmark = pytest.mark.slow

HEAVY = ["IDENTITY", "KRA_PIN", "CRB_STANDARD", "CRB_FULL"]
CODE = (
    "from verification.notifications.models import Notification as N;"
    "print(N.objects.filter(kind='ACCESS_CODE').latest('id').context['code'])"
)
ERASE = (
    "from django.utils.timezone import now;"
    "from verification.privacy.personal_data import erase_reports;"
    "erase_reports([{id!r}], now())"
)


def grant(page, ask, client, **members):
    """Let the subject consent and the checks run; return the report."""
    report = ask(**members)
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    sees(page, "You agreed to the checks")
    wait_for(client, report, "READY")
    return report


def test_subject_sees_what_was_found(page, ask, look, client):
    grant(page, ask, client, subject={"idNumber": "90000003"}, checksRequested=HEAVY)
    page.get_by_role("link", name="See what was found about you").click()
    sees(page, "What was found about you")
    look("data-found")
    for details in page.locator("details").all():
        details.locator("summary").click()
    look("data-found-details")
    page.get_by_role("link", name="Kiswahili").click()
    look("sw-data-found")
    sees(page, "Yaliyopatikana kukuhusu")
    page.get_by_role("link", name="English").click()
    for name, end in (("Save as PDF", ".pdf"), ("Save as JSON", ".json")):
        with page.expect_download() as saved:
            page.get_by_role("link", name=name).click()
        assert saved.value.suggested_filename.endswith(end)


def test_subject_proves_who_they_are(
    page, ask, look_in_both, service, client, let_get_messages
):
    let_get_messages("wanjiku@data.test")
    report = ask(draft=True, subject={"email": "wanjiku@data.test"})
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET status = 'EXPIRED' WHERE report_id = %s",
            [report["id"]],
        )
    page.goto(link_of(report))
    expect(page.get_by_text("This page shows what was found")).to_be_visible()
    look_in_both("data-challenge")
    confirm(page)
    sees(page, "Enter the code that we sent you")
    look_in_both("data-code")

    page.get_by_label("The code").fill(service.manage("shell", "-v", "0", "-c", CODE))
    page.get_by_role("button", name="Continue").click()

    sees(page, "What was found about you")


def test_data_that_cannot_be_shown_says_why(page, ask, look_in_both, service, client):
    report = grant(page, ask, client)
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET mode = 'CUSTOMER_ATTESTED',"
            " status = 'ATTESTED', is_erased = true,"
            " expires_at = now() - interval '1 hour' WHERE report_id = %s",
            [report["id"]],
        )
    page.goto(link_of(report))
    sees(page, "This link has expired")
    look_in_both("data-expired")
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET expires_at = now() + interval '1 hour'"
            " WHERE report_id = %s",
            [report["id"]],
        )
    shell(service, FORGET, report)
    page.reload()
    sees(page, "We cannot tell that it is you")
    look_in_both("data-unproved")
    shell(service, ERASE, report)
    page.reload()
    sees(page, "Your details were deleted")
    look_in_both("data-erased")


FORGET = (
    "from verification.reports.models import Report;"
    "report = Report.objects.get(pk={id!r});"
    "report.subject = {{'subjectType': 'INDIVIDUAL', 'fullName': 'Wanjiku Kamau'}};"
    "report.save()"
)


def test_person_asks_for_their_data(page, look, look_in_both, service):
    page.goto(f"{service.url}/my-data")
    sees(page, "See my data")
    look_in_both("my-data")
    page.goto(f"{service.url}/my-data?lang=sw")
    page.locator("main button").click()
    assert page.title().startswith("Kosa: ")
    look("sw-my-data-errors")
    page.get_by_role("link", name="English").click()
    page.locator("main button").click()
    look("my-data-errors")
    page.get_by_label("Number of your ID card").fill("12345678")
    page.get_by_label("Your e-mail address").fill("wanjiku@kamau.test")
    page.get_by_role("button", name="Send me the links").click()

    sees(page, "Look for our message")
    look_in_both("my-data-sent")
    sees(page, "Look for our message")
