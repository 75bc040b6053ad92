import zlib
from base64 import urlsafe_b64decode
from datetime import timedelta
from uuid import UUID

import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils.timezone import now

from tests.world.clients import ATTESTED, HOSTED
from tests.world.orders import count_rows
from tests.world.subject import Visitor, visible_text
from verification.consents.links import consent_links, expire_consents
from verification.consents.models import Consent, ConsentRecord, RetiredLink
from verification.hosted.hosted_pages import VisitCookie
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import block
from verification.notifications.templates import write_email

pytestmark = pytest.mark.django_db

OTHER = {
    "subjectType": "INDIVIDUAL",
    "fullName": "Otieno Odhiambo",
    "idNumber": "87654321",
    "dateOfBirth": "1985-01-01",
}
PLACES = [
    "",
    "confirm",
    "grant",
    "decline",
    "withdraw",
    "under-age",
    "not-me",
    "new-link",
    "ask-client",
]


def token_of(visitor):
    return visitor.link.removeprefix("/c/")


def test_visit_opens_no_other_report(ask):
    mine, another = ask(), ask()
    mine.open(), another.open()
    cookie = mine.browser.cookies["visit"].value

    stranger = Client()
    stranger.cookies["visit"] = cookie

    assert stranger.get(mine.page).status_code == 200
    assert stranger.get(another.page).status_code == 403
    assert stranger.post(another.page + "not-me").status_code == 403


def test_visit_ends_after_an_hour(ask):
    visitor = ask()
    visitor.prove()

    with time_machine.travel(now() + timedelta(seconds=3601)):
        assert visitor.get().status_code == 403


def test_get_requests_change_nothing(ask):
    visitor = ask()
    visitor.open()

    def assert_nothing_changes():
        consent, before = Consent.objects.values().get(), count_rows()
        for place in [*PLACES, "receipt.pdf", "?lang=sw"]:
            visitor.get(place)
        visitor.browser.head(visitor.page)
        assert Consent.objects.values().get() == consent
        assert count_rows() == before

    assert_nothing_changes()
    visitor.prove()
    assert_nothing_changes()
    Consent.objects.update(locks=4, wrong_answers=0)
    assert_nothing_changes()
    Consent.objects.update(locks=0)
    expire(visitor)
    assert_nothing_changes()


def is_replaced(link):
    """Return whether the link now says that there is a newer one."""
    again = Visitor(link)
    again.open()
    page = again.get()
    return page.status_code == 410 and b"This link was replaced" in page.content


