"""Referees with a phone answer or decline."""

from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.service.conftest import Client
from tests.world.employer import employment_item
from tests.world.waiting import until
from verification import links

pytestmark = pytest.mark.slow

FIND = "SELECT id, generation, status FROM references_reference WHERE report_id = %s"


@pytest.fixture(scope="module")
def employer_client(service):
    """Return a client with money and real references."""
    client = Client(service, "production")
    service.manage(
        "top_up", client.workspace, "--environment=production", "--amount=100000"
    )
    return client


@pytest.fixture
def asked(service, employer_client):
    """Return a function that orders a report; it returns report and link."""

    def ask():
        # Another person each time, as the service reuses an answer.
        (report,) = employer_client.order(
            employment_item(idNumber=f"{uuid4().int % 10**9}")
        )
        with service.connect() as db:
            asked = until(lambda: db.execute(FIND, [report["id"]]).fetchone())
        token = links.token("reference", asked[0], asked[1])
        return report, f"{service.url}/r/{token}"

    return ask


def fill(page, legend, **parts):
    group = page.get_by_role("group", name=legend)
    for name, value in parts.items():
        group.get_by_label(name.title()).fill(value)


def seen(page, heading):
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def test_referee_answers_and_the_report_is_made(page, asked, employer_client):
    report, link = asked()
    page.goto(link)
    seen(page, "A reference for Wanjiku Kamau")
    assert "/r/v/" in page.url

    page.get_by_role("button", name="Send my answers").click()
    expect(page.get_by_role("alert")).to_contain_text("There is a problem")
    expect(page.get_by_role("alert")).to_be_focused()
    page.get_by_role("link", name="Say whether they worked there").click()
    expect(page.get_by_role("radio", name="Yes").first).to_be_focused()

    page.get_by_role("group", name="Did Wanjiku").get_by_label("Yes").check()
    page.get_by_label("Name of the employer").fill("Baraka Logistics Limited")
    page.get_by_label("Their job title").fill("Fleet manager")
    fill(page, "First day", month="3", year="2019")
    fill(page, "Last day", day="30", month="6", year="2023")
    page.get_by_role("group", name="Would the employer").get_by_label("Yes").check()
    page.get_by_label("Your job title").fill("Head of Operations")
    page.get_by_role("checkbox", name="I may answer").check()
    page.get_by_role("button", name="Send my answers").click()

    seen(page, "Thank you for your answers")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the receipt").click()
    assert saved.value.suggested_filename.startswith("receipt-R-")
    until(lambda: employer_client.status(report["id"]) == "READY")


def test_first_screen_of_a_phone_has_the_first_question(page, asked):
    page.set_viewport_size({"width": 390, "height": 844})
    _, link = asked()
    page.goto(link)

    question = page.get_by_role("group", name="Did Wanjiku Kamau work at")

    box = question.bounding_box()
    assert box["y"] + box["height"] < 844


def test_referee_declines_in_kiswahili(page, asked):
    _, link = asked()
    page.goto(link)
    page.get_by_role("link", name="Kiswahili").click()
    seen(page, "Uthibitisho wa kazi wa Wanjiku Kamau")
    page.get_by_role("link", name="Siwezi kujibu").click()
    page.get_by_role("button", name="Siwezi kujibu").click()

    seen(page, "Ulikataa kujibu")


def test_referee_needs_neither_script_nor_mouse(browser, asked):
    page = browser.new_context(java_script_enabled=False).new_page()
    _, link = asked()
    page.goto(link)
    page.locator("#id_employed_2").focus()
    page.keyboard.press("Space")
    page.get_by_label("Your job title").fill("Head of Operations")
    page.get_by_role("checkbox", name="I may answer").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Send my answers").focus()
    page.keyboard.press("Enter")

    seen(page, "Thank you for your answers")
