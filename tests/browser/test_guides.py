"""Tabs, Copy, filter and search of the docs, with and without a script."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DESK

pytestmark = pytest.mark.slow


def test_chosen_language_is_that_of_all_samples_and_of_the_next_page(page, service):
    page.goto(f"{service.url}/docs")
    page.get_by_role("radio", name="Python").first.check()

    expect(page.locator("pre.python:visible").nth(1)).to_be_visible()
    expect(page.locator("pre.curl:visible")).to_have_count(0)
    page.goto(f"{service.url}/docs/errors")
    expect(page.locator("pre.python").first).to_be_visible()


def test_copy_takes_the_code_that_is_shown(page, service):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{service.url}/docs/errors")
    page.get_by_role("radio", name="TypeScript").first.check()
    page.get_by_role("button", name="Copy").first.click()

    expect(page.get_by_role("status").first).to_have_text(", copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("pre.ts").first.inner_text().strip()


def test_operations_are_filtered_as_the_reader_types(page, service):
    page.set_viewport_size(DESK)
    page.goto(f"{service.url}/docs/reference/createReports")
    page.get_by_label("Filter operations").fill("quote")

    side = page.get_by_role("navigation", name="Documentation")
    expect(side.get_by_role("link")).to_have_text(["Quote reports POST"])
    page.get_by_label("Filter operations").press("Enter")
    page.get_by_role("main").get_by_role("link", name="Quote reports").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Quote reports")


def test_docs_work_without_a_script(browser, service):
    page = browser.new_context(viewport=DESK, java_script_enabled=False).new_page()
    page.goto(f"{service.url}/docs")
    page.get_by_role("radio", name="Python").first.check()
    expect(page.locator("pre.python:visible")).to_have_count(1)
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)

    search = page.get_by_role("searchbox", name="Search the docs")
    search.fill("webhook-signature")
    search.press("Enter")
    page.get_by_role("link", name="What arrives").click()
    expect(page.get_by_role("heading", name="What arrives")).to_be_in_viewport()
