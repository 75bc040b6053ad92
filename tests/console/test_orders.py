"""Members order reports in the console, by the rules and verbs of the API."""

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.db import connection
from django.utils.formats import date_format
from django.utils.timezone import localtime, now

from tests.world.clients import Api, approve_workspace, person
from tests.world.console import ConsoleVisitor
from tests.world.orders import (
    PAYER,
    REFUSED,
    count_rows,
    create_report_with_status,
    two_checks,
)
from tests.world.packages import by_package, create_package
from tests.world.payments import pay_report
from tests.world.staff import take_messages
from tests.world.threads import run_at_once
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckDefinition, CheckPackage, CheckResult
from verification.consents.models import Consent
from verification.console.order_form import query_of
from verification.console.order_inputs import Choice, Offer, inputs_of, repair
from verification.console.words import WORDS
from verification.notifications.models import Notification
from verification.payments.models import Payment
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from workspaces import members
from workspaces.models import Account, Client, LedgerEntry, Member, Role

HIDDEN = re.compile(r'<input type="hidden" name="quote" value="([^"]+)"')
DIGEST = re.compile(r'name="digest" value="([0-9a-f]+)"')
WANJIKU = {
    "subject-fullName": "Wanjiku Kamau",
    "subject-idNumber": "12345678",
    "purpose": "Loan application",
    "reuse": "on",
}


def attested() -> dict[str, str]:
    given = localtime(timezone=NAIROBI) - timedelta(days=1)
    return {
        "consent-obtained": "on",
        "consent-obtainedAt": f"{given:%Y-%m-%dT%H:%M}",
        "consent-method": "PAPER_FORM",
        "consent-policyVersion": "2026-01",
    }


def choice(*checks: str, **more: str) -> Choice:
    chosen = {
        "subject_type": "INDIVIDUAL",
        "country": "KE",
        "package": "",
        "consent": "CUSTOMER_ATTESTED",
        "payment_mode": "SELF",
        **more,
    }
    single = () if chosen["package"] else checks or ("IDENTITY",)
    return Choice(checks=single, **chosen)


class Officer:
    """A member who fills in the page of an order."""

    def __init__(self, visitor: ConsoleVisitor, chosen: Choice, environment="sandbox"):
        self.visitor, self.environment = visitor, environment
        self.query = query_of(chosen)
        self.url = f"{visitor.url('reports-new', environment)}?{self.query}"
        self.html = ""
        # What the page holds: the choice, and what was typed last
        self.fields: dict[str, Any] = {
            **dict(parse_qsl(self.query, keep_blank_values=True)),
            "checks": list(chosen.checks),
        }

    def open(self) -> str:
        self.html = self.visitor.http.get(self.url).content.decode()
        return self.html

    def press(self, step: str, **fields: str) -> str:
        """Press a button; return the page, or the messages of the page after it."""
        answer = self.post(step, **fields)
        if answer.status_code == 303:
            return " ".join(take_messages(answer))
        assert answer.status_code == 200, answer.status_code
        self.html = answer.content.decode()
        return self.html

    def open_after(self, step: str) -> str:
        """Press a button; return the page to which it leads."""
        page: str = self.visitor.http.get(self.post(step)["Location"]).content.decode()
        return page

    def do(self, step: str, **fields: str) -> None:
        """Press a button that leads to another page, and do not open it."""
        answer = self.post(step, **fields)
        assert answer.status_code == 303, answer.status_code

    def post(self, step: str, **fields: str):
        self.fields |= fields
        found = HIDDEN.search(self.html)
        quote = {"quote": unescape(found[1])} if found else {}
        form = {**self.fields, "step": step, **quote}
        return self.visitor.http.post(self.url, form)

    def quote(self, **fields: str) -> str:
        """Show the price of an order with these details."""
        self.html = ""
        return self.press("update", **fields)


@pytest.fixture
def officer(admin: ConsoleVisitor) -> Officer:
    """An administrator who orders IDENTITY with a consent on paper."""
    return Officer(admin, choice())


def inputs(html: str) -> list[str]:
    names = re.findall(r'name="((?:subject|consent|payer)-\w+|purpose|reuse)"', html)
    return [name.removeprefix("subject-") for name in dict.fromkeys(names)]


CONTACTS = ["email", "phone"]
ATTESTED = ["obtained", "obtainedAt", "method", "policyVersion", "evidenceReference"]


