"""Go live, from the sign-up to a call with the live key, by client and staff."""

import re
from collections.abc import Iterator

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import STILL, WCAG, take_picture
from tests.browser.people import (
    PASSWORD,
    go_to,
    log_in,
    reload_until,
    set_up_second_factor,
)
from tests.fakes.smile_id import KEY, PARTNER
from tests.fakes.smile_id import smile_id as smile_id
from tests.fakes.smtp import MailServer
from tests.files import samples as files
from tests.golive.applications import COMPANY
from tests.world.clients import company, person
from tests.world.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OWNER, STAFF = "wanjiku@acacia.test", "otieno@office.test"
NAME = "Acacia Tea Limited"
SHOWN = re.compile(r"vrf_test_[0-9A-Za-z]{38}")
LIVE = re.compile(r"vrf_live_[0-9A-Za-z]{38}")
LINK = re.compile(r"https?://\S+")
DESK = {"width": 1280, "height": 900}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
DOCUMENTS = {
    "Certificate of incorporation": ("certificate.pdf", "application/pdf"),
    "CR12, of the last 12 months": ("cr12.pdf", "application/pdf"),
    "KRA PIN certificate": ("kra.png", "image/png"),
    "ID card or passport of a director": ("id.jpg", "image/jpeg"),
}
REVIEWER = (
    "from django.contrib.auth.models import Group, User;"
    "from allauth.account.models import EmailAddress as E;"
    f"u = User.objects.create_user('otieno', {STAFF!r}, {PASSWORD!r}, is_staff=True);"
    "u.groups.add(Group.objects.get(name='Reviewer'));"
    f"E.objects.create(user=u, email={STAFF!r}, verified=True, primary=True)"
)

END_REST = """
UPDATE notifications_notification SET next_attempt_at = now()
WHERE next_attempt_at > now() AND leased_until IS NULL
"""


@pytest.fixture
def mailbox(service, smile_id) -> Iterator[MailServer]:
    """Start an installation with a mail server and the business register."""
    with (
        MailServer() as server,
        service.changed(
            EMAIL_URL=f"smtp://127.0.0.1:{server.port}",
            SMILE_ID_PARTNER_ID=PARTNER,
            SMILE_ID_API_KEY=KEY,
            SMILE_ID_URL=smile_id.url,
            SOURCE_DEV_HOSTS=smile_id.host,
        ),
    ):
        with service.connect() as connection:
            # E-mails of tests without a mail server rest, and others with them.
            connection.execute(END_REST)
        yield server


def letter_to(mailbox: MailServer, address: str, word: str) -> str:
    """Return the text of the first mail with this word in its subject."""

    def letters():
        messages = list(mailbox.messages)
        return [m for m in messages if m["To"] == address and word in m["Subject"]]

    first, *_ = until(letters, lambda: [m["Subject"] for m in mailbox.messages])
    text, _html = first.iter_parts()
    return str(text.get_content())


def test_company_goes_live(page, browser, service, look, mailbox):
    sign_up(page, service, mailbox)
    test_key = make_key(page, look)
    order(service, test_key)
    apply(page)

    office = browser.new_context(viewport=DESK, locale="en-KE").new_page()
    review(office, service)

    letter = letter_to(mailbox, OWNER, "is approved")
    (key,) = set(LIVE.findall(letter))
    call(service, workspace_of(page), key)
    page.reload()
    page.get_by_role("link", name="Set up an authenticator app").click()
    set_up_second_factor(page)
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_text("Your company is approved.")).to_be_visible()
    page.get_by_role("link", name="See your production keys").click()
    expect(page.get_by_text(key[:12])).to_be_visible()


