"""Every action of the admin is pressed, and every page opened.

The test opens each action, checks its text, cancels it without a trace, and does it:
in a browser the first of each look, and others of that look by HTTP. `ROWS` creates a
suitable row for each action; an action without an entry fails.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from html import unescape
from itertools import count

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils.html import strip_tags
from django.utils.timezone import localdate, now

from monitoring.models import Rule
from monitoring.pauses import pause_for_staff
from tests.browser.conftest import DESK, PHONE, SCREENSHOTS, WIDTH, take_picture
from tests.browser.conftest import browser_type_launch_args as browser_type_launch_args
from tests.consents.test_decisions import EVIDENCE
from tests.fakes.paystack import FakePaystack
from tests.golive.applications import by, in_review, submitted
from tests.payments.test_disputes import topped_up
from tests.world.brands import save_brand
from tests.world.clients import (
    HOSTED,
    READERS,
    Api,
    approve_workspace,
    confirm_sandbox_addresses,
    person,
)
from tests.world.corrections import RIGHT, create_wrong_report, dispute, reviewer
from tests.world.decisions import Officer
from tests.world.deliveries import configure_receiver, ended_fields, record_delivery
from tests.world.employer import create_reference
from tests.world.members import create_member
from tests.world.payments import (
    candidate_item,
    end_checkout,
    payment_of,
    poll_checkouts,
    run_provider,
)
from tests.world.payments import open_page as opened_checkout
from tests.world.rules import raise_alert, store_rule
from tests.world.staff import (
    change_url,
    create_call,
    dialog_url,
    enter_request,
    give_factor,
    list_url,
    log_in,
)
from tests.world.waiting import until
from verification.accounts import colleagues
from verification.accounts.models import Colleague
from verification.backoffice.approvals import StaffActor
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.db.ids import uuid7
from verification.decisions.models import Decision
from verification.golive import names
from verification.golive.models import Application, NameChange
from verification.jobs.models import Job
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import block
from verification.payments.models import Checkout, Payment, PaymentEvent, Refund
from verification.payments.refunds import request_refund
from verification.privacy.corrections import rerun, take
from verification.privacy.holds import hold
from verification.privacy.models import Correction, Hold, StaffErasure, SubjectRequest
from verification.privacy.staff_erasures import request_for_person
from verification.reports.models import Report
from verification.sources.models import Call
from verification.values.local_time import NAIROBI
from workspaces import ledger
from workspaces.brands import bar_brand
from workspaces.create import create_workspace
from workspaces.models import Account, Brand, LedgerEntry, StaffEntry, Workspace

TYPED = {
    "reason": "They asked us by telephone",
    "amount": "5",
    "note": "Transfer 7",
    "text": "They call on Mondays",
    "email": "another{}@people.test",
    "ends_on": str(localdate(timezone=NAIROBI) + timedelta(days=30)),
}
PAST = timedelta(minutes=5)
# Milliseconds that the browser waits for an element: on a busy machine the first page
# takes many.
PATIENCE = 30_000
# Text of Python objects that a page shows by mistake.
REPR = re.compile(
    r"object at 0x|\b[A-Z]\w+ object \(|<[A-Z]\w+: |datetime\.|Decimal\(|UUID\("
    r"|[\[{]'|^\s*(?:None|True|False)\s*$",
    re.MULTILINE,
)
# Hidden fields and buttons of a confirmation page
HELD = re.compile(r'<input type="(?:hidden|submit)" name="([^"]+)" value="([^"]*)"')
# Elements that are wider than the screen.
WIDEST = """() => [...document.querySelectorAll('main *, #main *')].filter(
    (e) => e.getBoundingClientRect().right > innerWidth && e.offsetParent
).map((e) => `${e.tagName}.${e.className}`).slice(0, 20).join("\\n")"""
number = count(1)


def actions_of(page) -> list[str]:
    """Return the page's actions, without `reveal` if nothing is masked."""
    detail = page._extract_action_names(page.actions_detail)
    names = {*(page.actions or ()), *detail, *page.actions_row, *page.actions_list}
    names |= {*page._extract_action_names(page.actions_submit_line)}
    if not getattr(page, "personal_fields", ()):
        names.discard("reveal")
    return sorted(names)