SHOWN_FOR = [
    (choice(consent=""), ["fullName", "idNumber", "dateOfBirth", *CONTACTS]),
    (
        choice(),
        [
            *["fullName", "idNumber", "dateOfBirth", *CONTACTS],
            *[f"consent-{name}" for name in ATTESTED],
        ],
    ),
    (
        choice("IDENTITY", "CRB_FULL", consent=""),
        ["fullName", "idNumber", "dateOfBirth", *CONTACTS],
    ),
    (choice("KRA_PIN", consent=""), ["fullName", "kraPin", "idNumber", *CONTACTS]),
    (choice("AML_SCREENING", consent=""), ["fullName", "dateOfBirth", *CONTACTS]),
    (
        choice(consent="SERVICE_HOSTED"),
        ["fullName", "idNumber", "dateOfBirth", *CONTACTS],
    ),
    (
        choice("BUSINESS_VERIFICATION", subject_type="COMPANY"),
        [
            *["fullName", "registrationNumber", "postalAddress", "postalCode"],
            *CONTACTS,
        ],
    ),
    (
        choice("KRA_PIN", subject_type="COMPANY", consent=""),
        ["fullName", "kraPin", *CONTACTS],
    ),
    (
        choice("AML_SCREENING", subject_type="COMPANY", consent="SERVICE_HOSTED"),
        ["fullName", "registrationNumber", *CONTACTS],
    ),
    (
        choice(consent="", payment_mode="THIRD_PARTY"),
        [
            *["fullName", "idNumber", "dateOfBirth", *CONTACTS],
            *["payer-name", "payer-email", "payer-phone"],
        ],
    ),
]


def test_form_shows_exactly_what_the_chosen_checks_need(admin):
    CheckDefinition.objects.update(active=True)
    offer = Offer.to(Client(admin.workspace, admin.workspace.accounts.first(), ""))
    for chosen, shown in SHOWN_FOR:
        names = [one.name for one in inputs_of(chosen, offer)]
        asked = [name.removeprefix("subject-") for name in names if name != "reference"]
        assert asked == [*shown, "purpose", "reuse"], chosen
    page = Officer(admin, chosen).open()
    assert inputs(page) == [*shown, "purpose", "reuse"]


def test_check_says_in_the_words_of_staff_what_it_does(admin):
    short = "Name and date of birth in the national register of persons"
    edited = "Compares the person with our own list"
    assert short in admin.page("reports-new")

    CheckDefinition.objects.filter(name="IDENTITY").update(description=edited)

    assert edited in admin.page("reports-new")
    assert short not in admin.page("reports-new")


def test_order_is_quoted_and_then_created_once(officer, api: Api):
    officer.open()
    before = count_rows()
    contacts = {"subject-email": "wanjiku@kamau.test", "subject-phone": "0712 345 678"}
    quote = officer.quote(**WANJIKU, **attested(), **contacts)
    assert "Order for KES 50.00" in quote
    for address in re.findall(r'(?:href|action)="([^"]*)"', quote):
        assert "Wanjiku" not in address
        assert "12345678" not in address
    assert count_rows() == before

    page = officer.press("order")

    assert "Ordered for KES 50.00." in page
    report = Report.objects.get()
    assert report.status == "RUNNING"
    assert report.created_by == f"member {officer.visitor.member.pk}"
    assert report.subject["fullName"] == "Wanjiku Kamau"
    assert report.subject["email"] == "wanjiku@kamau.test"
    assert report.subject["phone"] == "+254712345678"
    assert report.consent.status == "ATTESTED"
    assert report.consent.attestation["method"] == "PAPER_FORM"
    assert LedgerEntry.objects.get(report_id=report.pk).amount == Decimal(-50)
    events = AuditEvent.objects.filter(action="report.ordered")
    assert events.get().object_id == str(report.pk)
    api.work()
    assert api.report(str(report.pk))["status"] == "READY"


def test_quote_sent_again_orders_nothing_more(officer):
    quote = officer.quote(**WANJIKU, **attested())
    officer.do("order")

    officer.html = quote
    page = officer.press("order")

    assert "it was ordered once" in page
    assert Report.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_double_click_orders_once(officer):
    officer.quote(**WANJIKU, **attested())

    def click(_number: int) -> int:
        try:
            return officer.post("order").status_code
        finally:
            connection.close()

    assert set(run_at_once(2, click)) == {303}
    assert Report.objects.count() == 1


def test_draft_of_a_quote_is_not_ordered_by_a_step_back(officer):
    quote = officer.quote(**WANJIKU, **attested())
    officer.do("draft")

    officer.html = quote
    page = officer.press("order")

    assert "another order was sent from this page" in page
    assert list(Report.objects.values_list("status", flat=True)) == ["DRAFT"]


def test_changed_price_is_shown_before_anything_is_ordered(officer):
    officer.quote(**WANJIKU, **attested())
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)
    before = count_rows()

    page = officer.press("order")

    assert "the price has changed" in page
    assert "Order for KES 60.00" in page
    assert count_rows() == before
    assert "Ordered for KES 60.00." in officer.press("order")
    assert LedgerEntry.objects.get().amount == Decimal(-60)


