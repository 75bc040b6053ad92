"""Subjects with a phone decide about a request."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SCREENSHOTS
from tests.world.clients import HOSTED, company
from tests.world.waiting import until

pytestmark = pytest.mark.slow

NAME = "Wanjiku Kamau"


def link_of(report):
    return report["consentState"]["consentUrl"]


# Prints the code of the newest mail to a subject.
CODE = (
    "from verification.notifications.models import Notification as N;"
    "print(N.objects.filter(kind='CONSENT_CODE').latest('id').context['code'])"
)


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


def test_subject_grants_and_the_report_is_made(page, ask, look, client):
    report = ask()
    page.goto(link_of(report))
    sees(page, "Confirm that it is you")
    assert link_of(report).rsplit("/", 1)[1] not in page.url + page.content()
    look("challenge")

    confirm(page)
    sees(page, "Acacia wants to check your details")
    look("asked")
    page.get_by_text("Read the full notice").click()
    look("asked-full-notice")
    page.locator("main button").click()
    assert page.title().startswith("Error: ")
    look("asked-errors")
    page.get_by_role("link", name="Type your full name").click()
    expect(page.locator("#id_name")).to_be_focused()

    sign(page)
    sees(page, "You agreed to the checks")
    look("granted")
    wait_for(client, report, "READY")
    for _ in range(2):
        page.go_back()
        sees(page, "You agreed to the checks")


def test_subject_declines(page, ask, look, client):
    report = ask()
    page.goto(link_of(report))
    confirm(page)
    page.get_by_role("link", name="I do not agree").click()
    sees(page, "You do not agree?")
    look("decline")

    page.get_by_label("Why?").fill("I did not apply for this")
    page.get_by_role("button", name="I do not agree").click()

    sees(page, "You did not agree")
    look("declined")
    assert client.status(report["id"]) == "FAILED"


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


def test_five_wrong_dates_lock_the_link(page, ask, look):
    page.goto(link_of(ask()))
    confirm(page, day="31", month="2")
    expect(page.get_by_role("alert")).to_contain_text("Enter your date of birth")
    look("challenge-no-date")
    for left in (4, 3, 2, 1):
        confirm(page, year="1991")
        times = f"{left} more times" if left > 1 else "once more"
        expect(page.get_by_role("alert")).to_contain_text(times)
    look("challenge-wrong")

    confirm(page, year="1991")

    sees(page, "Too many wrong answers")
    look("locked")


def test_subject_withdraws(page, ask, look, client):
    report = ask(draft=True)
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    page.context.clear_cookies()

    page.goto(link_of(report))
    confirm(page)
    page.get_by_role("link", name="Withdraw my consent").click()
    look("withdraw")
    page.get_by_role("button", name="Withdraw my consent").click()

    sees(page, "You withdrew your consent")
    look("withdrawn")
    state = client.get(f"/reports/{report['id']}").json()["consentState"]
    assert state["status"] == "WITHDRAWN"


def test_subject_reads_kiswahili(page, ask, look):
    page.goto(link_of(ask()))
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Thibitisha kuwa ni wewe")
    look("sw-challenge")
    confirm(page)
    sees(page, "Acacia inataka kuhakiki taarifa zako")
    look("sw-asked")

    page.locator("main button").click()
    assert page.title().startswith("Kosa: ")
    look("sw-asked-errors")
    page.get_by_role("link", name="English").click()
    sees(page, "Acacia wants to check your details")
    page.get_by_role("link", name="Kiswahili").click()
    sign(page)

    sees(page, "Ulikubali ukaguzi")
    look("sw-granted")


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


def test_wrong_person_says_so(page, ask, look, client):
    report = ask()
    page.goto(link_of(report))
    page.get_by_role("link", name="This is not me").click()
    look("not-me")

    page.get_by_role("button", name="This is not me").click()

    sees(page, "Thank you")
    look("not-me-done")
    assert client.status(report["id"]) == "FAILED"


def test_subject_types_the_code_that_was_sent_to_them(
    page, ask, look, service, let_get_messages
):
    let_get_messages("wanjiku@coded.test")
    page.goto(link_of(ask(subject={"email": "wanjiku@coded.test"})))
    confirm(page)
    sees(page, "Enter the code that we sent you")
    look("code")
    page.get_by_label("The code").fill("12 34")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="That is not the code").click()
    expect(page.get_by_label("The code")).to_be_focused()
    look("code-wrong")
    page.get_by_role("button", name="Send another code").click()
    expect(page.get_by_text("less than a minute ago")).to_be_visible()
    page.get_by_role("link", name="Kiswahili").click()
    look("code-sw")
    page.get_by_role("link", name="English").click()

    page.get_by_label("The code").fill(service.manage("shell", "-v", "0", "-c", CODE))
    page.get_by_role("button", name="Continue").click()

    sees(page, "Acacia wants to check your details")


def test_expired_link_is_renewed(page, ask, look, service, let_get_messages):
    let_get_messages("wanjiku@renewed.test")
    report = ask(draft=True, subject={"email": "wanjiku@renewed.test"})
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET expires_at = now() - interval '1 hour',"
            " link_made_at = now() - interval '14 days' WHERE report_id = %s",
            [report["id"]],
        )
    page.goto(link_of(report))
    sees(page, "This link has expired")
    look("expired")

    page.get_by_role("button", name="Send me a new link").click()

    sees(page, "There is a newer link")
    look("replaced")


def test_decision_stays_readable_after_an_edit_of_the_draft(page, ask, look, client):
    report = ask(draft=True)
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    sees(page, "You agreed to the checks")
    edited = client.post(f"/reports/{report['id']}/draft", {"purpose": "Another loan"})
    assert edited.status_code == 200

    page.reload()

    sees(page, "There is a newer link")
    look("replaced-after-granting")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the receipt").click()
    assert saved.value.suggested_filename.endswith(".pdf")


def test_links_that_lead_nowhere_say_so(page, ask, look, client, service):
    report = ask()
    page.goto(link_of(report))
    client.post(f"/reports/{report['id']}/cancel")
    page.reload()
    sees(page, "You need not answer any more")
    look("cancelled")

    page.context.clear_cookies()
    page.reload()
    sees(page, "Please open your link again")
    look("over")
    page.goto(f"{service.url}/c/0123456789")
    sees(page, "This link does not work")
    look("unknown")


def test_pages_are_legible_in_the_dark_and_on_paper(page, ask, look):
    page.emulate_media(color_scheme="dark")
    page.goto(link_of(ask(subject={"dateOfBirth": None})))
    look("dark-challenge-id")
    page.locator("#id_answer").fill("5678")
    page.locator("main button").click()
    look("dark-asked")
    page.locator("main button").click()
    look("dark-asked-errors")
    sign(page)
    look("dark-granted")

    page.emulate_media(color_scheme="light", media="print")
    expect(page.get_by_role("link", name="Save the receipt")).to_be_hidden()
    look("print-granted")


def test_pages_stand_on_a_desk_as_well(page, ask):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(link_of(ask()))
    confirm(page)
    sees(page, "Acacia wants to check your details")
    page.screenshot(path=SCREENSHOTS / "desk-asked.png", full_page=True)


BECOME_MINOR = (
    "from verification.reports.models import Report;"
    "report = Report.objects.get(pk={id!r});"
    "report.subject = {{**report.subject, 'dateOfBirth': '2013-03-27'}};"
    "report.save()"
)
WITHDRAW = (
    "from verification.consents.models import Consent;"
    "from verification.consents.subject_decisions import CONFIRMED_BY_STAFF as BY;"
    "from verification.consents.subject_decisions import Evidence;"
    "from verification.privacy.withdrawals import withdraw;"
    "consent = Consent.objects.get(report={id!r});"
    "evidence = Evidence(confirmed_by=BY, staff='otieno');"
    "withdraw(consent.pk, 1, evidence, 'Letter of 20 November')"
)


def shell(service, code, report):
    service.manage("shell", "-v", "0", "-c", code.format(id=report["id"]))


def test_child_is_refused(page, ask, look, service):
    report = ask()
    shell(service, BECOME_MINOR, report)
    page.goto(link_of(report))
    confirm(page, year="2013")
    sees(page, "You are under 18")
    assert page.locator("#id_name").count() == 0
    look("under-age")
    page.get_by_role("link", name="Kiswahili").click()
    look("sw-under-age")
    page.get_by_role("link", name="English").click()

    page.locator("main button").click()

    sees(page, "A parent or guardian decides")
    look("under-age-told")


def test_director_decides_for_a_company(page, client, look):
    item = company(registrationNumber="PVT-12345", kraPin="P123456789Z")
    report = client.order({**item, "consent": HOSTED, "checksRequested": ["KRA_PIN"]})[
        0
    ]
    page.goto(link_of(report))
    look("company-challenge")
    page.locator("#id_answer").fill("PVT-1")
    page.locator("main button").click()
    look("company-challenge-wrong")
    page.locator("#id_answer").fill("pvt 12345")
    page.locator("main button").click()
    sees(page, "Acacia wants to check your company")
    look("company-asked")
    page.locator("#id_name").fill("Achieng Ouma")
    page.get_by_role("checkbox").check()
    page.locator("main button").click()
    expect(page.get_by_role("alert")).to_contain_text("position")
    look("company-asked-errors")

    page.locator("#id_position").fill("Director")
    page.locator("main button").click()

    sees(page, "You agreed to the checks")
    expect(page.get_by_text("Director")).to_be_visible()
    look("company-granted")


def test_company_without_registration_number_confirms_its_kra_pin(page, client, look):
    item = company(registrationNumber=None, kraPin="P123456789Z")
    report = client.order({**item, "consent": HOSTED, "checksRequested": ["KRA_PIN"]})[
        0
    ]
    page.goto(link_of(report))
    look("company-challenge-kra-pin")

    page.get_by_label("The KRA PIN of your company").fill("p 123456789 z")
    page.locator("main button").click()

    sees(page, "Acacia wants to check your company")


def test_link_that_is_locked_for_good_leads_to_the_client(page, ask, look, service):
    report = ask()
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET locks = 4 WHERE report_id = %s", [report["id"]]
        )
    page.goto(link_of(report))
    look("locked-for-good")

    page.get_by_role("button", name="Ask Acacia").click()

    look("locked-for-good-asked")


def test_expired_request_leads_to_the_client(page, ask, look, service):
    report = ask()
    with service.connect() as connection:
        connection.execute(
            "UPDATE consents_consent SET expires_at = now() - interval '1 hour'"
            " WHERE report_id = %s",
            [report["id"]],
        )
    page.goto(link_of(report))
    sees(page, "This link has expired")
    look("expired-request")

    page.get_by_role("button", name="Ask Acacia").click()

    look("expired-request-asked")
    page.get_by_role("link", name="Kiswahili").click()
    look("sw-expired-request-asked")


def test_checks_of_a_late_withdrawal_have_their_ticks(page, ask, look, service, client):
    report = ask()
    page.goto(link_of(report))
    confirm(page)
    sign(page)
    sees(page, "You agreed to the checks")
    wait_for(client, report, "READY")
    page.reload()
    expect(page.locator("li .good").first).to_be_visible()
    look("granted-ready")

    shell(service, WITHDRAW, report)
    page.reload()

    sees(page, "Your consent was withdrawn")
    look("withdrawn-by-staff")
    page.get_by_role("link", name="Kiswahili").click()
    sees(page, "Ridhaa yako iliondolewa")
    look("sw-withdrawn-by-staff")