def test_renewed_link_says_so_and_takes_no_answer(api, ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    Consent.objects.update(link_made_at="2026-01-01T00:00:00Z")
    api.post(f"/reports/{visitor.report_id}/consent/resend")

    assert visitor.post("grant", **form).status_code == 303
    assert not ConsentRecord.objects.exists()
    page = visitor.get()
    assert page.status_code == 410
    assert b"This link was replaced" in page.content
    assert is_replaced(visitor.link)


def edit(api, visitor, **body):
    made_before = Consent.objects.get().pk
    answer = api.post(f"/reports/{visitor.report_id}/draft", body)
    assert answer.status_code == 200, answer.content
    assert Consent.objects.get().pk != made_before


def test_link_that_an_edit_replaced_says_so(api, ask):
    visitor = ask(draft=True)
    edit(api, visitor, consent=ATTESTED)

    assert is_replaced(visitor.link)


def test_subject_keeps_the_receipt_after_an_edit(api, ask):
    visitor = ask(draft=True)
    visitor.agree()
    visitor.prove()
    record = ConsentRecord.objects.get()
    edit(api, visitor, purpose="Another loan")

    page = visitor.get()
    assert page.status_code == 410
    assert "You agreed to the checks" in visible_text(page.content.decode())
    assert record.number in page.content.decode()
    pdf = visitor.get("receipt.pdf")
    assert pdf["Content-Type"] == "application/pdf"

    # A new visit by the old link has passed no challenge.
    another = Visitor(visitor.link)
    another.open()
    assert record.number in another.text()
    assert "Wanjiku" not in another.text()
    assert another.get("receipt.pdf").status_code == 303


def test_edit_to_another_person_shows_nobody_else_the_receipt(api, ask):
    visitor = ask(draft=True)
    visitor.agree()
    visitor.prove()
    edit(api, visitor, subject=OTHER)

    assert visitor.get("receipt.pdf").status_code == 303
    assert "Otieno" not in visitor.text()


def test_database_keeps_replaced_links_without_personal_data(api, ask):
    visitor = ask(draft=True)
    digest = bytes(visitor.consent.token_digest)
    Consent.objects.update(wrong_answers=1, token_digest=digest)
    assert not RetiredLink.objects.exists()

    edit(api, visitor, consent=ATTESTED)
    Consent.objects.all().delete()

    link = RetiredLink.objects.get()
    assert bytes(link.digest) == digest
    assert (link.purpose, link.row_id) == ("consent", visitor.consent.pk)
    assert (link.report_id, link.generation) == (visitor.consent.report_id, 1)


def expire(visitor):
    Consent.objects.filter(pk=visitor.consent.pk).update(
        expires_at="2026-01-20T00:00:00Z", link_made_at="2026-01-06T00:00:00Z"
    )


def test_expired_link_takes_no_answer(ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    expire(visitor)

    visitor.post("grant", **form)

    page = visitor.get()
    assert page.status_code == 410
    assert b"This link has expired" in page.content
    assert not ConsentRecord.objects.exists()


def test_expired_link_stays_when_the_subject_is_unreachable(api, ask):
    visitor = ask(draft=True)
    expire(visitor)
    visitor.open()
    page = visible_text(visitor.text())
    assert "Send me a new link" not in page
    assert "Ask Acacia Lenders for a new request" in page

    visitor.post("new-link")
    visitor.post("ask-client")

    assert Consent.objects.get().generation == 1
    assert "We have told Acacia Lenders" in visible_text(visitor.text())
    ((mail,), _) = link_requests(api, visitor)
    assert (mail.context["why"], mail.context["canResend"]) == ("EXPIRED", True)
    assert "consent/resend" in write_email(mail).text
    assert api.post(f"/reports/{visitor.report_id}/consent/resend").status_code == 200


@pytest.mark.parametrize("why", ["reachable", "blocked", "sandbox", "limit"])
def test_subject_renews_a_link_only_if_a_message_reaches_them(api, ask, settings, why):
    email = "stranger@elsewhere.test" if why == "sandbox" else "wanjiku@kamau.test"
    report = ask(draft=True, subject={"email": email}).consent.report
    if why == "blocked":
        block(api.workspace.pk, [("EMAIL", email)], Block.Reason.UNWANTED)
    if why == "limit":
        settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
        send_due_notifications()

    assert consent_links.can_visitor_renew(report) is (why == "reachable")


def test_subject_renews_the_expired_link_of_a_draft(api, ask):
    visitor = ask(draft=True, subject={"email": "wanjiku@kamau.test"})
    expire(visitor)
    visitor.open()
    assert b"Send me a new link" in visitor.get().content

    visitor.post("new-link")
    visitor.post("new-link")

    consent = Consent.objects.get()
    assert (consent.status, consent.generation) == ("PENDING", 2)
    assert b"This link was replaced" in visitor.get().content


def link_requests(api, visitor):
    """Return the client's mails and events about requests for a new link."""
    mails = Notification.objects.filter(kind="NEW_LINK_WANTED")
    events = api.get(f"/reports/{visitor.report_id}/events").json()["events"]
    requested = [e for e in events if e["trigger"] == "subject asks for a new link"]
    return list(mails), requested


@pytest.mark.parametrize("is_closed", [False, True])
def test_subject_asks_the_client_for_another_link_once(api, ask, is_closed):
    visitor = ask(reference="LN-2041")
    expire(visitor)
    if is_closed:
        expire_consents()
    status = api.report(visitor.report_id)["status"]
    visitor.open()
    assert b"Ask <bdi>Acacia Lenders</bdi> for a new request" in visitor.get().content

    for _ in range(3):
        visitor.post("ask-client")

    page = visible_text(visitor.text())
    assert "We have told Acacia Lenders that you want a new request" in page
    (mail,), (event,) = link_requests(api, visitor)
    assert mail.recipient == api.workspace.contact_email
    assert visitor.report_id in mail.context["url"]
    assert mail.context["reference"] == "LN-2041"
    assert (event["from"], event["to"], event["actor"]) == (status, status, "subject")
    assert api.report(visitor.report_id)["status"] == status
    assert api.post(f"/reports/{visitor.report_id}/consent/resend").status_code == 409


@pytest.mark.parametrize("way", ["open", "draft", "granted", "cancelled"])
def test_client_gets_requests_only_for_links_it_can_renew(api, ask, way):
    reached = {"email": "wanjiku@kamau.test"}
    visitor = ask(draft=way == "draft", subject=reached)
    if way == "granted":
        visitor.agree()
    if way == "cancelled":
        api.post(f"/reports/{visitor.report_id}/cancel")
    if way != "open":
        expire(visitor)

    consent_links.ask_client(visitor.consent.pk, 1)

    assert link_requests(api, visitor) == ([], [])


def test_edit_that_attests_closes_the_page(api, ask):
    visitor = ask(draft=True)
    visitor.prove()
    edit(api, visitor, consent=ATTESTED)

    assert visitor.get().status_code == 410
    assert visitor.get("not-me").status_code == 303


def test_after_an_edit_to_another_person_the_link_shows_nothing(api, ask):
    visitor = ask(draft=True)
    visitor.prove()
    edited = api.post(
        f"/reports/{visitor.report_id}/draft", {"subject": OTHER, "consent": HOSTED}
    )

    assert edited.status_code == 200
    page = visitor.text()
    assert "Otieno" not in page
    assert "This link was replaced" in page, page


ROW = UUID(int=7)
KIND = VisitCookie("/c/v/", "hosted.consent", seconds=60)


def request_after(kind, row=ROW, value=1):
    """Return a request with the cookie of a visit to `row`."""
    response = HttpResponse()
    kind.remember(response, row, value)
    request = RequestFactory().get("/")
    request.COOKIES = {name: m.value for name, m in response.cookies.items()}
    return request


def test_cookie_returns_the_stored_visit():
    assert KIND.value_of(request_after(KIND, value={"a": 1}), ROW) == {"a": 1}


def test_cookie_is_sealed():
    (cookie,) = request_after(KIND, value={"name": "Wanjiku" * 9}).COOKIES.values()

    for text in (cookie.encode(), urlsafe_b64decode(cookie)):
        assert b"Wanjiku" not in text
        with pytest.raises(zlib.error):
            zlib.decompress(text)


@pytest.mark.parametrize("cookie", ["", "x", "AQJrMQ==", "é", "A" * 200])
def test_foreign_cookie_is_ignored(cookie):
    request = RequestFactory().get("/")
    request.COOKIES = {"visit": cookie}

    assert KIND.value_of(request, ROW) is None


def test_secure_cookie_has_the_secure_prefix(settings):
    settings.SESSION_COOKIE_SECURE = True

    response = HttpResponse()
    KIND.remember(response, ROW, 1)

    (cookie,) = response.cookies.values()
    assert (cookie.key, cookie["secure"]) == ("__Secure-visit", True)


@pytest.mark.parametrize(
    "other",
    [
        VisitCookie("/c/v/", "hosted.payment", seconds=60),
        VisitCookie("/c/v/", "hosted.consent", seconds=-1),
    ],
)
def test_cookie_of_another_kind_or_too_old_is_ignored(other):
    assert other.value_of(request_after(KIND), ROW) is None


def test_cookie_of_another_row_is_ignored():
    assert KIND.value_of(request_after(KIND), UUID(int=8)) is None
