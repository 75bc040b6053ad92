"""The day of a credit officer, from a file of applicants to the figures of the day."""

import csv
import json
import re

import pytest
from django.utils.timezone import now
from playwright.sync_api import expect

from tests.batches.files import csv_file, xlsx_file
from tests.browser.conftest import PHONE
from tests.browser.people import log_in, make_member, reload_until
from tests.browser.test_consent import confirm, sees
from verification.values.local_time import NAIROBI

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OWNER, OFFICER, SECOND = (
    f"{name}@lender.test" for name in ("owner", "officer", "second")
)
HEADINGS = [
    "Full name",
    "ID number",
    "Date of birth",
    "E-mail address",
    "Your reference",
]
GIVEN = ["Achieng", "Barasa", "Chebet"]
FAMILY = ["Kamau", "Otieno"]
# Test numbers of a person with a bad loan, and of one with another name
BAD = {
    1: ("90000003", "Adverse information at a credit bureau"),
    4: ("90000002", "Details that differ from the register of persons"),
}
APPLICANTS = [
    [
        f"{given} {family}",
        BAD[number][0] if number in BAD else f"91{number:06}",
        "1990-03-27",
        f"applicant{number}@lender.test",
        f"LN-{number:02}",
    ]
    for number, (given, family) in enumerate(
        (given, family) for given in GIVEN for family in FAMILY
    )
]
WRONG = [[APPLICANTS[0][0], "", *APPLICANTS[0][2:]], *APPLICANTS[1:]]
# A workspace with two officers, a package, and a second member for declines
PREPARE = f"""
from django.contrib.auth.models import User
from verification.checks.models import CheckPackage
from verification.decisions.models import SecondMemberRule
from workspaces.models import Member, Workspace
workspace = User.objects.get(email={OWNER!r}).memberships.get().workspace
Workspace.objects.filter(pk=workspace.pk).update(decision_hours=24)
SecondMemberRule.objects.create(workspace=workspace, declines=True)
CheckPackage.objects.create(workspace=workspace, name="loan", display_name="Loan",
    checks=["IDENTITY", "CRB_SCORE"], price=120)
for email in {(OFFICER, SECOND)!r}:
    user = User.objects.get(email=email)
    Member.objects.create(workspace=workspace, user=user, role="OFFICER")
print(workspace.pk)
"""
# The links that applicants get, by their address
LINKS = """
import json
from verification.notifications.models import Notification
found = Notification.objects.filter(workspace_id="{}", cause__startswith="{}:")
print(json.dumps({{one.recipient: one.context["link"] for one in found}}))
"""
COUNT = "from verification.figures.daily import count_changed_days as c; c()"