ACTIONS = {
    f"{model._meta.label_lower}.{name}": (page, name)
    for model, page in admin.site._registry.items()
    for name in actions_of(page)
}


def customer() -> Api:
    """Create a client with its own workspace, so that actions do not interfere."""
    n = next(number)
    made = create_workspace(name=f"Baobab {n}", owner_email=f"owner@baobab{n}.test")
    confirm_sandbox_addresses(made, *READERS)
    return Api(made, "sandbox")


def paying_customer() -> Api:
    api = customer()
    ledger.top_up(api.workspace, "production", 5_000, actor="tests", note="")
    return Api(api.workspace, "production")


def owner(api: Api):
    return create_member(api.workspace, "OWNER", f"owner{next(number)}")


def waiting_for_consent(api: Api) -> Report:
    report = Report.objects.get(pk=api.create({**person(), "consent": HOSTED})["id"])
    Consent.objects.filter(report=report).update(link_made_at=now() - PAST)
    return report


def waiting_for_payment(api: Api) -> Payment:
    payment = payment_of(api.create(candidate_item()))
    Payment.objects.filter(pk=payment.pk).update(link_made_at=now() - PAST)
    return payment


def paid(api: Api) -> Checkout:
    return end_checkout(opened_checkout(api.create(candidate_item())))


def flagged(api: Api) -> Checkout:
    return end_checkout(opened_checkout(api.create(candidate_item())), currency="USD")


def refunded_elsewhere(taker: FakePaystack) -> Checkout:
    checkout = topped_up(paying_customer(), taker)
    taker.give_back(checkout.reference, 20_000)
    poll_checkouts(checkout)
    return checkout


def refund(api: Api) -> Refund:
    checkout, by_another = paid(api), StaffActor(10**6, "staff x")
    return request_refund(checkout.pk, Decimal(250), reason="Wrong", by=by_another)


def payment_event(api: Api) -> PaymentEvent:
    return PaymentEvent.objects.create(
        provider="paystack",
        event_id=str(next(number)),
        type="charge.success",
        checkout=paid(api),
        body_sha256=b"x" * 32,
        body={"amount": 25_000},
    )


def account(api: Api) -> Account:
    return api.workspace.accounts.get(environment="production")


def staff_entry(api: Api) -> StaffEntry:
    return StaffEntry.objects.create(
        id=uuid7(),
        account=account(api),
        kind="TOP_UP",
        amount=1,
        status="REQUESTED",
        needs_second=True,
        requested_by="staff x",
        requested_by_user=10**6,
    )


def failed_report(api: Api) -> Report:
    report = Report.objects.get(pk=api.create(person(idNumber="90000008"))["id"])
    api.work()
    CheckResult.objects.filter(report=report).update(failure_retryable=True)
    return report


def call(api: Api) -> Call:
    return create_call(report(api).pk, end="IN_DOUBT", ended_at=now())


def delivery(api: Api):
    configure_receiver(api.workspace)
    return record_delivery(api, **ended_fields("FAILED"))


def reference(api: Api):
    found = create_reference(paying_customer())
    type(found).objects.filter(pk=found.pk).update(link_made_at=now() - PAST)
    return found


def colleague(api: Api, *, active: bool = True, joined: bool = True) -> Colleague:
    role = Group.objects.get(name="Finance")
    address = f"njeri{next(number)}@office.test"
    found = colleagues.add(address, "Njeri", [role], by=User.objects.first())
    if joined:
        found.set_password("nine loud purple hippos")
        give_factor(found)
    found.is_active = active
    found.save()
    return found


def person_of(api: Api):
    found = owner(api)
    give_factor(found.user)
    return found


