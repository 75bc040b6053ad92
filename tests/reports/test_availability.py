"""Checks without a source, and amounts that nobody can pay, are refused."""

from datetime import timedelta
from itertools import product

import pytest
from django.core import mail

from monitoring.models import Rule
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.sources.test_routes import rests
from tests.world.clients import HOSTED, Api, company, error_codes, person
from tests.world.orders import EMPLOYMENT, count_rows, fault_codes
from tests.world.payer import create_payer
from tests.world.payments import candidate_item, payment_of, run_provider
from tests.world.rules import DAY, launch_runs, rule_request, rule_status, store_rule
from verification.notifications.delivery import send_due_notifications
from verification.payments.checkouts import open_top_up
from verification.providers import registry
from verification.reports.models import Report
from workspaces.models import Account

pytestmark = pytest.mark.django_db
MISSING = "check-not-available"


def offer_checks_in(**countries: str) -> None:
    """Let checks have a source in these countries only: IDENTITY="KE"."""
    path = "tests.world.clients.Refusing"
    routes = {check: {country: ["refusing"]} for check, country in countries.items()}
    registry.configure({"refusing": (path, {})}, routes)


@pytest.fixture
def credit_api(live_api: Api) -> Api:
    Account.objects.filter(pk=live_api.account.pk).update(credit_limit=10_000)
    return live_api


def test_check_without_a_source_is_refused(credit_api: Api):
    offer_checks_in(IDENTITY="KE", CRB_SCORE="KE")
    before = count_rows()

    for path, draft in product(["/reports", "/reports/quote"], [False, True]):
        body = {"reports": [person()], "draft": draft}
        problem = credit_api.refused(path, body)

        assert error_codes(problem) == {"#/reports/0/checksRequested/1": MISSING}
        assert "no source for KRA_PIN" in problem["errors"][0]["detail"]
    assert count_rows() == before


def test_check_is_refused_for_a_country_without_a_source(credit_api: Api):
    offer_checks_in(IDENTITY="KE", BUSINESS_VERIFICATION="*")
    abroad = {**person(country="TZ"), "checksRequested": ["IDENTITY"]}

    problem = credit_api.refused("/reports", {"reports": [abroad]})

    assert error_codes(problem) == {"#/reports/0/checksRequested/0": MISSING}
    assert "about subjects of TZ" in problem["errors"][0]["detail"]
    credit_api.create({**person(), "checksRequested": ["IDENTITY"]})
    credit_api.create(company(country="UG"))


def test_wrong_country_is_the_only_fault(credit_api: Api):
    offer_checks_in()

    assert fault_codes(credit_api, person(country="ug")) == {
        "subject/country": "invalid-choice"
    }


def test_sandbox_and_referees_need_no_source(api: Api, credit_api: Api):
    offer_checks_in()

    api.create(person())
    reference = {
        **person(**EMPLOYMENT),
        "checksRequested": ["EMPLOYER_VERIFICATION"],
    }
    credit_api.create(reference)


def test_check_is_accepted_when_its_source_rests(credit_api: Api):
    rests("refusing")

    credit_api.create(person())


def test_draft_without_a_source_is_not_edited_or_launched(credit_api: Api):
    draft = credit_api.create(person(), draft=True)
    offer_checks_in(IDENTITY="KE", KRA_PIN="KE")

    edited = credit_api.refused(f"/reports/{draft['id']}/draft", {"purpose": "Rent"})
    launched = credit_api.refused(f"/reports/{draft['id']}/launch")

    assert error_codes(edited) == {"#/checksRequested/2": MISSING}
    assert error_codes(launched) == {"#/checksRequested/2": MISSING}
    credit_api.post(f"/reports/{draft['id']}/draft", {"checksRequested": ["IDENTITY"]})
    assert credit_api.post(f"/reports/{draft['id']}/launch").status_code == 200


def test_failed_check_is_not_retried_without_a_source(credit_api: Api):
    report = credit_api.create(person())
    credit_api.work()
    offer_checks_in(IDENTITY="KE", KRA_PIN="KE")

    problem = credit_api.refused(f"/reports/{report['id']}/retry")

    assert (problem["status"], problem["code"]) == (409, "report-not-retryable")
    assert "no source for CRB_SCORE" in problem["detail"]


def test_rule_on_a_check_without_a_source_is_refused(credit_api: Api):
    offer_checks_in(IDENTITY="KE")

    problem = credit_api.refused("/monitoring", rule_request("IDENTITY", "KRA_PIN"))

    assert error_codes(problem) == {"#/checkNames/1": MISSING}
    assert not Rule.objects.exists()
    assert not Report.objects.exists()