def file_of(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def enter(page, service, email: str) -> None:
    log_in(page, service, email)
    page.wait_for_url(re.compile(f"^{service.url}/console/"))


def shell(service, script: str) -> str:
    return service.manage("shell", "-v", "0", "-c", script).strip()


def test_day_of_a_credit_officer(page, browser, service):
    for email in (OWNER, OFFICER, SECOND):
        make_member(service, email)
    workspace = shell(service, PREPARE).splitlines()[-1]
    console = f"{service.url}/console/{workspace}/sandbox"
    enter(page, service, OFFICER)
    page.goto(f"{console}/reports/")

    order_all(page)
    batch = page.url
    consent_on_phones(browser, links_of(service, workspace, "consent"))
    page.goto(batch)
    reload_until(page, page.get_by_text("6 of 6 reports have ended.").count)
    with page.expect_download() as download:
        page.get_by_role("link", name="Results as XLSX").click()
    assert download.value.suggested_filename.endswith(".xlsx")

    proposed = decline_the_bad(page, console)
    confirm_as_second(browser, service, console, proposed)
    read_notices(browser, links_of(service, workspace, "notice"))
    page.goto(proposed[0])
    expect(page.get_by_text("Opened by the person")).to_be_visible()
    approve_next(page, console)
    export_decisions(page, console, proposed)
    shell(service, COUNT)
    page.goto(f"{console}/figures/")
    expect(page.get_by_text("Reports ordered").first).to_be_visible()


def links_of(service, workspace: str, cause: str) -> dict[str, str]:
    printed = shell(service, LINKS.format(workspace, cause))
    found: dict[str, str] = json.loads(printed.splitlines()[-1])
    return found


def order_all(page) -> None:
    page.get_by_role("link", name="Order from a file").first.click()
    checks = page.get_by_role("heading", name="Checks", exact=True)
    expect(checks).to_be_visible()
    page.get_by_role("radio", name="Loan").check()
    expect(checks).to_be_hidden()
    page.get_by_role("button", name="Continue").click()
    wrong = file_of("applicants.csv", csv_file(HEADINGS, *WRONG))
    page.locator("input[type=file]").set_input_files([wrong])
    page.get_by_label("Purpose").fill("Loan application")
    page.get_by_role("button", name="Check the file").click()
    expect(page.get_by_text("1 row of 6 has errors")).to_be_visible()
    page.get_by_role("link", name="Send another file").click()
    right = file_of("applicants.xlsx", xlsx_file(HEADINGS, *APPLICANTS))
    page.locator("input[type=file]").set_input_files([right])
    page.get_by_role("button", name="Check the file").click()
    expect(page.get_by_text("6 rows without errors")).to_be_visible()
    page.get_by_role("button", name="Order 6 reports for KES 720.00").click()
    expect(page.get_by_text("0 of 6 reports have ended.")).to_be_visible()


def consent_on_phones(browser, links: dict[str, str]) -> None:
    """Let each applicant follow the link of their message and agree."""
    assert len(links) == len(APPLICANTS)
    for name, _id, _born, email, _reference in APPLICANTS:
        context = browser.new_context(viewport=PHONE)
        phone = context.new_page()
        phone.goto(links[email])
        confirm(phone)
        phone.locator("#id_name").fill(name)
        phone.get_by_role("checkbox").check()
        phone.locator("main button").click()
        sees(phone, "You agreed to the checks")
        context.close()


def decline_the_bad(page, console: str) -> list[str]:
    """Find both in the queue and propose to decline them; return their addresses."""
    last = page.locator("tbody tr").nth(len(APPLICANTS) - 1)
    page.goto(f"{console}/queue/")
    reload_until(page, last.count)
    proposed = []
    for number, (_id_number, reason) in BAD.items():
        page.goto(f"{console}/queue/")
        page.get_by_label("Search").fill(APPLICANTS[number][-1])
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody").get_by_role("button", name="Take").click()
        expect(page.get_by_text("has it now.")).to_be_visible()
        proposed.append(page.url)
        page.get_by_label("Decline", exact=True).check()
        if not page.get_by_label(reason).is_visible():
            page.locator("summary", has_text="reasons").click()
        page.get_by_label(reason).check()
        page.get_by_role("button", name="Decide", exact=True).click()
        page.get_by_role("button", name="Propose the decline").click()
        expect(page.get_by_text("It is proposed.")).to_be_visible()
        assert page.get_by_role("button", name="Confirm the decision").count() == 0
    return proposed


def confirm_as_second(browser, service, console: str, proposed: list[str]) -> None:
    """Let the other officer confirm what waits for them in the queue."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    enter(page, service, SECOND)
    page.goto(f"{console}/queue/?wait=second")
    expect(page.locator("tbody th a")).to_have_count(len(proposed))
    for address in proposed:
        page.goto(address)
        page.get_by_role("button", name="Confirm the decision").click()
        expect(page.get_by_role("heading", name="What follows")).to_be_visible()
        page.get_by_role("button", name="Decline").click()
        expect(page.get_by_text("The decision counts now.")).to_be_visible()
    context.close()


def read_notices(browser, links: dict[str, str]) -> None:
    """Let both declined applicants read the notice that they get."""
    assert set(links) == {APPLICANTS[number][3] for number in BAD}
    for number, (_id_number, reason) in BAD.items():
        context = browser.new_context(viewport=PHONE)
        phone = context.new_page()
        phone.goto(links[APPLICANTS[number][3]])
        confirm(phone)
        sees(phone, "Your application was declined")
        expect(phone.get_by_text(reason)).to_be_visible()
        context.close()


def approve_next(page, console: str) -> None:
    page.goto(f"{console}/queue/")
    page.get_by_role("button", name="Take the next one").click()
    page.get_by_label("Approve", exact=True).check()
    page.get_by_role("button", name="Decide", exact=True).click()
    expect(page.get_by_text("The decision counts now.")).to_be_visible()


def export_decisions(page, console: str, declined: list[str]) -> None:
    page.goto(f"{console}/exports/")
    page.get_by_label("What", exact=True).select_option("decisions")
    today = now().astimezone(NAIROBI).date()
    for label in ("From", "To"):
        page.get_by_label(label, exact=True).fill(f"{today}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export the file").click()
    with download.value.path().open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["status"] for row in rows) == ["APPROVED", "DECLINED", "DECLINED"]
    assert {row["reportId"] for row in rows if row["status"] == "DECLINED"} == {
        address.rpartition("/")[2] for address in declined
    }