def suspended(api: Api) -> Workspace:
    api.workspace.suspend("Unpaid invoices")
    return api.workspace


def sent_notification(api: Api) -> Notification:
    waiting_for_payment(api)
    rows = Notification.objects.filter(workspace=api.workspace)
    found = rows.filter(recipient__isnull=False).latest("id")
    ends = {"status": "SENT", "sent_at": now(), "next_attempt_at": None}
    Notification.objects.filter(pk=found.pk).update(**ends)
    return found


def to_decide(api: Api) -> Application:
    return in_review(owner(api))


def failed_company_check(api: Api) -> Application:
    application = to_decide(api)
    report = Report.objects.filter(pk=application.report_id)
    ends = {"failure_code": "SOURCE_UNAVAILABLE", "failure_message": "Away."}
    report.update(status="FAILED", **ends)
    results = CheckResult.objects.filter(report=application.report_id)
    fields = {"status": "FAILED", "failure_retryable": True, "finding": None}
    results.update(**fields, **ends, risk_level="", score=None)
    return application


def name_change(api: Api) -> NameChange:
    asks = owner(api)
    approve_workspace(api.workspace, "Acacia Lenders Limited")
    names.request_name_change(asks, "Acacia Bank Limited", "", "", by(asks.user))
    return NameChange.objects.latest("id")


def branded(api: Api) -> Brand:
    return save_brand(api.workspace, colour="#0a7a3c", contact_line="Kimathi Street")


def barred(api: Api) -> Brand:
    branded(api)
    bar_brand(api.workspace.pk, "It is the logo of a bank")
    return Brand.objects.get(workspace=api.workspace)


def granted(api: Api) -> Consent:
    consent = waiting_for_consent(api).consent
    grant(consent.pk, 1, EVIDENCE)
    return consent


def rule(api: Api) -> Rule:
    return store_rule(api)


def paused(api: Api) -> Rule:
    made = store_rule(api)
    pause_for_staff(made.pk)
    return made


def blocked(api: Api) -> Block:
    address = f"amina{next(number)}@payer.test"
    block(api.workspace.pk, [("EMAIL", address)], Block.Reason.UNKNOWN)
    return Block.objects.latest("id")


def report(api: Api) -> Report:
    found = Report.objects.get(pk=api.create(person())["id"])
    api.work()
    return found


def report_with_address(api: Api) -> Report:
    made = api.create(person(email="wanjiku@kamau.test"))
    api.work()
    return Report.objects.get(pk=made["id"])


def held(api: Api) -> Hold:
    return hold(report(api).pk, "A court asks", now() + timedelta(days=9), by="staff x")


def entered(api: Api) -> SubjectRequest:
    return enter_request(report(api))


def disputed(api: Api) -> Correction:
    return dispute(create_wrong_report(api))


def reviewed(api: Api) -> Correction:
    return take(disputed(api).pk, reviewer())


def run_again(api: Api) -> Correction:
    correction = reviewed(api)
    rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()
    return correction


def staff_erasure(api: Api) -> StaffErasure:
    report(api)
    numbers = {"subjectType": "INDIVIDUAL", "country": "KE", "idNumber": "12345678"}
    by_another = StaffActor(10**6, "staff x")
    return request_for_person(numbers, "A letter of today", by=by_another)


def decided(api: Api) -> Decision:
    officer = Officer(api, "OFFICER", f"officer{next(number)}")
    return officer.decide(report(api).pk, note="They called us")


def workspace(api: Api) -> Workspace:
    return api.workspace


