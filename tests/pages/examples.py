"""Pages of people without an account, in each state that a link can have.

for example in consent_pages(api):
    walk.see_as(*example)

The pages of an example are looked at before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django.test import Client
from django.utils.timezone import now
from playwright.sync_api import Page

from tests.batches.files import csv_file
from tests.console.test_batches import Sender
from tests.fakes.paystack import FakePaystack
from tests.hosted.conftest import asking
from tests.pages.walk import INVALID, stay, submit_form
from tests.world.brands import logo, save_brand
from tests.world.clients import HOSTED, Api, company, erase, person
from tests.world.console import ConsoleVisitor
from tests.world.corrections import MISTYPED, create_wrong_report, dispute
from tests.world.decisions import Officer, create_ready_report
from tests.world.employer import EMPLOYMENT_INPUTS, create_reference
from tests.world.notices import decline
from tests.world.orders import PAYER, STATUSES, create_report_with_status
from tests.world.packages import create_package
from tests.world.payer import create_payer, poll_providers
from tests.world.payments import poll_checkouts
from tests.world.referee import ANSWER, Referee, visit_as_referee
from tests.world.refunds import create_refund
from tests.world.subject import BORN, Visitor
from verification import links
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.consents.subject_decisions import CONFIRMED_BY_STAFF, Evidence
from verification.notifications.models import Notification
from verification.payments.models import Payment
from verification.payments.refunds import send_refunds
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure, Hold
from verification.privacy.personal_data import erase_reports
from verification.privacy.withdrawals import withdraw
from verification.reports.models import Report, SubjectType
from workspaces.models import Brand

LONG_NAME = "Nyambura Wanjikũ-Otieno " * 8
HOSTILE_NAMES = [LONG_NAME[:199], "محمد بن عبد الله الحسيني", "欧阳娜娜", "N" * 60]
NAMES = [*HOSTILE_NAMES, *(f"Applicant {number}" for number in range(196))]
# Screening is offered once lists are loaded.
PERSONAL_CHECKS = [
    check.name
    for check in CATALOGUE
    if SubjectType.INDIVIDUAL in check.subject_types and check.name != "AML_SCREENING"
]
EVERYTHING = {**EMPLOYMENT_INPUTS, "idNumber": "90000003", "kraPin": "A900000000Z"}


class Example(NamedTuple):
    name: str
    browser: Client
    path: str
    act: Callable[[Page], Any] = stay


def at(name: str, visitor: Visitor, end: str = "", act: Any = stay) -> Example:
    return Example(name, visitor.browser, visitor.page + end, act)


def unfold(page: Page) -> None:
    for summary in page.locator("main summary").all():
        summary.click()


def order_without_details(page: Page) -> None:
    """Choose a check and order it; nothing else is filled in."""
    page.locator("input[name=checks]").first.check()
    # The button comes with the price.
    with page.expect_navigation():
        page.locator("#price button.primary").click()
    assert page.locator(INVALID).count()


def opened(visitor: Visitor) -> Visitor:
    visitor.open()
    return visitor


def confirmed(visitor: Visitor) -> Visitor:
    visitor.enter()
    return visitor


def granted(api: Api, visitor: Visitor) -> Visitor:
    confirmed(visitor).grant()
    api.work()
    return visitor


def consent_pages(api: Api) -> Iterator[Example]:
    ask = asking(api)
    yield at("consent-challenge", opened(ask()))
    yield at("consent-challenge-errors", opened(ask()), act=submit_form)
    yield at("consent-challenge-id", opened(ask(subject={"dateOfBirth": None})))
    yield at("consent-not-me", opened(ask()), "not-me")
    yield at("consent-block", opened(ask()), "block")
    told = opened(ask())
    told.post("not-me")
    yield at("consent-not-me-done", told, "not-me")
    locked = opened(ask())
    for _ in range(5):
        locked.confirm(**BORN | {"year": "1991"})
    yield at("consent-locked", locked)
    for_good = {"locks": 4, "locked_until": None}
    Consent.objects.filter(report=locked.report_id).update(**for_good)
    yield at("consent-locked-for-good", locked)

    asked = confirmed(ask())
    yield at("consent-asked", asked)
    yield at("consent-asked-errors", asked, act=submit_form)
    yield at("consent-asked-notice", asked, act=unfold)
    yield at("consent-decline", asked, "decline")
    asked.post("decline", reason="I did not apply for this")
    yield at("consent-declined", asked)
    name, *_ = HOSTILE_NAMES
    api.workspace.name, usual = name[:100], api.workspace.name
    api.workspace.save()
    hostile = confirmed(
        ask(
            subject={**EVERYTHING, "fullName": name},
            checksRequested=PERSONAL_CHECKS,
            reference="R" * 100,
        )
    )
    yield at("consent-asked-hostile", hostile)
    api.workspace.name = usual
    api.workspace.save()

    draft = confirmed(ask(draft=True))
    draft.grant()
    yield at("consent-granted", draft)
    yield at("consent-withdraw", draft, "withdraw")
    draft.post("withdraw", reason="I changed my mind")
    yield at("consent-withdrawn", draft)
    ready = granted(api, ask())
    yield at("consent-granted-ready", ready)
    evidence = Evidence(confirmed_by=CONFIRMED_BY_STAFF, staff="otieno")
    withdraw(Consent.objects.get(report=ready.report_id).pk, 1, evidence, "A letter")
    yield at("consent-withdrawn-by-staff", ready)
    edited = confirmed(ask(draft=True))
    edited.grant()
    api.post(f"/reports/{edited.report_id}/draft", {"purpose": "Another loan"})
    yield at("consent-replaced-granted", edited)
    coded = opened(ask(subject={"email": "wanjiku@kamau.test"}))
    coded.confirm()
    yield at("consent-code", coded)
    yield at("consent-code-errors", coded, act=submit_form)

    past = {"expires_at": now() - timedelta(hours=1)}
    old = {**past, "link_made_at": now() - timedelta(days=14)}
    renewable = opened(ask(draft=True, subject={"email": "wanjiku@kamau.test"}))
    Consent.objects.filter(report=renewable.report_id).update(**old)
    yield at("consent-expired", renewable)
    renewable.post("new-link")
    yield at("consent-replaced", renewable)
    ended = opened(ask())
    Consent.objects.filter(report=ended.report_id).update(**past)
    yield at("consent-expired-request", ended)
    ended.post("ask-client")
    yield at("consent-expired-request-asked", ended)
    cancelled = opened(ask())
    api.post(f"/reports/{cancelled.report_id}/cancel")
    yield at("consent-cancelled", cancelled)
    yield Example("consent-over", Client(), cancelled.page)
    yield Example("consent-unknown", Client(), "/c/0123456789")
    minor = ask()
    report = Report.objects.get(pk=minor.report_id)
    report.subject = {**report.subject, "dateOfBirth": "2013-03-27"}
    report.save()
    opened(minor).confirm(**BORN | {"year": "2013"})
    yield at("consent-under-age", minor)
    minor.post("under-age")
    yield at("consent-under-age-told", minor)

    firm = {**company(kraPin="P123456789Z"), "consent": HOSTED}
    made = api.create({**firm, "checksRequested": ["KRA_PIN"]})
    director = opened(Visitor(made["consentState"]["consentUrl"]))
    yield at("consent-company-challenge", director)
    yield at("consent-company-challenge-errors", director, act=submit_form)
    director.post("confirm", answer="PVT-12345")
    yield at("consent-company-asked", director)
    yield at("consent-company-asked-errors", director, act=submit_form)
    director.grant(position="Director")
    yield at("consent-company-granted", director)

    face = {"contact_line": "Monday to Friday, 8 am to 5 pm", "colour": "#0a7a3c"}
    brand = save_brand(api.workspace, logo(), **face)
    for colour in ("#0a7a3c", "#000000", "#f100f1"):
        Brand.objects.update(colour=colour)
        yield at(f"consent-branded-{colour[1:]}", confirmed(ask()))
    brand.delete()


def data_pages(api: Api) -> Iterator[Example]:
    ask = asking(api)
    mine = {"email": "wanjiku@kamau.test", **EVERYTHING}
    heavy = granted(api, ask(subject=mine, checksRequested=PERSONAL_CHECKS))
    proving = opened(Visitor(heavy.link))
    proving.page += "data/"
    yield at("data-challenge", proving)
    proving.confirm()
    yield at("data-code", proving)
    heavy.see_data()
    yield at("data", heavy)
    yield at("data-details", heavy, act=unfold)
    yield at("data-others", heavy, "others")
    for name in ("objection", "delete"):
        yield at(f"data-{name}", heavy, name)

    wrong = granted(
        api, ask(subject={"idNumber": MISTYPED}, checksRequested=["IDENTITY"])
    )
    wrong.see_data()
    result = CheckResult.objects.get(report=wrong.report_id)
    yield at("data-wrong", wrong, f"wrong/{result.pk}")
    yield at("data-wrong-errors", wrong, f"wrong/{result.pk}", submit_form)
    wrong.post(f"wrong/{result.pk}", what="The name.", why="Two digits were swapped.")
    correction = result.corrections.get()
    yield at("data-correction", wrong, f"corrections/{correction.pk}")
    yield at("data-corrected", wrong)

    officer = Officer(api)
    declined = granted(api, ask(subject={"email": "wanjiku@kamau.test"}))
    notice = decline(officer, declined.report_id).notice
    declined.see_data()
    yield at("data-notice", declined, f"notices/{notice.pk}")

    objector = granted(api, ask(subject={"idNumber": "71300001"}))
    objector.see_data()
    objector.post("objection")
    yield at("data-objected", objector, "objected")
    yield at("data-after-objection", objector)
    hold = Hold.objects.create(
        report_id=objector.report_id,
        reason="Case 7",
        ends_at=now() + timedelta(days=9),
        held_by="staff",
    )
    objector.post("delete")
    yield at("data-held", objector, "held")
    hold.released_at, hold.released_by = now(), "staff"
    hold.save()
    objector.post("delete")
    yield at("data-deletion", objector, "deletion")
    erase_person(str(Erasure.objects.get(ended_at=None).pk))
    yield at("data-deleted", objector, "deletion")

    unproved = granted(api, ask(subject={"idNumber": "71300002"}))
    unproved.page += "data/"
    report = Report.objects.get(pk=unproved.report_id)
    locked = opened(Visitor(unproved.link))
    locked.page += "data/"
    for _ in range(5):
        locked.confirm(**BORN | {"year": "1991"})
    yield at("data-locked", locked)
    consent = Consent.objects.filter(report=report)
    for_a_day = {"locks": 3, "locked_until": now() + timedelta(days=1)}
    consent.update(**for_a_day)
    yield at("data-locked-for-a-day", locked)
    consent.update(generation=2)
    yield at("data-replaced", locked)
    consent.update(generation=1)
    known, report.subject = report.subject, {"subjectType": "INDIVIDUAL"}
    report.save()
    yield at("data-unproved", unproved)
    report.subject = known
    report.save()
    yield Example("data-without-visit", Client(), locked.page)
    erase_reports([report.pk], now())
    yield at("data-erased", unproved)
    for name, act in (("my-data", stay), ("my-data-errors", submit_form)):
        yield Example(name, Client(), "/my-data", act)
    yield Example("my-data-sent", Client(), "/my-data/sent")
    yield Example("genuine", Client(), path_of(links.genuine_url(report.pk)))
    yield Example("genuine-unknown", Client(), f"/v/{report.pk}/0123456789")
    message = Notification.objects.filter(kind="CONSENT_CODE").latest("id")
    yield Example("block", Client(), path_of(links.block_url(message.pk)))


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def reference_pages(api: Api) -> Iterator[Example]:
    referee = visit_as_referee(create_reference(api))
    referee.open()
    yield at("reference-asked", referee)
    yield at("reference-errors", referee, act=submit_form)
    yield at("reference-decline", referee, "decline")
    yield at("reference-block", referee, "block")
    referee.post("submit", **ANSWER)
    yield at("reference-submitted", referee)
    name = HOSTILE_NAMES[0]
    declining: Referee = visit_as_referee(
        create_reference(api, fullName=name, employerName="E" * 100, idNumber="1234567")
    )
    declining.open()
    yield at("reference-hostile", declining)
    declining.post("decline")
    yield at("reference-declined", declining)


def payment_pages(api: Api) -> Iterator[Example]:
    due = create_payer(api, reference="LN-2041")
    yield at("payment-due", due, act=unfold)
    yield at("payment-block", due, "block")
    third = create_payer(api, paymentMode="THIRD_PARTY", payer=PAYER)
    yield at("payment-of-another", third)
    yield Example("payment-sandbox-checkout", third.browser, third.pay())
    yield at("payment-began", third)
    paid = create_payer(api)
    paid.come_back(paid.choose("pay"))
    yield Example("payment-confirming", paid.browser, paid.path)
    poll_providers()
    yield at("payment-paid", paid)
    create_refund(paid.checkout, 50)
    send_refunds()
    yield at("payment-given-back", paid)
    for choice in ("fail", "cancel", "twice", "more", "less"):
        payer = create_payer(api)
        payer.come_back(payer.choose(choice))
        poll_providers()
        yield Example(f"payment-{choice}", payer.browser, payer.path)
    waiting = create_payer(api, consent=HOSTED)
    yield at("payment-waits", waiting)
    past = {"expires_at": now() - timedelta(hours=1)}
    old = {**past, "link_made_at": now() - timedelta(days=14)}
    renewable = create_payer(api, draft=True)
    Payment.objects.filter(report=renewable.report_id).update(**old)
    yield at("payment-expired", renewable)
    renewable.post("new-link")
    yield at("payment-replaced", renewable)
    expired = create_payer(api)
    Payment.objects.filter(report=expired.report_id).update(**past)
    yield at("payment-expired-request", expired)
    ended = create_payer(api)
    api.post(f"/reports/{ended.report_id}/cancel")
    yield at("payment-ended", ended)
    yield Example("payment-over", Client(), ended.page)
    yield Example("payment-unknown", Client(), "/p/0123456789")

    owner = opened(Visitor(links.top_up_url(api.account.pk)))
    yield at("top-up", owner)
    yield at("top-up-errors", owner, act=submit_form)


def provider_pages(api: Api, paystack: FakePaystack) -> Iterator[Example]:
    """The payer's pages of a prompt of M-Pesa."""
    payer = create_payer(api)
    yield at("payment-prompt", payer)
    payer.post("prompt", phone="0712 345 678")
    yield at("payment-prompt-waiting", payer)
    paystack.end_prompt([*paystack.transactions][-1], "Request cancelled by user")
    poll_checkouts(payer.checkout)
    yield at("payment-prompt-cancelled", payer)