def test_rule_pauses_when_its_check_loses_its_source(credit_api: Api):
    created = store_rule(credit_api, "KRA_PIN")
    offer_checks_in(IDENTITY="KE")

    assert launch_runs(DAY + timedelta(hours=1)) == []

    assert rule_status(created) == ("PAUSED", "CHECK_INACTIVE")
    problem = credit_api.refused(f"/monitoring/{created.pk}/resume", {})
    assert "no source for KRA_PIN" in problem["detail"]


def test_definition_says_whether_it_can_be_ordered(api: Api, live_api: Api):
    offer_checks_in(IDENTITY="KE", BUSINESS_VERIFICATION="*")

    def stands(client: Api, check: str, **query: str) -> tuple[bool, str | None]:
        found = client.get(f"/checks/definitions/{check}", **query).json()
        return found["available"], found["unavailableReason"]

    assert stands(live_api, "IDENTITY") == (True, None)
    available, why = stands(live_api, "IDENTITY", country="UG")
    assert not available
    assert "no source for IDENTITY about subjects of UG in production" in why
    assert stands(live_api, "BUSINESS_VERIFICATION", country="UG") == (True, None)
    assert stands(live_api, "EMPLOYER_VERIFICATION") == (True, None)
    assert stands(api, "KRA_PIN") == (True, None)
    listed = live_api.get("/checks/definitions", country="KE").json()["content"]
    assert {each["name"] for each in listed if each["available"]} == {
        "IDENTITY",
        "BUSINESS_VERIFICATION",
        "EMPLOYER_VERIFICATION",
    }
    assert live_api.get("/checks/definitions", country="Kenya").status_code == 400


# The amount that a payer owes


@pytest.fixture
def stripe(settings):
    yield from run_provider(FakeStripe(), settings)


@pytest.fixture
def paystack(settings):
    yield from run_provider(FakePaystack(), settings)


CHEAP = {"checksRequested": ["IDENTITY"]}


def test_payer_amount_below_the_minimum_is_refused(live_api: Api, stripe):
    before = count_rows()
    body = {"reports": [candidate_item(), candidate_item(**CHEAP)]}

    for path in ("/reports", "/reports/quote"):
        problem = live_api.refused(path, body)
        assert error_codes(problem) == {"#/reports/1/paymentMode": "out-of-range"}
        assert "KES 50.00, and Stripe takes no less than KES 75.00" in str(problem)
    assert count_rows() == before
    live_api.create(candidate_item())


def test_edit_to_an_amount_below_the_minimum_is_refused(live_api: Api, stripe):
    draft = live_api.create(candidate_item(consent=HOSTED), draft=True)
    payment = payment_of(draft)

    problem = live_api.refused(f"/reports/{draft['id']}/draft", CHEAP)

    assert error_codes(problem) == {"#/paymentMode": "out-of-range"}
    assert payment_of(draft).pk == payment.pk
    assert len(live_api.report(draft["id"])["checkResults"]) == 3


def test_other_provider_accepts_smaller_amounts(live_api: Api, paystack):
    live_api.create(candidate_item(**CHEAP))


def test_pages_and_mails_name_the_payment_methods(live_api: Api, taker):
    page = create_payer(live_api).reads()
    send_due_notifications()

    is_mpesa_taken = isinstance(taker, FakePaystack)
    provider, ways = (
        ("Paystack", "M-Pesa or a card") if is_mpesa_taken else ("Stripe", "a card")
    )
    assert f"You pay on the page of {provider}, with {ways}." in page
    (letter,) = [one for one in mail.outbox if "asks you to pay" in one.subject]
    prompt = ways.replace("M-Pesa", "M-Pesa (by a prompt on your phone)")
    assert f"and to pay with {prompt}:" in letter.body
    ombi = "M-Pesa (kwa ombi la malipo kwenye simu yako) au kadi"
    kadi = ombi if is_mpesa_taken else "kadi"
    assert f"kisha ulipe kwa {kadi}:" in letter.body


def test_sandbox_accepts_every_amount(api: Api):
    api.create(candidate_item(**CHEAP))


def test_top_up_below_the_minimum_is_refused(live_api: Api, stripe, settings):
    path, options = settings.PAYMENT_PROVIDERS["stripe"]
    settings.PAYMENT_PROVIDERS = {"stripe": (path, {**options, "minimum": 150})}

    with pytest.raises(ValueError, match="150 to"):
        open_top_up(live_api.account, 149, "owner")
    open_top_up(live_api.account, 150, "owner")