# page.action: what makes the row that it suits, of a customer of its own.
ROWS = {
    "accounts.colleague.change_email": colleague,
    "accounts.colleague.deactivate": colleague,
    "accounts.colleague.end_sessions": colleague,
    "accounts.colleague.invite_again": lambda api: colleague(api, joined=False),
    "accounts.colleague.promote": colleague,
    "accounts.colleague.reactivate": lambda api: colleague(api, active=False),
    "accounts.colleague.remove_factor": colleague,
    "backoffice.auditevent.reveal": lambda api: AuditEvent.objects.latest("id"),
    "checks.checkresult.reveal": lambda api: report(api).results.first(),
    "consents.consent.resend": lambda api: waiting_for_consent(api).consent,
    "consents.consent.withdraw": granted,
    "consents.consentrecord.reveal": lambda api: granted(
        api
    ).report.consent_records.first(),
    "decisions.decision.reveal": decided,
    "golive.application.approve": to_decide,
    "golive.application.check_again": failed_company_check,
    "golive.application.reject": to_decide,
    "golive.application.reveal": to_decide,
    "golive.application.take": lambda api: submitted(owner(api)),
    "golive.namechange.approve": name_change,
    "golive.namechange.reject": name_change,
    "jobs.job.dismiss": lambda api: Job.objects.create(function="x", gave_up_at=now()),
    "workspaces.brand.remove": branded,
    "workspaces.brand.allow": barred,
    "jobs.job.run_again": lambda api: Job.objects.create(
        function="x", gave_up_at=now()
    ),
    "monitoring.alert.reveal": raise_alert,
    "monitoring.rule.pause": rule,
    "monitoring.rule.resume": paused,
    "monitoring.rule.reveal": rule,
    "monitoring.rule.run_now": rule,
    "notifications.block.mark_reviewed": blocked,
    "notifications.notification.send_again": sent_notification,
    "payments.checkout.clear_flags": flagged,
    "payments.checkout.poll": lambda api: opened_checkout(api.create(candidate_item())),
    "payments.checkout.record_elsewhere": refunded_elsewhere,
    "payments.checkout.refund": paid,
    "payments.checkout.reveal": paid,
    "payments.payment.resend": waiting_for_payment,
    "payments.payment.reveal": waiting_for_payment,
    "payments.paymentevent.reveal": payment_event,
    "payments.refund.approve": refund,
    "payments.refund.reject": refund,
    "privacy.correction.confirm": reviewed,
    "privacy.correction.correct": run_again,
    "privacy.correction.reveal": disputed,
    "privacy.correction.run_again": reviewed,
    "privacy.correction.take": disputed,
    "privacy.hold.release": held,
    "privacy.stafferasure.approve": staff_erasure,
    "privacy.stafferasure.reject": staff_erasure,
    "privacy.stafferasure.reveal": staff_erasure,
    "privacy.subjectrequest.answer": entered,
    "privacy.subjectrequest.reveal": entered,
    "references.reference.reveal": reference,
    "references.reference.resend": reference,
    "reports.report.cancel": waiting_for_consent,
    "reports.report.enter_objection": report,
    "reports.report.erase_subject": report,
    "reports.report.hold": report,
    "reports.report.pdf": report,
    "reports.report.resend_consent": waiting_for_consent,
    "reports.report.resend_payment": lambda api: waiting_for_payment(api).report,
    "reports.report.retry": failed_report,
    "reports.report.reveal": report,
    "reports.report.send_access_link": report_with_address,
    "sources.call.settle_as_paid": call,
    "sources.call.settle_as_unpaid": call,
    "webhooks.delivery.redeliver": delivery,
    "webhooks.delivery.redeliver_this": delivery,
    "webhooks.delivery.reveal": delivery,
    "workspaces.account.adjust": account,
    "workspaces.account.top_up": account,
    "workspaces.apikey.revoke": lambda api: api.key,
    "workspaces.apikey.revoke_key": lambda api: api.key,
    "workspaces.member.change_email": person_of,
    "workspaces.member.end_sessions": person_of,
    "workspaces.member.remove_factor": person_of,
    "workspaces.member.reveal": person_of,
    "workspaces.staffentry.approve": staff_entry,
    "workspaces.staffentry.reject": staff_entry,
    "workspaces.workspace.add_note": workspace,
    "workspaces.workspace.invite_owner": workspace,
    "workspaces.workspace.resume": suspended,
    "workspaces.workspace.reveal": workspace,
    "workspaces.workspace.suspend": workspace,
}
# These move money: amount, workspace and environment are said before they act.
MONEY = {
    "monitoring.rule.resume",
    "monitoring.rule.run_now",
    "payments.checkout.record_elsewhere",
    "payments.checkout.refund",
    "payments.refund.approve",
    "payments.refund.reject",
    "reports.report.retry",
    "workspaces.account.adjust",
    "workspaces.account.top_up",
    "workspaces.staffentry.approve",
    "workspaces.staffentry.reject",
}