def test_result_that_is_used_again_is_named_with_its_day(officer, api: Api):
    api.create({**person(), "checksRequested": ["IDENTITY"]})
    api.work()

    quote = officer.quote(**WANJIKU, **attested())

    today = date_format(localtime(timezone=NAIROBI), "j M Y")
    assert f"The result of {today} is used again" in quote
    assert "<dd>free</dd>" in quote
    assert "Order for KES 50.00" in officer.quote(reuse="")


def test_ticked_box_does_not_reuse_a_reserved_number(officer, api: Api):
    item = {**person(idNumber="90000000"), "checksRequested": ["IDENTITY"]}
    api.create(item)
    api.work()

    quote = officer.quote(**{**WANJIKU, "subject-idNumber": "90000000"}, **attested())

    assert "KES 50.00" in quote
    assert "Every check runs, even" in quote


def test_reuse_that_ended_since_the_quote_is_shown(officer, api: Api):
    api.create({**person(), "checksRequested": ["IDENTITY"]})
    api.work()
    officer.quote(**WANJIKU, **attested())
    long_ago = now() - timedelta(days=91)
    CheckResult.objects.update(completed_at=long_ago)

    page = officer.press("order")

    assert "the price has changed" in page
    assert Report.objects.count() == 1


def test_report_about_the_same_subject_is_pointed_out(officer, api: Api):
    made = api.create(person())["id"]

    assert made in officer.quote(**WANJIKU, **attested())
    other = {**WANJIKU, "subject-idNumber": "22222222"}
    assert made not in officer.quote(**other, **attested())


def test_report_about_the_same_subject_is_shown_before_the_order(officer, api: Api):
    officer.quote(**{**WANJIKU, "reuse": ""}, **attested())
    made = api.create(person())["id"]

    page = officer.press("order")

    assert "there is a report about this subject from <time" in page
    assert made in page
    assert Report.objects.count() == 1
    assert "Ordered for KES 50.00." in officer.press("order")


