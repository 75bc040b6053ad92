"""The jobs of a member's day: order, order by a file, find a person, and decide.

Each is done by the keyboard at a desk, by touch on a phone, and without JavaScript, in
few clicks. A key that opens, chooses or sends something counts as one; typing does not.
"""

import re
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.batches.files import csv_file
from tests.browser.conftest import DESK
from tests.browser.people import add_member, log_in, reload_until
from tests.world.clients import person

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PHONE = {"width": 390, "height": 844}
PEOPLE = [[f"Applicant {n}", f"91{n:06}", f"LN-{n}"] for n in range(200)]
FILE = {
    "name": "applicants.csv",
    "mimeType": "text/csv",
    "buffer": csv_file(["Full name", "ID number", "Your reference"], *PEOPLE),
}
HAS_FOCUS = "element => element === document.activeElement"
# A radio button of the group that the element is in has the focus.
IS_IN_GROUP = """element => element.type === 'radio'
    && document.activeElement.name === element.name"""
ALT = 1


class Hands:
    """A member without JavaScript, who clicks."""

    has_scripts = False

    def __init__(self, page):
        self.page = page
        self.clicks = 0
        # The browser passes choosers on from a moment after the first listener.
        page.on("filechooser", lambda chooser: None)

    @contextmanager
    def at_most(self, clicks):
        """Fail if the job in this block takes more clicks."""
        before = self.clicks
        yield
        assert self.clicks - before <= clicks

    def field(self, label):
        """Return the field, whose label may go on with a price or a hint."""
        start = re.compile(rf"^\s*{re.escape(label)}")
        return (
            self.page.locator("label", has_text=start)
            .locator("input, textarea")
            .or_(self.page.get_by_label(label, exact=True))
            .first
        )

    def act(self, element):
        self.clicks += 1
        element.click()

    def choose(self, label):
        self.act(self.field(label))
        expect(self.field(label)).to_be_checked()

    def write(self, label, text):
        self.field(label).fill(text)

    def press(self, name, role="button"):
        self.act(self.page.get_by_role(role, name=name).locator("visible=true").first)

    def give(self, file):
        with self.page.expect_file_chooser() as chooser:
            self.act(self.page.locator("input[type=file]"))
        chooser.value.set_files([file])

    def search(self, text):
        """Search for the text; return the place of the matches."""
        self.act(self.page.locator("#find"))
        return self.list_found(text)

    def list_found(self, text):
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(re.compile(r"/reports/(.*search=|[0-9a-f-]{36}$)"))
        return self.page.get_by_role("main")


class Fingers(Hands):
    """A member who taps on a phone."""

    has_scripts = True

    def act(self, element):
        self.clicks += 1
        element.tap()

    def search(self, text):
        self.press("Find a report", "link")
        expect(self.page.get_by_label("Search")).to_be_focused()
        return self.list_found(text)


class Keys(Hands):
    """A member without a mouse."""

    has_scripts = True

    def reach(self, element, is_there=HAS_FOCUS):
        """Press Tab until the element has the focus."""
        for _ in range(120):
            if element.evaluate(is_there):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not reach {element}")

    def act(self, element):
        self.clicks += 1
        self.reach(element)
        self.page.keyboard.press("Enter")

    def choose(self, label):
        self.clicks += 1
        field = self.field(label)
        self.reach(field, f"e => ({HAS_FOCUS})(e) || ({IS_IN_GROUP})(e)")
        self.page.keyboard.press("Space")
        for _ in range(20):
            if field.is_checked():
                return
            self.page.keyboard.press("ArrowDown")
        raise AssertionError(f"the keyboard does not choose {field}")

    def write(self, label, text):
        self.reach(self.field(label))
        self.page.keyboard.type(text)

    def search(self, text):
        self.clicks += 1
        self.page.keyboard.press("Control+k")
        self.page.keyboard.type(text)
        return self.page.locator("#found")


WAYS = {
    "keyboard": (Keys, {"viewport": DESK}),
    "touch": (Fingers, {"viewport": PHONE, "has_touch": True, "is_mobile": True}),
    "no-scripts": (Hands, {"viewport": DESK, "java_script_enabled": False}),
}


def enter(page, service, client, email, **settings):
    """Log a new officer of the client in, whose workspace gets these settings."""
    add_member(service, email, client.workspace, "OFFICER", **settings)
    log_in(page, service, email)
    page.wait_for_url(re.compile("/console/.*/sandbox/"))


@pytest.fixture(params=WAYS)
def hands(browser, service, own_client, request):
    """Return the hands of an officer whose workspace decides within a day."""
    kind, options = WAYS[request.param]
    page = browser.new_context(locale="en-KE", **options).new_page()
    enter(page, service, own_client, f"{request.param}@jobs.test", decision_hours=24)
    yield kind(page)
    page.context.close()


def test_jobs_of_a_day_take_few_clicks(hands, own_client):
    home = hands.page.url
    # The notice of a decline goes to the address.
    reached = {"fullName": "Baraka Otieno", "email": "baraka@jobs.test"}
    bad = person(idNumber="90000003", **reached)
    own_client.order(person(fullName="Amina Said"), bad)
    with hands.at_most(5):
        order_one(hands)
    hands.page.goto(home)
    with hands.at_most(6):
        order_file(hands)
    hands.page.goto(home)
    with hands.at_most(1):
        found = hands.search("Amina Said")
        expect(found.get_by_text("Amina Said", exact=True).first).to_be_visible()
    hands.page.goto(f"{home}queue/")
    reload_until(hands.page, lambda: hands.page.locator("tbody tr").count() == 2)
    with hands.at_most(4):
        decline(hands, "Baraka Otieno")
    expect(hands.page.get_by_text("This is the next case.")).to_be_visible()
    approve(hands)
    hands.page.goto(f"{home}queue/")
    expect(hands.page.get_by_text("No report needs a decision.")).to_be_visible()