def reports(api: Api) -> Iterator[tuple[str, str]]:
    """Yield names and ids of reports in every state, of people with hostile names."""
    for status in STATUSES:
        name = status.lower().replace(" ", "-").replace("_", "-")
        yield name, create_report_with_status(api, status)
    for number, name in enumerate(HOSTILE_NAMES):
        subject = person(fullName=name, idNumber=f"7200000{number}")
        item = {**subject, "purpose": "P" * 300, "reference": "R" * 100}
        made = api.create(item)["id"]
        api.work()
        yield f"name-{number}", made
    many = {**person(**EVERYTHING), "checksRequested": PERSONAL_CHECKS}
    made = api.create(many)["id"]
    api.work()
    flags = [
        {"code": code, "severity": severity, "message": f"{code} at the source"}
        for code, severity in (
            ("DECEASED", "HIGH"),
            ("NAME_MISMATCH", "MEDIUM"),
            ("DOB_MISMATCH", "LOW"),
        )
    ]
    for result in CheckResult.objects.filter(report=made, finding__isnull=False):
        result.finding = {**result.finding, "flags": flags * 3 + flags[:1]}
        result.save()
    yield "ten-flags", made
    wrong = create_wrong_report(api)
    dispute(wrong)
    yield "disputed", wrong
    restricted = create_ready_report(api, "71300009")
    Report.objects.filter(pk=restricted).update(restricted_at=now())
    yield "restricted", restricted
    erased = create_ready_report(api, "22222222")
    erase(api, erased)
    yield "erased", erased
    for number in range(40):
        title = f"{HOSTILE_NAMES[0][:50]} {number}"
        create_package(f"p{number}", workspace=api.workspace, display_name=title)


def files(owner: ConsoleVisitor) -> Iterator[tuple[str, str]]:
    """Yield names and paths of the steps by which a file of 200 people is ordered."""
    people = [[name, f"{93_000_000 + n}", f"LN-{n}"] for n, name in enumerate(NAMES)]
    headings = ["Full name", "ID number", "Shirt"]
    sender = Sender(owner)
    sender.send(csv_file(headings, *people))
    yield "columns", sender.page
    headings[2] = "Your reference"
    people[3][1] = people[9][1] = ""
    sender.send(csv_file(headings, *people), "faults.csv")
    yield "faults", sender.page
    people[3][1], people[9][1] = "94000003", "94000009"
    sender.send(csv_file(headings, *people), "applicants.csv")
    yield "quote", sender.page
    sender.press("order")
    yield "progress", sender.page