def test_report_about_the_same_name_alone_is_shown_before_the_order(admin, api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    officer = Officer(admin, choice("AML_SCREENING"))
    named = {**WANJIKU, "subject-idNumber": "", "subject-fullName": "WANJIKU  Kamau"}
    officer.quote(**named, **attested())
    screening = {"checksRequested": ["AML_SCREENING"]}
    made = api.create(person(idNumber=None) | screening)["id"]

    page = officer.press("order")

    assert "there is a report about this subject from <time" in page
    assert made in page
    assert made not in officer.quote(**{"subject-fullName": "Otieno Kamau"})


def test_subject_of_many_reports_is_ordered_again(officer, api: Api):
    for _ in range(4):
        api.create(person())

    officer.quote(**{**WANJIKU, "reuse": ""}, **attested())

    assert "Ordered for KES 50.00." in officer.press("order")


def test_order_takes_what_was_typed_after_the_price(officer):
    officer.press("update")
    assert "Order for KES 50.00" in officer.html

    page = officer.press("order", **WANJIKU, **attested())

    assert "Ordered for KES 50.00." in page
    assert Report.objects.get().subject["fullName"] == "Wanjiku Kamau"


def test_order_of_another_price_than_the_page_showed_is_quoted(officer):
    officer.quote(**WANJIKU, **attested())

    page = officer.press("order", checks=["IDENTITY", "KRA_PIN"])

    assert "the price has changed" in page
    assert "Order for KES 100.00" in page
    assert not Report.objects.exists()


def test_missing_details_are_no_errors_of_an_update(officer):
    page = officer.press("update", **{"subject-email": "wanjiku@kamau"})

    assert "Fill in “" not in page
    assert "E-mail address: Enter an e-mail address" in page
    assert ">E-mail address (optional)</label>" in page
    assert "Order for KES 50.00" in page


def test_update_follows_the_choice_and_keeps_what_is_typed(officer):
    officer.press("update", **WANJIKU)

    page = officer.press("update", checks=["KRA_PIN"])

    assert 'value="12345678"' in page
    assert "subject-kraPin" in page
    page = officer.press("update", subject_type="COMPANY", checks=["IDENTITY"])
    assert "Error:" not in page
    assert "Choose a package or checks to see the price." in page
    assert 'value="Wanjiku Kamau"' in page


def test_choice_of_nothing_is_not_ordered(admin):
    officer = Officer(admin, Choice("INDIVIDUAL", "KE", (), "", "", "SELF"))

    assert "Checks: Choose at least one" in officer.press("order", **WANJIKU)
    assert not Report.objects.exists()


# Field -> what is typed, and what is said; each list is a form of its own.
FAULTS = [
    {
        "subject-idNumber": ("", "Fill in “ID number”"),
        "purpose": (" ", "Fill in “Purpose”"),
        "subject-dateOfBirth": ("2999-01-01", "Choose a past day"),
        "consent-obtainedAt": ("2999-01-01T10:00", "Choose a time in the past"),
        "consent-method": ("", "Choose “How it was given”"),
    },
    {
        "subject-fullName": ("", "Fill in “Full name”"),
        "subject-idNumber": ("1" * 65, "Use at most 64 characters"),
        "subject-dateOfBirth": ("x", "Choose a day"),
        "consent-obtainedAt": ("", "Fill in “When it was given”"),
    },
    {
        "subject-fullName": ("a\0b", "Null characters"),
        "consent-method": ("x", "Choose one from the list"),
    },
    {
        "consent-obtained": ("", "Confirm it"),
        "consent-obtainedAt": ("", "Fill in “When it was given”"),
        "consent-method": ("", "Choose “How it was given”"),
    },
    {
        "subject-fullName": ("..", "This is not a name"),
        "subject-idNumber": ("", "Fill in “ID number”"),
        "consent-method": ("x", "Choose one from the list"),
        "consent-obtainedAt": ("", "Fill in “When it was given”"),
    },
]


def test_faults_are_shown_at_their_fields(officer):
    officer.open()
    for faults in FAULTS:
        typed = {at: text for at, (text, _says) in faults.items()}
        right = {**WANJIKU, "subject-dateOfBirth": "", **attested()}
        page = officer.press("order", **{**right, **typed})

        assert "<title>Error:" in page
        for at, (_typed, says) in faults.items():
            assert re.search(rf'<a href="#id_{at}">[^<]*{says}', page), at
        assert page.count('<a href="#id_') == len(faults)
        assert 'value="Wanjiku Kamau"' in page or "subject-fullName" in faults
    assert not Report.objects.exists()


def test_faults_name_the_payer_and_what_reaches_them(admin):
    officer = Officer(admin, choice(payment_mode="THIRD_PARTY"))

    officer.open()
    page = officer.press("order", **WANJIKU, **attested())

    assert "Fill in “Name of the payer”" in page
    assert "Enter an e-mail address or a phone number" in page
    assert "Fill in this or “Phone number of the payer”" in page


def test_empty_end_of_an_employment_says_what_it_means(officer):
    page = officer.press("update", checks=["EMPLOYER_VERIFICATION"])

    assert "Leave it empty if the person still works there" in page


def test_minor_is_not_asked_by_us(admin):
    officer = Officer(admin, choice(consent="SERVICE_HOSTED"))
    born = f"{now().year - 10}-01-01"

    officer.open()
    page = officer.press("order", **{**WANJIKU, "subject-dateOfBirth": born})

    assert "The subject is under 18" in page


def test_check_that_was_withdrawn_since_the_quote_is_not_ordered(officer):
    officer.quote(**WANJIKU, **attested())
    CheckDefinition.objects.filter(name="IDENTITY").update(active=False)

    page = officer.press("order")

    assert "A chosen check is not offered any more" in page
    assert not Report.objects.exists()


def test_hosted_consent_is_asked_for_at_the_named_address(admin):
    officer = Officer(admin, choice(consent="SERVICE_HOSTED"))
    address = {"subject-email": "wanjiku@kamau.test"}

    assert "once the person agrees" in officer.quote(**WANJIKU, **address)
    page = officer.open_after("order")

    assert Report.objects.get().status == "PENDING_CONSENT"
    sent = Notification.objects.get(kind="CONSENT_REQUEST")
    assert sent.recipient == "wanjiku@kamau.test"
    assert "/c/" in page


def test_subject_without_an_address_gets_the_link_from_the_member(admin):
    officer = Officer(admin, choice(consent="SERVICE_HOSTED"))

    assert "Without an address, you hand the link over" in officer.quote(**WANJIKU)
    assert "if you hand it over yourself" in officer.open_after("order")


def test_payer_is_named_and_the_workspace_is_not_charged(admin):
    for mode, payer in {
        "CANDIDATE": {"subject-email": "wanjiku@kamau.test"},
        "THIRD_PARTY": {f"payer-{name}": text for name, text in PAYER.items()},
    }.items():
        officer = Officer(admin, choice(payment_mode=mode))

        quote = officer.quote(**{**WANJIKU, "reuse": ""}, **attested(), **payer)
        assert "its links are sent" in quote, mode
        assert "Ordered." in officer.press("order"), mode

        assert Report.objects.latest("id").status == "PENDING_PAYMENT", mode
    assert not LedgerEntry.objects.exists()


def test_draft_waits_for_its_consent(admin):
    officer = Officer(admin, choice(consent=""))
    assert 'value="order"' not in officer.quote(**WANJIKU)

    page = officer.open_after("draft")

    assert "The draft is saved." in page
    assert "The draft names no consent yet. Edit it to add one." in page
    assert "It comes later." in page
    assert AuditEvent.objects.filter(action="report.drafted").count() == 1
    report = Report.objects.get()
    assert report.status == "DRAFT"
    told = admin.messages_after("reports-launch", {}, report=report.pk)
    assert told == ["The draft names no consent yet. Edit it to add one."]

    edit(admin, report, choice(), **WANJIKU, **attested())
    assert Consent.objects.get().status == "ATTESTED"


def test_company_check_needs_no_consent(admin):
    chosen = choice("BUSINESS_VERIFICATION", subject_type="COMPANY")
    officer = Officer(admin, chosen)
    company = {
        "subject-fullName": "Baobab Traders Limited",
        "subject-registrationNumber": "PVT-12345",
        "purpose": "Supplier onboarding",
    }

    assert "None of these checks needs a consent." in officer.quote(**company)
    officer.do("order")

    assert not Consent.objects.exists()
    assert Report.objects.get().status == "RUNNING"


def test_language_is_changed_without_losing_the_choice(officer):
    found = re.search(r'href="([^"]*lang=sw)"', officer.open())

    page = officer.visitor.http.get(
        officer.url.partition("?")[0] + unescape(found[1])
    ).content.decode()

    assert 'value="IDENTITY" id="id_checks_0" checked' in page
    assert 'name="subject-idNumber"' in page


def test_unreadable_choice_is_asked_for_again(admin):
    for query in ("?checks=X", "?subject_type=DOG"):
        answer = admin.http.get(admin.url("reports-new") + query)

        assert answer.status_code == 200
        assert "Choose a package or checks" in answer.content.decode()


def test_quote_of_another_member_or_environment_orders_nothing(
    officer, owner, live_api
):
    approve_workspace(owner.workspace)
    officer.quote(**WANJIKU, **attested())
    mine = officer.html
    colleague = Officer(owner, choice())
    live = Officer(officer.visitor, choice(), "production")

    for other in (colleague, live):
        other.html = mine
        assert "Look at the price, then order" in other.press(
            "order", **WANJIKU, **attested()
        )

    officer.html = mine.replace('name="quote" value="', 'name="quote" value="x')
    assert "Look at the price, then order" in officer.press("order")
    assert not Report.objects.exists()


def test_old_quote_is_shown_again(officer, settings, monkeypatch):
    officer.quote(**WANJIKU, **attested())
    later = now() + timedelta(hours=25)
    monkeypatch.setattr("django.core.signing.time.time", later.timestamp)

    page = officer.press("order")

    assert "Nothing is ordered yet" in page
    assert not Report.objects.exists()


def test_production_waits_for_the_approval(admin, live_api):
    answer = admin.get("reports-new", "production")
    assert answer.status_code == 403
    assert "Production is not open yet" in answer.content.decode()
    assert admin.get("reports-batch-new", "production").status_code == 403
    assert "Order a report" not in admin.page("reports", "production")

    approve_workspace(admin.workspace)
    assert "Order a report" in admin.page("reports", "production")
    assert admin.get("reports-new", "production").status_code == 200


def test_order_in_production_is_of_production_and_needs_money(admin, live_api):
    approve_workspace(admin.workspace)
    officer = Officer(admin, choice(), "production")
    account = live_api.account

    quote = officer.quote(**WANJIKU, **attested())
    assert "The balance does not cover it" in quote
    assert 'value="order"' not in quote
    page = officer.press("order")
    assert "Nothing is ordered: the balance does not cover it." in page
    assert not Report.objects.exists()

    account.credit_limit = 1000
    account.save()
    officer.quote(**WANJIKU, **attested())
    officer.do("order")
    assert Report.objects.get().environment == "production"


def test_sandbox_number_is_refused_in_production(admin, live_api):
    approve_workspace(admin.workspace)
    officer = Officer(admin, choice(), "production")

    fields = {**WANJIKU, "subject-idNumber": "90000000"}
    page = officer.quote(**fields, **attested())

    assert "This number is for the sandbox only" in page


def test_role_taken_since_the_quote_orders_nothing(officer, owner):
    officer.quote(**WANJIKU, **attested())
    members.change_role(owner.member, officer.visitor.member, Role.VIEWER)

    answer = officer.post("order")

    assert answer.status_code == 403
    page = answer.content.decode()
    assert "Your role does not allow this" in page
    assert "Nothing was changed." in page
    assert not Report.objects.exists()


def test_role_taken_while_the_order_is_under_way_is_noticed(owner, admin):
    stale = admin.member
    members.change_role(owner.member, Member.objects.get(pk=stale.pk), Role.VIEWER)
    with pytest.raises(members.NotAllowed):
        members.require_present(stale, members.Permission.ORDER)

    members.remove(owner.member, Member.objects.get(pk=stale.pk))
    with pytest.raises(members.NotAllowed):
        members.require_present(stale, members.Permission.SEE)


@pytest.mark.usefixtures("new_minute")
def test_too_many_orders_a_minute_are_refused(officer, monkeypatch):
    monkeypatch.setattr("verification.console.order_pages.ORDERS_PER_MINUTE", 1)
    monkeypatch.setattr("verification.console.order_pages.PRICES_PER_MINUTE", 1)
    officer.quote(**WANJIKU, **attested())
    assert officer.post("update").status_code == 429
    officer.do("order")

    answer = officer.post("order")

    assert answer.status_code == 429
    assert answer["Retry-After"]


# Packages


def test_package_is_ordered_at_its_own_price(admin, api: Api):
    package = create_package(price=Decimal("120.00"))
    officer = Officer(admin, choice(package=package.name))
    officer.open()
    assert package.display_name in officer.html

    quote = officer.quote(**WANJIKU, **attested())
    assert "KES 120.00" in quote
    officer.do("order")

    report = Report.objects.get()
    assert report.package == package.name
    assert sum(LedgerEntry.objects.values_list("amount", flat=True)) == -120
    api.work()
    page = admin.page("reports-again", report=report.pk)
    assert f'value="{package.name}" id="id_package_0" checked' in page


def test_package_for_persons_is_not_offered_for_a_company(admin):
    package = create_package()

    assert package.display_name in admin.page("reports-new")
    query = {"subject_type": "COMPANY"}
    assert package.display_name not in admin.page("reports-new", query=query)


def test_package_takes_the_place_of_checks_that_were_ticked(admin):
    package = create_package(price=Decimal("120.00"))
    officer = Officer(admin, choice())

    assert "Order for KES 120.00" in officer.press("update", package=package.name)
    officer.do("order", **WANJIKU, **attested())

    assert Report.objects.get().package == package.name


def test_many_packages_drop_down(admin):
    packages = [
        create_package(f"package-{number}", price=f"{number}") for number in range(9)
    ]
    officer = Officer(admin, choice(package=packages[7].name))

    page = officer.open()

    assert '<select name="package"' in page
    assert f"{packages[8].display_name}: KES 8.00" in page
    assert "Order for KES 7.00" in page


def test_package_that_ended_since_the_quote_is_not_ordered(admin):
    package = create_package()
    officer = Officer(admin, choice(package=package.name))
    officer.quote(**WANJIKU, **attested())
    package.active = False
    package.save()

    assert "The chosen package is not offered any more" in officer.press("order")
    assert not Report.objects.exists()


# Actions of a report


def actions_on(page: str, report: str) -> set[str]:
    names = "launch|edit|retry|cancel|again|consent-link|payment-link"
    return set(re.findall(rf"{report}/({names})\"", page))


OFFERED = {
    "DRAFT": {"launch", "edit", "cancel", "again"},
    "PENDING_CONSENT": {"consent-link", "cancel", "again"},
    "PENDING_PAYMENT": {"payment-link", "cancel", "again"},
    "RUNNING": {"cancel", "again"},
    "PARTIAL on the way": {"cancel", "again"},
    "PARTIAL ended": {"retry", "again"},
    "READY": {"again"},
    "FAILED": {"retry", "again"},
    "CANCELLED": {"again"},
}


def test_report_says_what_it_waits_for_and_offers_what_is_possible(owner, api: Api):
    moving = {"PENDING_CONSENT", "PENDING_PAYMENT", "RUNNING", "PARTIAL on the way"}
    for status, actions in OFFERED.items():
        made = create_report_with_status(api, status)
        page = owner.page("reports-detail", report=made)
        assert actions_on(page, made) == actions, status
        # The page of a report that stands still asks nothing.
        assert ("hx-get" in page.partition("<main")[2]) == (status in moving), status
        name = status.partition(" ")[0]
        assert re.search(rf"\b{WORDS['report'][name]}\b", page), status


def test_draft_is_launched_once_for_the_price_shown(owner, api: Api):
    made = create_report_with_status(api, "DRAFT")
    page = owner.page("reports-launch", report=made)
    assert "KES 100.00" in page
    shown = {"digest": DIGEST.search(page)[1]}

    first = owner.messages_after("reports-launch", shown, report=made)
    second = owner.messages_after("reports-launch", shown, report=made)

    assert first == ["Launched: the checks run now."]
    assert second == ["The report is launched already."]
    assert LedgerEntry.objects.filter(kind="CHARGE").count() == 2
    assert AuditEvent.objects.filter(action="report.launched").count() == 1


def test_draft_is_not_launched_for_another_price(owner, api: Api):
    made = create_report_with_status(api, "DRAFT")
    page = owner.page("reports-launch", report=made)
    shown = {"digest": DIGEST.search(page)[1]}
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)

    told = owner.messages_after("reports-launch", shown, report=made)

    assert told == ["The price has changed, so nothing was done. Look again."]
    assert api.report(made)["status"] == "DRAFT"
    assert not LedgerEntry.objects.exists()


