"""A member orders many reports by a file, puts a wrong row right, and follows them."""

import re

import pytest
from playwright.sync_api import expect

from tests.batches.files import csv_file, xlsx_file
from tests.browser.people import (
    log_in,
    make_member,
    read_in,
)
from tests.browser.test_orders import press, tab_to

pytestmark = pytest.mark.slow

HEADINGS = ["Full name", "ID number", "Your reference"]
APPLICANTS = [[f"Applicant {n}", f"9000{n:04}", f"LN-{n}"] for n in range(20)]
WRONG = [[*APPLICANTS[0][:1], "", "LN-0"], *APPLICANTS[1:]]


def file_of(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def test_officer_orders_twenty_by_a_file(page, service, look):
    make_member(service, "officer@batches.test")
    log_in(page, service, "officer@batches.test")
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    press(page, "Reports", "link")
    page.wait_for_url(re.compile("/reports/$"))
    press(page, "Order from a file", "link")
    expect(page.get_by_text("Step 1 of 3")).to_be_visible()
    look("batch-01-checks")
    tab_to(page, page.get_by_label("National identity"))
    page.keyboard.press("Space")
    press(page, "Go on to the file")

    expect(page.get_by_text("Step 2 of 3")).to_be_visible()
    look("batch-02-file")
    with page.expect_download() as download:
        page.get_by_role("link", name="Template as XLSX").click()
    assert download.value.suggested_filename == "template.xlsx"
    press(page, "Send the file")
    expect(page.get_by_text("The file: Choose a file")).to_be_visible()
    look("batch-03-no-file")
    wrong = file_of("applicants.csv", csv_file(HEADINGS, *WRONG))
    page.locator("input[type=file]").set_input_files([wrong])
    page.get_by_label("Purpose").fill("Loan application")
    press(page, "Send the file")

    expect(page.get_by_text("1 row of 20 has faults")).to_be_visible()
    look("batch-04-faults")
    press(page, "Row 2, ID number: This is needed", "link")
    cell = page.locator("#row-2-1")
    expect(cell).to_be_focused()
    press(page, "Send the file again", "link")
    right = file_of("applicants.xlsx", xlsx_file(HEADINGS, *APPLICANTS))
    page.locator("input[type=file]").set_input_files([right])
    page.get_by_label("Purpose").fill("Loan application")
    press(page, "Send the file")

    expect(page.get_by_text("20 rows without a fault")).to_be_visible()
    look("batch-05-quote")
    press(page, "Order all for KES 1,000.00")
    expect(page.get_by_text("All rows are ordered.")).to_be_visible()
    expect(page.get_by_text("0 of 20 reports have ended.")).to_be_visible()
    look("batch-06-progress")
    with page.expect_download() as download:
        page.get_by_role("link", name="Results as CSV").click()
    assert download.value.suggested_filename.startswith("results-")
    press(page, "Look again", "link")
    page.goto(f"{page.url.rpartition('/')[0]}/")
    expect(page.get_by_role("link", name="Order many reports")).to_be_visible()
    look("batch-07-files")
    read_in(page, "Kiswahili")
    look("sw-batch-files")
