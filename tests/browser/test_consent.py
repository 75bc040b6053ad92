"""Subjects with a phone decide about a request."""

import pytest
from playwright.sync_api import expect

from tests.world.waiting import until

pytestmark = pytest.mark.slow

NAME = "Wanjiku Kamau"


def link_of(report):
    return report["consentState"]["consentUrl"]


def confirm(page, day="27", month="3", year="1990"):
    page.locator("#id_day").fill(day)
    page.locator("#id_month").fill(month)
    page.locator("#id_year").fill(year)
    page.locator("main button").click()


def sign(page):
    page.locator("#id_name").fill(NAME)
    page.get_by_role("checkbox").check()
    page.locator("main button").click()


def sees(page, heading):
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def wait_for(client, report, status):
    until(lambda: client.status(report["id"]) == status)


def test_subject_grants_and_the_report_is_made(page, ask, client):
    report = ask()
    page.goto(link_of(report))
    sees(page, "Confirm that it is you")
    assert link_of(report).rsplit("/", 1)[1] not in page.url + page.content()

    confirm(page)
    sees(page, "Acacia wants to check your details")
    page.get_by_text("Read the full notice").click()
    page.locator("main button").click()
    assert page.title().startswith("Error: ")
    page.get_by_role("link", name="Type your full name").click()
    expect(page.locator("#id_name")).to_be_focused()

    sign(page)
    sees(page, "You agreed to the checks")
    page.emulate_media(media="print")
    expect(page.get_by_role("link", name="Save the receipt")).to_be_hidden()
    page.emulate_media(media="screen")
    wait_for(client, report, "READY")
    for _ in range(2):
        page.go_back()
        sees(page, "You agreed to the checks")


def test_both_buttons_weigh_the_same(page, ask):
    page.goto(link_of(ask()))
    confirm(page)

    yes = page.get_by_role("button", name="I agree")
    no = page.get_by_role("link", name="I do not agree")

    looks = "e => { const s = getComputedStyle(e); return [s.fontSize, s.fontWeight,"
    looks += " s.color, s.backgroundColor, s.borderColor, s.padding] }"
    assert yes.evaluate(looks) == no.evaluate(looks)
    for side in ("width", "height"):
        assert yes.bounding_box()[side] == no.bounding_box()[side]


def test_subject_reads_kiswahili(page, ask):
    page.goto(link_of(ask()))
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Thibitisha kuwa ni wewe")
    confirm(page)
    sees(page, "Acacia inataka kuhakiki taarifa zako")

    page.locator("main button").click()
    assert page.title().startswith("Kosa: ")
    page.get_by_role("link", name="English").click()
    sees(page, "Acacia wants to check your details")
    page.get_by_role("link", name="Kiswahili").click()
    sign(page)

    sees(page, "Ulikubali ukaguzi")


def tab_to(page, selector):
    for _ in range(25):
        page.keyboard.press("Tab")
        if page.locator(selector).evaluate("e => e === document.activeElement"):
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def test_keyboard_is_enough(page, ask):
    page.goto(link_of(ask()))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    for selector, typed in (
        ("#id_day", "27"),
        ("#id_month", "3"),
        ("#id_year", "1990"),
    ):
        tab_to(page, selector)
        page.keyboard.type(typed)
    page.keyboard.press("Enter")
    sees(page, "Acacia wants to check your details")

    tab_to(page, "summary")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Decisions by computers")).to_be_visible()
    tab_to(page, "#id_name")
    page.keyboard.type(NAME)
    tab_to(page, "#id_agreed")
    page.keyboard.press("Space")
    tab_to(page, "main button")
    page.keyboard.press("Enter")

    sees(page, "You agreed to the checks")


def test_no_page_needs_scripts(new_context, ask):
    page = new_context(java_script_enabled=False).new_page()
    page.goto(link_of(ask()))
    confirm(page)
    page.get_by_text("Read the full notice").click()
    sign(page)
    sees(page, "You agreed to the checks")

    page.get_by_role("link", name="Withdraw my consent").click()
    page.get_by_role("button", name="Withdraw my consent").click()
    sees(page, "You withdrew your consent")


def test_two_links_in_two_tabs_do_not_mix(page, context, ask):
    another = context.new_page()
    page.goto(link_of(ask(purpose="Loan application")))
    another.goto(link_of(ask(purpose="Tenancy")))
    confirm(page)
    confirm(another)
    expect(page.get_by_text("Loan application")).to_be_visible()
    expect(another.get_by_text("Tenancy")).to_be_visible()

    sign(page)

    sees(page, "You agreed to the checks")
    another.reload()
    sees(another, "Acacia wants to check your details")