@pytest.fixture(scope="module")
def browser_context_args():
    return {"viewport": DESK, "locale": "en-KE"}


@pytest.fixture
def taker(settings) -> Iterator[FakePaystack]:
    yield from run_provider(FakePaystack(), settings)


@pytest.fixture
def office(page, settings, live_server, rows, live_source, admin_user):
    """Open a superuser's browser that collects errors of pages in `faults`."""
    # The server of tests serves static files under their plain names.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(100)
    client = Client()
    log_in(client, admin_user)
    cookie = {"name": "sessionid", "value": client.session.session_key}
    page.context.add_cookies([{**cookie, "url": live_server.url}])
    page.set_default_timeout(PATIENCE)
    page.root, page.faults = live_server.url, []
    page.on("response", lambda r: r.status >= 400 and page.faults.append(r.url))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda m: m.type == "error" and page.faults.append(m.text))
    return page


def check_page(office) -> None:
    """Fail if the browser reports an error, or the page shows a Python object."""
    faults, office.faults = office.faults, []
    assert faults == []
    found = REPR.search(office.locator("body").inner_text())
    assert not found, f"{office.url} shows {found[0]!r}"


def read_text(answer) -> str:
    """Return a page's text; fail if the page has an error or shows a Python object."""
    assert answer.status_code == 200, answer.request["PATH_INFO"]
    html = re.sub(r"<(head|script|style)\b.*?</\1>", "", answer.text, flags=re.DOTALL)
    text = unescape(strip_tags(html))
    found = REPR.search(text)
    assert not found, f"{answer.request['PATH_INFO']} shows {found[0]!r}"
    return text


def state_of(row) -> tuple:
    """Return the state that a cancelled action must not change."""
    acts = AuditEvent.objects.exclude(action__endswith=".opened").count()
    kept = type(row).objects.filter(pk=row.pk).values().get()
    return acts, LedgerEntry.objects.count(), Refund.objects.count(), kept


def open_dialog(office, action: str):
    office.locator(f"a[hx-get$='/{action}/']").first.click()
    asked = office.get_by_role("dialog")
    asked.locator("form").wait_for()
    return asked


def open_page(office, action: str, row):
    office.locator(f"input.action-select[value='{row.pk}']").check()
    office.locator("select[name=action]").select_option(action)
    office.get_by_role("button", name="Run").click()
    asked = office.locator(".asked")
    asked.wait_for()
    return asked


def fill(asked) -> None:
    for field in asked.locator("input:visible, textarea:visible").all():
        name = field.get_attribute("name")
        if name in TYPED and not (name == "amount" and field.input_value()):
            field.fill(TYPED[name].format(next(number)))


def confirm(asked, office) -> str:
    """Go through all steps of the dialog. Returns their texts."""
    text = ""
    for _ in range(3):
        text += asked.inner_text()
        fill(asked)
        step = asked.locator("#dialog-form, form").last
        step.evaluate("(step) => step.setAttribute('data-answered', '')")
        with office.expect_response(lambda r: r.request.method == "POST") as posted:
            asked.locator("[type=submit]").first.click()
        target = posted.value.headers.get("hx-redirect", "")
        if target.endswith(".pdf"):
            return text
        if target or posted.value.status == 302:
            asked.wait_for(state="hidden")
            office.wait_for_load_state()
            return text
        assert posted.value.status == 200, posted.value.url
        office.locator("[data-answered]").wait_for(state="detached")
    raise AssertionError(asked.inner_text())