def sign_up(page, service, mailbox) -> None:
    page.goto(f"{service.url}/accounts/signup/")
    page.get_by_label("Your name").focus()
    typed(page, "Wanjiku Njoroge", OWNER, PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/accounts/confirm-email/")
    link = LINK.search(letter_to(mailbox, OWNER, "Confirm"))
    assert link
    page.goto(link[0])
    page.get_by_role("button", name="Confirm the address").click()
    log_in(page, service, OWNER)
    page.wait_for_url(re.compile("/console/.*/sandbox/"))


def typed(page, *texts: str) -> None:
    """Type texts into the focused field and the fields after it."""
    for text in texts:
        page.keyboard.type(text)
        page.keyboard.press("Tab")


def order(service, key: str) -> None:
    """Order a report by the API, and wait until it ends."""
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {key}"
    url = f"{service.url}/api/v1/reports"
    asked = {"reports": [person(idNumber="90000003")]}
    made = http.post(url, json=asked, timeout=30).json()["reports"][0]
    one = f"{url}/{made['id']}"
    until(lambda: http.get(one, timeout=30).json()["status"] == "READY")


def make_key(page, look) -> str:
    page.get_by_role("link", name="Create a key").click()
    page.get_by_label("Name").fill("Loans")
    page.get_by_role("button", name="Create the key").click()
    look("console-key-shown")
    key = SHOWN.search(page.locator("#key").inner_text())
    assert key
    return key[0]


def apply(page) -> None:
    go_to(page, "Home")
    page.get_by_role("link", name="See what is needed").click()
    page.get_by_role("link", name="Describe the company").click()
    describe(page)
    for number, (label, (name, kind)) in enumerate(DOCUMENTS.items()):
        item = page.get_by_role("listitem").filter(has_text=label)
        item.get_by_role("link", name="Upload").click()
        if not number:
            svg = {"name": "logo.svg", "mimeType": "image/svg+xml", "buffer": SVG}
            page.get_by_label("The file").set_input_files(svg)
            page.get_by_role("button", name="Upload").click()
            expect(page.get_by_text("This file is not a PDF").first).to_be_visible()
        sent = {"name": name, "mimeType": kind, "buffer": content_of(label, kind)}
        page.get_by_label("The file").set_input_files(sent)
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_text("The document is kept.")).to_be_visible()
    page.get_by_role("link", name="Continue to submit").click()
    page.get_by_label("All of it is true").check()
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("It is submitted.")).to_be_visible()


def describe(page) -> None:
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("There is a problem")).to_be_visible()
    told = {**COMPANY, "company_name": NAME, "registration_number": "PVT-48840"}
    for name, value in told.items():
        if name in {"country", "volume"}:
            page.locator(f"[name={name}]").select_option(value)
        else:
            page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def content_of(label: str, kind: str) -> bytes:
    if kind == "application/pdf":
        return files.pdf_with_text(f"{NAME}: {label}")
    return files.photo_with_place() if kind == "image/jpeg" else files.picture("PNG")


def review(office, service) -> None:
    service.manage("shell", "-v", "0", "-c", REVIEWER)
    log_in(office, service, STAFF, "/admin/")
    set_up_second_factor(office)
    office.set_viewport_size(DESK)
    office.goto(f"{service.url}/admin/")
    office.locator("a.box", has_text="Go-live to review").click()
    office.get_by_role("link", name=NAME).first.click()
    answer(office, "take", "Take it")
    expect(office.get_by_text("It is in review.")).to_be_visible()
    register = office.get_by_role("region", name="What the register says")
    reload_until(office, register.get_by_text("Completed", exact=True).count)
    answer(office, "reveal", "Reveal", "KYB of a new client")
    expect(office.get_by_text("P051234567X", exact=True)).to_be_visible()
    see(office, "15-review-revealed")
    with office.expect_download() as given:
        office.get_by_role("link", name="Director's ID").click()
    assert given.value.suggested_filename.startswith("director_id-")
    answer(office, "approve", "Approve, and send the key", picture="16-approve")
    expect(office.get_by_text("It is approved; the key is being sent.")).to_be_visible()


def answer(
    office, verb: str, button: str, reason: str = "", *, picture: str = ""
) -> None:
    office.locator(f"a[hx-get$='/{verb}/']").first.click()
    dialog = office.get_by_role("dialog")
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    submit = dialog.get_by_role("button", name=button, exact=True)
    submit.wait_for()
    if picture:
        see(office, picture)
    submit.click()
    dialog.wait_for(state="hidden")
    office.wait_for_load_state()


def see(office, name: str) -> None:
    """Check the accessibility of the page, and take its picture."""
    office.wait_for_load_state()
    office.evaluate(STILL)
    take_picture(office, f"go-live-{name}")
    found = Axe().run(office, options=WCAG)
    assert found.violations_count == 0, found.generate_report()


def workspace_of(page) -> str:
    found = re.search(r"/console/([0-9a-f-]{36})/", page.url)
    assert found
    return found[1]


def call(service, workspace: str, key: str) -> None:
    """Order a report about a company by the live key, paid from the balance."""
    service.manage(
        "top_up", workspace, "--environment", "production", "--amount", "500"
    )
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {key}"
    url = f"{service.url}/api/v1/reports"
    body = {"reports": [company(registrationNumber="PVT-77770")]}
    made = http.post(url, json=body, timeout=30)
    assert made.status_code == 201, made.text
    assert "X-Service-Sandbox" not in made.headers
    one = f"{url}/{made.json()['reports'][0]['id']}"
    until(lambda: http.get(one, timeout=30).json()["status"] == "READY")
