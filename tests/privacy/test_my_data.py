"""The page /my-data: links to all that is held about a person, to their own address."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.checks.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, NOT_OBTAINED, Api, approve_workspace, person
from tests.world.subject import Visitor
from verification.consents.models import Consent
from verification.hosted import my_data as page
from verification.jobs.models import Job
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, Kind, Notification
from verification.notifications.recipients import block
from verification.notifications.templates import write_sms
from verification.privacy.models import SubjectRequest
from verification.privacy.my_data import answer_my_data
from verification.privacy.personal_data import erase_reports
from verification.reports.models import Report
from workspaces.create import create_workspace
from workspaces.ledger import top_up

pytestmark = pytest.mark.django_db

EMAIL = "wanjiku@kamau.test"
NUMBER = "12345678"
FOUND = "What was found about you"
BORN = {"dateOfBirth": "1990-03-27"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def known(paying_api: Api) -> Report:
    """A report that knows the number and the address of Wanjiku."""
    return order(paying_api)


def order(api: Api, **subject: Any) -> Report:
    made = api.create(person(**{"email": EMAIL, **BORN, **subject}))
    api.work()
    return Report.objects.get(pk=made["id"])


def baobab() -> Api:
    """Return another client in production."""
    workspace = create_workspace(name="Baobab", owner_email="o@baobab.test")
    approve_workspace(workspace, "Baobab Bank Limited")
    top_up(workspace, "production", 1_000_000, actor="tests", note="")
    return Api(workspace, "production")


def ask(number: str = NUMBER, address: str = EMAIL, country: str = "KE", **more: Any):
    typed = {"number": number, "address": address, "country": country}
    return Client(**more).post("/my-data", typed)


def answer() -> SubjectRequest:
    """Run the job of the newest request, and return the request."""
    request = SubjectRequest.objects.latest("id")
    answer_my_data(str(request.pk))
    request.refresh_from_db()
    return request


def messages() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.MY_DATA).order_by("id"))


def links_of(message: Notification) -> dict[str, str]:
    return {one["client"]: one["link"] for one in (message.context or {})["links"]}


def test_person_gets_a_link_to_their_data(known: Report):
    assert ask().status_code == 303

    request = answer()

    assert (request.kind, request.origin, request.outcome) == (
        "ACCESS",
        "MY_DATA",
        "DONE",
    )
    assert request.details is None
    (message,) = messages()
    assert (message.recipient, message.workspace_id) == (EMAIL, None)
    ((client, link),) = links_of(message).items()
    assert client == "Acacia Lenders"
    visitor = Visitor(link)
    assert FOUND in visitor.see_data().content.decode()


def test_draft_without_consent_has_no_link(paying_api: Api):
    item = {**person(email=EMAIL, **BORN), "consent": NOT_OBTAINED}
    paying_api.create(item, draft=True)

    ask()

    assert answer().outcome == "NOTHING_FOUND"
    assert not messages()


def test_spelling_of_number_and_address_makes_no_difference(
    paying_api: Api, settings: Any
):
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = "acacia", "key"
    order(paying_api, phone="+254712345678")
    by_pin = person(idNumber=None, kraPin="A123456789Z", email=EMAIL, **BORN)
    paying_api.create({**by_pin, "checksRequested": ["KRA_PIN"]})

    for number, address in [
        (" 1234-5678 ", "Wanjiku+loan@KAMAU.test"),
        ("A123456789Z", EMAIL),
        ("12345678", "0712 345 678"),
    ]:
        assert ask(number, address).status_code == 303

        assert answer().outcome == "DONE", number
        Consent.objects.update(link_made_at=now() - timedelta(minutes=2))


def test_person_is_found_by_a_further_number(paying_api: Api):
    order(paying_api, kraPin="A123456789Z")

    ask("A123456789Z")

    assert answer().outcome == "DONE"


def test_each_client_has_one_link(known: Report, paying_api: Api):
    newest = order(paying_api, fullName="Wanjiku Njeri Kamau")
    of_other = order(baobab())

    ask()
    answer()

    (message,) = messages()
    assert set(links_of(message)) == {"Acacia Lenders", "Baobab Bank Limited"}
    changed = Consent.objects.exclude(token_digest=None)
    assert {one.report_id for one in changed} == {newest.pk, of_other.pk}


def test_links_go_to_the_addresses_that_the_reports_have(known: Report):
    """In some mail systems all spellings are mailboxes of their own."""
    order(baobab(), email="wanjiku+thief@kamau.test")

    ask(address="wanjiku+thief@kamau.test")
    answer()

    assert {one.recipient: [*links_of(one)] for one in messages()} == {
        EMAIL: ["Acacia Lenders"],
        "wanjiku+thief@kamau.test": ["Baobab Bank Limited"],
    }


def test_client_that_knows_another_address_is_not_named(known: Report):
    order(baobab(), email="another@kamau.test")

    ask()
    answer()

    (message,) = messages()
    assert set(links_of(message)) == {"Acacia Lenders"}


def test_unknown_person_gets_nothing(known: Report, api: Api, settings: Any):
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = "acacia", "key"
    # The sandbox stays apart.
    order(api, idNumber="55555555")
    for typed in [
        {"number": "87654321"},
        {"address": "otieno@odhiambo.test"},
        {"address": "+254712345678"},
        {"number": "55555555"},
        {"country": "UG"},
    ]:
        ask(**typed)

        request = answer()

        assert (request.outcome, request.details) == ("NOTHING_FOUND", None), typed
    assert SubjectRequest.objects.count() == 5
    assert not messages()


def test_answer_is_the_same_for_known_and_unknown_people(known: Report):
    pages, statements = [], []
    ask("99999999", "warm@up.test")
    for number, address in [(NUMBER, EMAIL), ("87654321", "otieno@odhiambo.test")]:
        browser = Client()
        typed = {"number": number, "address": address, "country": "KE"}
        with CaptureQueriesContext(
            connection,
        ) as queries:
            sent = browser.post("/my-data", typed)
        shown = browser.get(sent["Location"])
        pages.append((sent.status_code, sent["Location"], shown.content))
        statements.append([query["sql"].split(" VALUES")[0][:60] for query in queries])

    assert pages[0] == pages[1]
    assert statements[0] == statements[1]
    assert Job.objects.filter(function__endswith="answer_my_data").count() == 3


def test_erased_report_sends_no_link(known: Report):
    erase_reports([known.pk], now())
    ask()

    assert answer().outcome == "NOTHING_FOUND"


def test_consent_that_waits_keeps_its_link(paying_api: Api):
    item = {**person(email=EMAIL, **BORN), "consent": HOSTED}
    made = paying_api.create(item)
    ask()
    answer()

    (message,) = messages()
    assert list(links_of(message).values()) == [made["consentState"]["consentUrl"]]
    assert Consent.objects.get(report=made["id"]).generation == 1


def test_link_opens_data_even_if_a_newer_report_waits_for_consent(
    known: Report, paying_api: Api
):
    paying_api.create({**person(email=EMAIL, **BORN), "consent": HOSTED})
    ask()
    answer()

    (message,) = messages()
    assert message.report_id == known.pk


def test_person_who_is_not_the_subject_gets_no_link(paying_api: Api):
    item = {**person(email=EMAIL, **BORN), "consent": HOSTED}
    visitor = Visitor(paying_api.create(item)["consentState"]["consentUrl"])
    visitor.open()
    visitor.post("not-me")
    ask()

    assert answer().outcome == "NOTHING_FOUND"


def test_person_who_blocked_the_client_gets_the_links(known: Report):
    block(known.workspace_id, [("EMAIL", EMAIL)], Block.Reason.UNKNOWN)
    ask()
    answer()

    send_due_notifications()

    assert [one.status for one in messages()] == ["SENT"]


def test_suspended_client_does_not_hide_the_data(known: Report):
    known.workspace.suspend("Unpaid invoices")
    ask()

    assert answer().outcome == "DONE"


def test_links_in_sms_go_out_one_by_one(paying_api: Api, settings: Any):
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = "acacia", "key"
    order(paying_api, phone="+254712345678")
    order(baobab(), phone="+254712345678")
    ask(address="0712345678")

    answer()

    sent = messages()
    assert [one.recipient for one in sent] == ["+254712345678"] * 2
    texts = [write_sms(one) for one in sent]
    for client, text in zip(["Acacia Lenders", "Baobab Bank"], texts, strict=True):
        assert f"for {client}" in text
        assert text.count("/c/") == 1


def test_job_runs_twice_without_harm(known: Report):
    ask()
    first = answer()

    again = answer()

    assert again.answered_at == first.answered_at
    assert len(messages()) == 1


def test_flood_of_one_client_address_is_refused(settings: Any):
    statuses = [ask(str(n) * 8, f"a{n}@people.test").status_code for n in range(9)]

    # The minute may have ended in between.
    assert 429 in statuses
    assert SubjectRequest.objects.count() == statuses.count(303)


def test_flood_to_one_address_stores_and_sends_little(
    known: Report, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(page, "REQUESTS_PER_MINUTE", 100)
    answers = set()
    for _ in range(4):
        sent = ask(REMOTE_ADDR="198.51.100.7")
        answers.add((sent.status_code, sent["Location"]))
        Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
        answer()

    # Else somebody could learn that another has asked for their data today.
    assert answers == {(303, "/my-data/sent")}
    assert SubjectRequest.objects.count() == 3
    assert len(messages()) == 3


def test_strangers_use_up_no_requests_of_a_person(
    known: Report, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(page, "REQUESTS_PER_MINUTE", 100)
    for number in ("11111111", "22222222", "33333333"):
        ask(number, REMOTE_ADDR="198.51.100.7")

    ask()

    assert answer().outcome == "DONE"


def test_invalid_forms_use_up_no_requests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "ALL_REQUESTS_PER_DAY", 1)
    for _ in range(3):
        assert ask(address="nobody").status_code == 200

    assert ask().status_code == 303


def test_flood_from_many_addresses_does_not_fill_the_register(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(page, "ALL_REQUESTS_PER_DAY", 5)

    statuses = [
        ask(str(n) * 8, f"a{n}@people.test", REMOTE_ADDR=f"198.51.100.{n}").status_code
        for n in range(1, 9)
    ]

    assert statuses == [303] * 5 + [429] * 3
    assert SubjectRequest.objects.count() == 5


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ({"number": ""}, "Enter the number of your ID card"),
        ({"address": "nobody"}, "Enter your e-mail address"),
        ({"address": "a@b"}, "Enter your e-mail address"),
        ({"address": "0712345678"}, "Enter your e-mail address"),
        ({"country": "XX"}, "Choose a country"),
    ],
)
def test_form_says_what_is_missing(typed: dict[str, str], error: str):
    answered = ask(**typed)

    assert answered.status_code == 200
    assert error in answered.content.decode()
    assert not SubjectRequest.objects.exists()


def test_page_is_in_kiswahili_and_stores_nothing_in_the_browser():
    answered = Client().get("/my-data?lang=sw")

    page = answered.content.decode()
    assert "Ona taarifa zangu" in page
    assert "<option value=DE>Ujerumani" in page
    assert answered["Cache-Control"] == "no-store"


def test_pages_of_a_consent_lead_to_it(paying_api: Api):
    made = paying_api.create({**person(**BORN), "consent": HOSTED})
    visitor = Visitor(made["consentState"]["consentUrl"])
    visitor.open()

    assert 'href="/my-data"' in visitor.text()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"number=" + b"1" * 70_000, FORM, 413),
        (b"&".join(b"number=1" for _ in range(1500)), FORM, 413),
        (b"x" * 100, "multipart/form-data", 400),
        # No form: the page asks for everything.
        (b'{"number": "12345678"}', "application/json", 200),
        (b"<xml/>", "text/xml", 200),
    ],
)
def test_body_that_is_no_such_form_stores_nothing(body: bytes, kind: str, status: int):
    answered = Client().post("/my-data", body, content_type=kind)

    assert answered.status_code == status
    assert answered["Cache-Control"] == "no-store"
    assert not SubjectRequest.objects.exists()


def test_form_of_another_site_is_refused():
    typed = {"number": NUMBER, "address": EMAIL, "country": "KE"}

    answered = Client(enforce_csrf_checks=True).post("/my-data", typed)

    assert answered.status_code == 403
    assert not SubjectRequest.objects.exists()


def test_other_methods_are_refused():
    for method in ("put", "patch", "delete"):
        assert getattr(Client(), method)("/my-data").status_code == 405


def test_form_repeats_what_was_typed_as_text():
    typed = '"><script>alert(1)</script>'

    page = ask(number=typed, address=typed).content.decode()

    assert "<script" not in page
    assert "&quot;&gt;&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize("network", ["127.0.0.1", "2001:db8:1:{}::7"])
def test_day_of_one_network_is_limited(monkeypatch: pytest.MonkeyPatch, network: str):
    monkeypatch.setattr(page, "REQUESTS_PER_MINUTE", 100)
    monkeypatch.setattr(page, "REQUESTS_PER_DAY", 2)

    statuses = [
        ask(str(n) * 8, f"a{n}@b.test", REMOTE_ADDR=network.format(n)).status_code
        for n in range(1, 4)
    ]
    other = ask(REMOTE_ADDR="2001:db8:2::7").status_code

    assert (statuses, other) == ([303, 303, 429], 303)
    assert SubjectRequest.objects.count() == 3


def test_sent_page_keeps_its_words_in_the_other_language():
    page = Client().get("/my-data/sent?lang=sw").content.decode()

    assert "Subiri ujumbe wetu" in page
    assert 'name="number"' not in page