def test_draft_that_was_free_is_not_offered_for_launch(owner, api: Api):
    create_package(price=0)
    free = {**by_package(email="w@x.test"), "paymentMode": "CANDIDATE"}
    made = api.create(free, draft=True)["id"]
    CheckPackage.objects.update(price=200)

    answer = owner.get("reports-launch", report=made)

    assert take_messages(answer) == [
        "It is not paid. If the payer got money back or has no link, edit the draft."
    ]


def test_failed_checks_run_again_once(owner, api: Api):
    made = create_report_with_status(api, "FAILED")
    page = owner.page("reports-retry", report=made)
    assert "KES 100.00" in page
    shown = {"digest": DIGEST.search(page)[1]}

    assert owner.messages_after("reports-retry", shown, report=made) == [
        "The failed checks run again."
    ]
    api.work()
    assert owner.messages_after("reports-retry", shown, report=made) == [
        "The price has changed, so nothing was done. Look again."
    ]
    attempts = CheckResult.objects.values_list("attempt", flat=True)
    assert set(attempts) == {2}


def test_cancelled_report_gives_the_price_back(owner, api: Api):
    made = create_report_with_status(api, "RUNNING")
    page = owner.page("reports-cancel", report=made)
    assert "KES 100.00" in page
    shown = {"digest": re.findall('name="digest" value="(.+?)"', page)[0]}

    assert owner.messages_after("reports-cancel", {"digest": "x"}, report=made) == [
        "It has changed since you looked. Look again."
    ]
    assert owner.messages_after("reports-cancel", shown, report=made) == [
        "The report is cancelled."
    ]
    assert owner.messages_after("reports-cancel", shown, report=made) == [
        "The report has ended and stays as it is."
    ]
    assert sum(LedgerEntry.objects.values_list("amount", flat=True)) == 0
    assert AuditEvent.objects.filter(action="report.cancelled").count() == 1