def workspace_of(row) -> str:
    owner = getattr(row, "workspace", None) or getattr(row, "account", None)
    if isinstance(row, Refund):
        row = row.checkout
    if isinstance(row, Checkout):
        owner = row.report.workspace if row.report_id else row.account.workspace
    return (owner.workspace if isinstance(owner, Account) else owner).name


def press(office, name: str, row) -> None:
    _page, action = ACTIONS[name]
    on_list = is_on_list(name)
    office.goto(office.root + (list_url(type(row)) if on_list else change_url(row)))
    check_page(office)

    def ask():
        return (
            open_page(office, action, row) if on_list else open_dialog(office, action)
        )

    before, asked = state_of(row), ask()
    assert len(asked.locator("p").first.inner_text()) > 20
    check_page(office)
    asked.get_by_text("Cancel", exact=True).click()
    asked.wait_for(state="hidden")
    assert state_of(row) == before, "cancelled, and something changed"

    told = confirm(ask(), office)

    check_page(office)
    messages = office.locator("#main ul.mb-6 > li, main ul.mb-6 > li")
    check_done(name, row, before, told, " ".join(messages.all_inner_texts()))


def is_on_list(name: str) -> bool:
    page, action = ACTIONS[name]
    return action in (page.actions or ())


def ask_by_http(client: Client, name: str, row):
    """Open the dialog of the row's page, or the page that follows the list."""
    _page, action = ACTIONS[name]
    if not is_on_list(name):
        return client.get(dialog_url(action, row))
    chosen = {"action": action, "_selected_action": row.pk}
    return client.post(list_url(type(row)), chosen)


def look_of(asked) -> object:
    """Return the template of the page that asks, or the fields of the dialog."""
    return getattr(asked, "template_name", None) or tuple(
        field.html_name for field in asked.context["form"].visible_fields()
    )


def press_by_http(client: Client, name: str, row) -> None:
    _page, action = ACTIONS[name]
    on_list = is_on_list(name)
    opened = client.get(list_url(type(row)) if on_list else change_url(row))
    read_text(opened)
    button = f'<option value="{action}"' if on_list else f'hx-get="[^"]*/{action}/"'
    assert re.search(button, opened.text), "there is no button"

    before, told = state_of(row), ""
    answer = ask_by_http(client, name, row)
    for _ in range(3):
        told += read_text(answer)
        filled = answers_of_page(answer) if on_list else answers(answer.context["form"])
        answer = client.post(answer.request["PATH_INFO"], filled)
        if answer.status_code == 302:
            break
    assert answer.status_code == 302, told

    messages: list[str] = []
    if not answer.url.endswith(".pdf"):
        answer = client.get(answer.url)
        read_text(answer)
        messages = [str(message) for message in answer.context["messages"]]
    check_done(name, row, before, told, " ".join(messages))


def answers(form) -> dict[str, object]:
    """Return what the form holds, and what a person types into its fields."""
    held = {field.html_name: field.value() for field in form}
    for field in form.visible_fields():
        name = field.html_name
        if name in TYPED and not (name == "amount" and held[name]):
            held[name] = TYPED[name].format(next(number))
    return {name: value for name, value in held.items() if value is not None}


def answers_of_page(asked) -> dict[str, list[str]]:
    """Return the same for the page that follows the list: it has no form of Django."""
    held: dict[str, list[str]] = {}
    html = asked.text.partition('class="asked"')[2]
    for name, value in HELD.findall(html):
        held.setdefault(name, []).append(unescape(value))
    if 'name="reason"' in html:
        held["reason"] = [TYPED["reason"]]
    return held