def order_one(hands) -> None:
    hands.press("Order a report", "link")
    hands.choose("National identity")
    if not hands.has_scripts:
        hands.press("Update")
    # The fields and the price follow the choice.
    expect(hands.field("ID number")).to_be_visible()
    if hands.has_scripts:
        expect(hands.field("National identity")).to_be_focused()
    hands.press("Order for KES 50.00")
    expect(hands.page.get_by_role("link", name="Fill in “ID number”")).to_be_visible()
    hands.write("Full name", "Wanjiku Kamau")
    hands.write("ID number", "90000000")
    hands.write("E-mail address (optional)", "wanjiku@kamau.test")
    hands.write("Purpose", "Loan application")
    if hands.has_scripts:
        # The price follows the form.
        expect(hands.page.get_by_text("Every check runs, even")).to_be_visible()
    hands.press("Order for KES 50.00")
    expect(hands.page.get_by_text("Ordered for KES 50.00.")).to_be_visible()
    expect(hands.page.get_by_text("Waiting for consent").first).to_be_visible()


def order_file(hands) -> None:
    hands.press("Order from a file", "link")
    hands.choose("National identity")
    hands.press("Continue")
    hands.give(FILE)
    hands.write("Purpose", "Loan application")
    hands.press("Check the file")
    expect(hands.page.get_by_text("200 rows without errors")).to_be_visible()
    hands.press("Order 200 reports for KES 10,000.00")
    expect(hands.page.get_by_text("0 of 200 reports have ended.")).to_be_visible()


def decline(hands, name: str) -> None:
    """Open the case, and decline for the reason that its findings suggest."""
    hands.press(name, "link")
    hands.choose("Decline")
    hands.press("Decide")
    expect(hands.page.get_by_role("heading", name="What follows")).to_be_visible()
    expect(
        hands.page.get_by_text("Credit score below the required one")
    ).to_be_visible()
    hands.press("Decline")
    expect(hands.page.get_by_text("The decision counts now.")).to_be_visible()


def approve(hands) -> None:
    hands.choose("Approve")
    hands.press("Decide")
    expect(hands.page.get_by_text("The decision counts now.")).to_be_visible()


def test_what_is_filled_in_before_htmx_is_there_counts(page, own_client, service):
    page.set_viewport_size(DESK)
    enter(page, service, own_client, "slow-line@jobs.test")
    hands, held = Hands(page), []
    page.route("**/htmx-2.min.js", lambda route: held.append(route))

    # The page that is left may ask for htmx as well.
    with page.expect_request(
        lambda request: (
            "htmx" in request.url
            and request.headers["referer"].endswith("/reports/new")
        )
    ):
        page.goto(f"{page.url}reports/new")
    hands.choose("National identity")
    page.keyboard.press("Control+k")
    page.keyboard.type("Figures")
    held[-1].continue_()

    expect(hands.field("ID number")).to_be_visible()
    expect(page.locator("#found").get_by_role("link", name="Figures")).to_be_visible()


def test_what_is_found_stays_closed_for_a_member_who_has_gone_on(
    page, own_client, service
):
    page.set_viewport_size(DESK)
    enter(page, service, own_client, "gone-on@jobs.test")
    held, search = [], re.compile(r"/find/\?.*search=Figures")
    page.route(search, lambda route: held.append(route))

    with page.expect_request(search):
        page.keyboard.press("Control+k")
        page.keyboard.type("Figures")
    page.keyboard.press("Tab")
    held[-1].continue_()

    expect(page.locator("#found a").last).to_be_attached()
    expect(page.locator("#found")).to_be_hidden()


def press_access_key(page, key: str) -> None:
    """Press Alt and the key. `keyboard.press` leaves out the text of such a key."""
    pressed = {
        "type": "keyDown",
        "modifiers": ALT,
        "key": key,
        "code": f"Key{key.upper()}",
        "windowsVirtualKeyCode": ord(key.upper()),
        "unmodifiedText": key,
    }
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchKeyEvent", pressed)
    session.send("Input.dispatchKeyEvent", {**pressed, "type": "keyUp"})


def test_officer_works_through_the_queue_by_its_keys(page, own_client, service):
    enter(page, service, own_client, "keys@jobs.test", decision_hours=24)
    own_client.order(person())
    rows = page.locator("tbody tr")
    page.goto(f"{page.url}queue/")
    reload_until(page, lambda: rows.count() == 1)

    press_access_key(page, "s")
    expect(page.get_by_label("Search")).to_be_focused()
    press_access_key(page, "n")
    expect(page.get_by_text("The report is assigned to you.")).to_be_visible()
    press_access_key(page, "q")
    expect(rows).to_have_count(1)


def test_section_is_fetched_while_the_button_of_the_mouse_is_down(
    page, own_client, service
):
    page.set_viewport_size(DESK)
    enter(page, service, own_client, "early@jobs.test")

    # On the icon, of whose lines the browser would not know the link
    page.locator(".side a", has_text="Reports").hover(position={"x": 20, "y": 10})
    with page.expect_request(
        lambda request: "prefetch" in request.headers.get("sec-purpose", "")
    ) as early:
        page.mouse.down()
    with page.expect_navigation(url=early.value.url):
        page.mouse.up()

    shown = "performance.getEntriesByType('navigation')[0].deliveryType"
    assert page.evaluate(shown) == "navigational-prefetch"