def test_failed_check_does_not_stay_billed_when_its_report_is_cancelled(
    owner, api: Api
):
    made = api.create(two_checks(idNumber=REFUSED, kraPin="A900000006Z"))["id"]
    api.work()
    names = CheckResult.objects.filter(status="FAILED").values_list("name", flat=True)
    assert list(names) == ["IDENTITY"]

    page = owner.page("reports-cancel", report=made)

    assert "National identity" not in page
    assert "KES 50.00" in page
    digest = re.findall('name="digest" value="(.+?)"', page)[0]
    owner.post("reports-cancel", {"digest": digest}, report=made)
    assert api.account.balance == 0


def test_new_link_of_somebody_without_an_address_is_handed_over(owner, api: Api):
    for status, person_asked, name, path in (
        ("PENDING_CONSENT", "subject", "reports-consent-link", "/c/"),
        ("PENDING_PAYMENT", "payer", "reports-payment-link", "/p/"),
    ):
        made = create_report_with_status(api, status)
        for model in (Consent, Payment):
            model.objects.update(link_made_at=now() - timedelta(minutes=2))

        assert owner.messages_after(name, report=made) == [
            "Hand over the new link below. The old one stops working."
        ]
        page = owner.page("reports-detail", report=made)
        assert path in page
        assert f"Make a new link for the {person_asked}" in page


