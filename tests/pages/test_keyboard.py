"""Where the focus of a keyboard is, and what a screen reader hears."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDTH
from tests.pages.walk import Walk
from tests.world.clients import Api, person
from tests.world.console import ConsoleVisitor
from tests.world.orders import CLEAR_PIN, SLOW, two_checks
from tests.world.waiting import until
from verification.checks.models import CheckResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
]
# Elements of which a bar covers the upper or lower edge while they have the focus
COVERED_STOPS = """() => [...document.querySelectorAll('main :is(a, input)')]
.filter(e => {
    if (!e.checkVisibility()) return false
    e.focus()
    const {left, right, top, bottom} = e.getBoundingClientRect()
    return [top + 1, bottom - 1].some(y => {
        const at = document.elementFromPoint((left + right) / 2, y)
        const bar = at?.closest('.top, thead, .chosen')
        return bar && !bar.contains(e)
    })
}).map(e => e.outerHTML.slice(0, 120))"""


def test_report_that_moves_on_says_so_and_keeps_focus_and_details(
    walk: Walk, page: Page, api: Api, owner: ConsoleVisitor
):
    report = api.create(two_checks(idNumber=SLOW, kraPin=CLEAR_PIN))["id"]
    walk.enter(owner.http)
    page.clock.install()
    page.goto(walk.root + owner.url("reports-detail", report=report))
    said = page.locator("#said").element_handle()
    # The content policy refuses what `wait_for_function` evaluates more than once.
    until(lambda: page.evaluate("Boolean(window.htmx)"))
    assert said.inner_text() == "Running, 0 of 2 completed"

    api.work()
    page.clock.fast_forward("01:00")

    expect(page.locator("#said")).to_have_text("Partly ready, 1 of 2 completed")
    assert said.evaluate("e => e.isConnected")
    summary = page.locator("#actions summary").first
    summary.press("Enter")
    old = page.locator("#refresh").element_handle()
    CheckResult.objects.filter(completed_at=None).update(tries=9)
    page.clock.fast_forward("01:00")
    until(lambda: page.evaluate("e => !e.isConnected", old))
    expect(page.locator("#actions details[open]")).to_have_count(1)
    expect(summary).to_be_focused()


def test_bars_cover_no_element_with_the_focus(
    walk: Walk, page: Page, api: Api, owner: ConsoleVisitor
):
    for _ in range(20):
        api.create(person())
    walk.enter(owner.http)
    for width in (800, 1280):
        page.set_viewport_size({"width": width, "height": 600})
        page.goto(walk.root + owner.url("reports"))
        page.locator("main .pick input").nth(1).check()
        assert page.evaluate(COVERED_STOPS) == [], width


def test_search_has_no_key_without_control(walk: Walk, page: Page, owner):
    walk.enter(owner.http)
    for path in (owner.url("dashboard"), "/docs/"):
        page.goto(walk.root + path)
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.localName") == "body"
        page.keyboard.press("Control+k")
        assert page.evaluate("document.activeElement.id") == "find"


def test_small_targets_have_24_pixels(walk: Walk, page: Page, api: Api, owner):
    api.create(person())
    walk.enter(owner.http)
    page.set_viewport_size(NARROW)
    page.goto(walk.root + owner.url("money"))
    for target in (".menu-button", ".rows a"):
        box = page.locator(target).first.bounding_box()
        assert box
        assert min(box["width"], box["height"]) >= 24, target
    assert page.evaluate(WIDTH) <= NARROW["width"]