def check_done(name: str, row, before: tuple, told: str, said: str) -> None:
    """Fail if the action left no trace, or a text before or after it is missing."""
    if name in MONEY:
        assert re.search(r"KES -?[\d,]+\.\d\d", told), told
        assert workspace_of(row) in told
        assert re.search("sandbox|production", told), told
    assert state_of(row)[0] > before[0], said or "nothing was done, and nothing said"
    is_quiet = name.endswith((".reveal", ".pdf"))
    assert said or is_quiet, "nothing was said"


def test_every_action_has_a_row():
    assert set(ACTIONS) == set(ROWS)


# A button, and what makes a row of its page whose state its verb refuses
REFUSED = [
    ("approve", failed_company_check),
    ("correct", reviewed),
    ("promote", lambda api: colleague(api, joined=False)),
    ("remove_factor", lambda api: colleague(api, active=False)),
    ("resend_consent", lambda api: waiting_for_payment(api).report),
    ("resend_payment", lambda api: paid(api).report),
]


def test_page_has_no_button_whose_verb_would_refuse(superuser, settings):
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
    for button, make in REFUSED:
        page = superuser.get(change_url(make(customer())))

        assert page.status_code == 200, button
        assert f"/{button}/" not in page.text, button


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
def test_every_action_can_be_cancelled_and_done(office, superuser, taker):
    failed, shown = {}, set()
    for name, make in ROWS.items():
        try:
            row = make(taker if make is refunded_elsewhere else customer())
            before = state_of(row)
            look = look_of(ask_by_http(superuser, name, row))
            assert state_of(row) == before, "opened, and something changed"
            if look in shown:
                press_by_http(superuser, name, row)
            else:
                shown.add(look)
                press(office, name, row)
        except Exception as e:
            failed[name] = str(e)[:400]
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            office.screenshot(path=SCREENSHOTS / f"action-{name}.png")
            office.faults = []
    assert failed == {}, failed


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
def test_every_page_opens_and_fits_its_screen(office, rows, rf, admin_user):
    busy(rows)
    delivery(rows)
    colleague(rows)
    request, failed = rf.get("/"), {}
    request.user = admin_user
    paths = ["/admin/"]
    for model, shown in admin.site._registry.items():
        of_model = model._default_manager.all()[:1]
        adds = shown.has_add_permission(request)
        add = list_url(model) + "add/"
        paths += [list_url(model), *map(change_url, of_model), *([add] if adds else [])]
    for path in paths:
        office.set_viewport_size(PHONE)
        office.goto(office.root + path)
        try:
            see(office, path.strip("/").replace("/", "-"))
        except AssertionError as e:
            failed[path] = str(e)
    assert failed == {}, failed


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_steps_of_a_dialog_and_the_search_fit_a_phone(office, rows):
    office.goto(office.root + change_url(busy(rows)))
    office.get_by_role("link", name="Top up production").click()
    asked = office.get_by_role("dialog")
    asked.locator("form").wait_for()
    see(office, "top-up-1")
    fill(asked)
    asked.locator("[type=submit]").click()
    asked.get_by_text("Balance after").wait_for()
    see(office, "top-up-2")

    office.goto(office.root + "/admin/")
    field = office.get_by_role("searchbox", name="Search for anything")
    field.fill("Wanjiku")
    field.press("Enter")
    office.locator(".found h2").first.wait_for()
    see(office, "search")


def busy(api: Api) -> Workspace:
    """Fill the sections of the workspace's page."""
    configure_receiver(api.workspace)
    name_change(api)
    return api.workspace


def see(office, name: str) -> None:
    """Check the page at the widths of a desk and a phone, and take its pictures."""
    office.wait_for_load_state()
    check_page(office)
    # A script gives a field with two lists its size while the page loads.
    is_sized = office.locator(".selector").count()
    for size in (PHONE,) if is_sized else (PHONE, DESK):
        office.set_viewport_size(size)
        take_picture(office, f"admin-{name}-{size['width']}")
        # Scripts may answer the change of the width.
        until(
            lambda size=size: office.evaluate(WIDTH) <= size["width"],
            lambda: office.evaluate(WIDEST),
            seconds=PATIENCE / 1000,
        )