def test_number_is_put_right_as_in_files_and_a_day_is_none(officer):
    client = Client(officer.visitor.workspace, Account.objects.first(), "")
    found = inputs_of(choice(), Offer.to(client))
    (number,) = [one for one in found if one.name == "subject-idNumber"]
    for typed in ("31 234 561", "31-234-561", "3123 4561", "31 23 4561", "3123-45-61"):
        assert repair(typed, number, choice()) == "31234561", typed
    for day in ("1990-03-27", "27-3-1990", "1990-3-7", "27 03 1990", "1990 3 27"):
        assert repair(day, number, choice()) == day

    page = officer.quote(**{**WANJIKU, "subject-idNumber": day}, **attested())
    assert "Enter the number as on the ID card" in page
    officer.quote(**{"subject-idNumber": " 31,234,561 "})
    officer.do("order")
    assert Report.objects.get().subject["idNumber"] == "31234561"


def test_links_are_sent_again_once_a_minute(owner, api: Api):
    made = create_report_with_status(api, "PENDING_CONSENT")
    report = Report.objects.get(pk=made)
    report.subject = {**report.subject, "email": "wanjiku@kamau.test"}
    report.save()
    assert owner.messages_after("reports-consent-link", report=made) == [
        "A link was made less than a minute ago. Try again in a minute."
    ]
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))

    assert owner.messages_after("reports-consent-link", report=made) == [
        "The subject gets a new link. The old one stops working."
    ]
    assert Consent.objects.get().generation == 2


def test_payment_link_is_refused_for_a_report_without_payment(owner, api: Api):
    made = create_report_with_status(api, "READY")

    told = owner.messages_after("reports-payment-link", report=made)

    assert told == ["No link can be sent now."]


