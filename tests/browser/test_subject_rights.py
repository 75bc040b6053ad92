"""Subjects with a phone object, have everything deleted, and correct findings."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE
from tests.browser.test_consent import link_of, sees
from tests.browser.test_subject_data import grant
from tests.files.samples import pdf
from tests.world.waiting import until

pytestmark = pytest.mark.slow

HOLD = """INSERT INTO privacy_hold (id, report_id, reason, ends_at, held_by, created_at,
    released_by) VALUES (gen_random_uuid(), %s, 'Case 7', now() + interval '1 day',
    'staff', now(), '')"""
RELEASE = (
    "UPDATE privacy_hold SET released_at = now(), released_by = 'staff'"
    " WHERE report_id = %s"
)
# A person in each test: the page of one shows all reports about them.
OBJECTOR, TYPIST = ({"idNumber": f"7130000{n}"} for n in range(2))
DONE = "Your details were deleted"
# The text of the label or of the element itself
FOCUSED = "e => (e.labels?.[0] ?? e).innerText"
OUTLINE = "e => getComputedStyle(e).outlineStyle"


def follow(page, name):
    page.get_by_role("link", name=name).click()


def press(page, name):
    page.get_by_role("button", name=name).click()


def wait_for_the_end(page):
    """Press the button of the page until the erasure has ended."""
    page.wait_for_url("**/data/deletion*")
    again = page.get_by_role("link", name="Check again")

    def is_done():
        if again.is_visible():
            again.click()
        return not again.is_visible()

    until(is_done)
    sees(page, DONE)


def test_subject_objects_and_has_everything_deleted(page, ask, client, service):
    report = grant(page, ask, client, subject=OBJECTOR)
    follow(page, "See what was found about you")
    follow(page, "Object to further use")
    press(page, "I object")
    sees(page, "You objected")
    follow(page, "See what was found about you")
    expect(page.get_by_text("You objected on")).to_be_visible()

    with service.connect() as connection:
        connection.execute(HOLD, [report["id"]])
    follow(page, "Delete everything about me")
    press(page, "Delete everything about me")
    sees(page, "We cannot delete your details now")

    with service.connect() as connection:
        connection.execute(RELEASE, [report["id"]])
    page.goto(page.url.replace("held", "delete"))
    # The page before the end of the erasure
    service.kill_jobs()
    press(page, "Delete everything about me")
    sees(page, "We are deleting your details")
    service.start_jobs()
    wait_for_the_end(page)
    for name, end in (("certificate (PDF)", ".pdf"), ("its signature (JSON)", ".json")):
        with page.expect_download() as saved:
            follow(page, name)
        assert saved.value.suggested_filename.endswith(end)

    # The pages since the objection, which showed details before
    for _ in range(4):
        page.go_back()
        assert "Wanjiku" not in page.content()
        assert OBJECTOR["idNumber"] not in page.content()
        sees(page, DONE)


def test_subject_deletes_by_keyboard_without_javascript(
    page, browser, ask, client, service
):
    """A correction on the way: the form and its document need no script either."""
    report = grant(page, ask, client, subject=TYPIST, checksRequested=["IDENTITY"])
    page = browser.new_context(java_script_enabled=False, viewport=PHONE).new_page()
    # The browser passes choosers on from a moment after the first listener.
    page.on("filechooser", lambda chooser: None)
    page.goto(link_of(report))

    def reach(name):
        """Press Tab until the control with this text or label shows the focus."""
        for _ in range(40):
            page.keyboard.press("Tab")
            focus = page.locator(":focus")
            if focus.count() and focus.evaluate(FOCUSED).startswith(name):
                assert focus.evaluate(OUTLINE) != "none"
                return
        raise AssertionError(f"no {name} on {page.url}")

    for name, text in (("Day", "27"), ("Month", "3"), ("Year", "1990")):
        reach(name)
        page.keyboard.type(text)
    page.keyboard.press("Enter")
    sees(page, "You agreed to the checks")
    reach("See what was found about you")
    page.keyboard.press("Enter")
    sees(page, "What was found about you")
    reach("The details")
    page.keyboard.press("Enter")
    expect(page.locator("details").first).to_have_attribute("open", "")
    reach("This is wrong")
    page.keyboard.press("Enter")
    sees(page, "This is wrong")
    for name in ("What is wrong?", "What is right"):
        reach(name)
        page.keyboard.type("Two digits were swapped.")
    reach("Document 1")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    file = {"name": "id.pdf", "mimeType": "application/pdf", "buffer": pdf()}
    chooser.value.set_files(file)
    reach("Send the correction")
    page.keyboard.press("Enter")
    sees(page, "What you said is wrong")
    expect(page.get_by_text("id.pdf")).to_be_visible()
    reach("Back to what was found")
    page.keyboard.press("Enter")
    reach("Delete everything about me")
    page.keyboard.press("Enter")
    sees(page, "Delete everything about you?")
    reach("Delete everything about me")
    page.keyboard.press("Enter")

    wait_for_the_end(page)
    page.context.close()
