"""A member orders from a file of a branch, mends a cell, and follows the reports."""

import re

import pytest
from playwright.sync_api import expect

from tests.batches.files import csv_file
from tests.browser.people import log_in, make_member
from tests.browser.test_orders import press, tab_to

pytestmark = pytest.mark.slow

APPLICANTS = [[f"{n}", f"Applicant {n}", f"9000{n:04}", f"M{n}"] for n in range(20)]
FILE = csv_file(
    ["Loans of November"],
    ["S/No", "Name", "National ID No.", "Shirt"],
    [*APPLICANTS[0][:2], "", "M0"],
    *APPLICANTS[1:],
    ["", "Total", "", ""],
)


def file_of(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def test_officer_orders_twenty_by_a_file(page, service, look):
    make_member(service, "officer@batches.test")
    log_in(page, service, "officer@batches.test")
    page.wait_for_url(re.compile("/console/.*/sandbox/"))
    press(page, "Menu")
    press(page, "Reports", "link")
    page.wait_for_url(re.compile("/reports/$"))
    press(page, "Order from a file", "link")
    expect(page.get_by_text("All rows of the file get the same checks")).to_be_visible()
    look("batch-01-checks")
    tab_to(page, page.get_by_label("National identity"))
    page.keyboard.press("Space")
    press(page, "Continue")

    expect(page.get_by_text("Any headings will do")).to_be_visible()
    look("batch-02-file")
    page.get_by_text("What the file needs, and a template").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Template as XLSX").click()
    assert download.value.suggested_filename == "template.xlsx"
    press(page, "Check the file")
    expect(page.get_by_text("The file: Choose a file")).to_be_visible()
    look("batch-03-no-file")
    applicants = file_of("applicants.csv", FILE)
    page.locator("input[type=file]").set_input_files([applicants])
    page.get_by_label("Purpose").fill("Loan application")
    press(page, "Check the file")

    expect(page.get_by_role("heading", name="Check the columns")).to_be_visible()
    look("batch-04-columns")
    page.get_by_label("Shirt").select_option("Your reference")
    press(page, "Continue")
    expect(page.get_by_text("1 row of 20 has errors")).to_be_visible()
    look("batch-05-faults")
    press(page, "Row 3, ID number: This is needed", "link")
    cell = page.get_by_label("National ID No., row 3")
    expect(cell).to_be_focused()
    page.keyboard.type("90000000")
    press(page, "Check again")

    expect(page.get_by_text("20 rows without errors")).to_be_visible()
    look("batch-06-quote")
    press(page, "Order 20 reports for KES 1,000.00")
    expect(page.get_by_text("Reports ordered: 20.")).to_be_visible()
    expect(page.get_by_text("0 of 20 reports have ended.")).to_be_visible()
    look("batch-07-progress")
    with page.expect_download() as download:
        page.get_by_role("link", name="Results as CSV").click()
    assert download.value.suggested_filename.startswith("results-")
    page.goto(f"{page.url.rpartition('/')[0]}/")
    expect(page.get_by_role("link", name="Order from a file")).to_be_visible()
    look("batch-08-files")