def test_report_is_ordered_again_with_its_details(owner, api: Api):
    made = create_report_with_status(api, "READY")

    page = owner.page("reports-again", report=made)

    assert 'value="Wanjiku Kamau"' in page
    assert 'value="12345678"' in page
    assert "Loan application" in page
    # The member attests the consent of each order.
    assert 'name="consent-obtained" id="id_consent-obtained">' in page


def test_check_that_is_not_offered_any_more_is_left_out_of_another_order(
    owner, api: Api
):
    made = create_report_with_status(api, "READY")
    CheckDefinition.objects.filter(name="KRA_PIN").update(active=False)
    page = owner.page("reports-again", report=made)
    assert 'value="IDENTITY" id="id_checks_0" checked' in page
    assert 'value="KRA_PIN"' not in page

    CheckDefinition.objects.filter(name="IDENTITY").update(active=False)
    page = owner.page("reports-again", report=made)
    assert "Choose a package or checks to see the price." in page


def edit(
    visitor: ConsoleVisitor, report: Report | str, chosen: Choice, **fields: str
) -> str:
    """Save the form of a draft; return the page, or the messages of that after it."""
    pk = report.pk if isinstance(report, Report) else report
    url = visitor.url("reports-edit", report=pk)
    form = {**Officer(visitor, chosen).fields, "step": "save", **fields}
    answer = visitor.http.post(url, form)
    assert answer.status_code in {200, 303}
    if answer.status_code == 303:
        return " ".join(take_messages(answer))
    page: str = answer.content.decode()
    return page


def test_draft_is_edited_and_the_rest_of_it_stays(owner, api: Api):
    item = person(email="wanjiku@kamau.test", firstName="Wanjiku", lastName="Kamau")
    item = {**item, "checksRequested": ["IDENTITY"], "reference": "LN-1"}
    made = api.create({**item, "draft": True})["id"]
    attestation = Consent.objects.get().attestation
    page = owner.page("reports-edit", report=made)
    typed = dict(re.findall(r'name="([\w-]+)" value="([^"]*)"', page))
    consent = {k: v for k, v in typed.items() if k.startswith("consent-")}
    assert typed["subject-email"] == "wanjiku@kamau.test"

    answer = edit(
        owner,
        made,
        choice(),
        **WANJIKU | {"purpose": "Another loan"},
        **{"subject-email": "wanjiku@kamau.test"},
        **consent | {"consent-obtained": "on", "consent-method": "CUSTOMER_WEB_FORM"},
        reference="LN-1",
    )

    assert "The draft is saved." in answer
    report = Report.objects.get()
    assert report.purpose == "Another loan"
    assert report.subject["email"] == "wanjiku@kamau.test"
    assert report.subject["firstName"] == "Wanjiku"
    # An attestation that was not edited keeps its exact time.
    assert Consent.objects.get().attestation == attestation
    assert AuditEvent.objects.get(action="report.edited").fields == ["purpose"]


def test_edit_of_a_draft_shows_the_price_that_the_draft_keeps(owner, api: Api):
    paid = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)
    pay_report(api, paid)
    create_package(price=Decimal("83.00"))
    by_loan = api.create(by_package(), draft=True)
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=Decimal("75.50"))

    assert "100.00" in owner.page("reports-edit", report=paid["id"])
    assert "83.00" in owner.page("reports-edit", report=by_loan["id"])


def test_unchanged_draft_keeps_its_consent(owner, api: Api):
    item = {**person(), "checksRequested": ["IDENTITY"]}
    made = api.create({**item, "consent": {"mode": "SERVICE_HOSTED"}, "draft": True})
    Consent.objects.update(status="GRANTED")

    answer = edit(owner, made["id"], choice(consent="SERVICE_HOSTED"), **WANJIKU)

    assert "Nothing was changed." in answer
    assert Consent.objects.get().status == "GRANTED"


def test_faults_of_an_edit_are_shown_at_their_fields(owner, api: Api):
    made = create_report_with_status(api, "DRAFT")

    fields = {**WANJIKU, **attested(), "subject-idNumber": ""}
    chosen = choice("IDENTITY", "CRB_SCORE")
    page = edit(owner, made, chosen, **fields)

    # Both checks need it, and the page says so once.
    assert page.count('<a href="#id_subject-idNumber">Fill in “ID number”') == 1


def test_launched_report_is_not_edited(owner, api: Api):
    made = create_report_with_status(api, "READY")

    answer = edit(owner, made, choice(), **WANJIKU)

    assert "Only a draft can be edited." in answer


def test_checks_of_a_draft_are_changed(owner, api: Api):
    made = create_report_with_status(api, "DRAFT")

    edit(owner, made, choice("IDENTITY"), **WANJIKU, **attested())

    assert Report.objects.get().checks_requested == ["IDENTITY"]
