"""The mailbox of the sandbox, and the addresses that get its messages."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.core import mail
from django.http import Http404
from django.test import RequestFactory

from tests.notifications.messages import NUMBER
from tests.world.clients import HOSTED, Api, person
from tests.world.console import ConsoleVisitor
from tests.world.subject import Visitor as Subject
from tests.world.subject import visible_text
from verification.console import sandbox_pages
from verification.console.templatetags.console import linked
from verification.development import local_pages as development_mail
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import THIRD_PARTY_KINDS, Kind, Notification
from verification.reports.models import Report
from verification.values.clock import now
from workspaces import members
from workspaces.models import Role

STRANGER = "stranger@elsewhere.test"
LETTER = re.compile(r'<div class="card-body stack-s">(.*?)</div>', re.DOTALL)


def ask(api: Api, **members) -> Notification:
    subject = {"email": STRANGER, "dateOfBirth": "1990-03-27", **members}
    api.create({**person(**subject), "consent": HOSTED})
    send_due_notifications()
    return Notification.objects.filter(kind=Kind.CONSENT_REQUEST).latest("id")


def test_withheld_message_is_read_in_the_mailbox_with_its_link(owner, api):
    row = ask(api)
    listed = visible_text(owner.page("mailbox"))
    assert "Request for consent" in listed
    assert STRANGER in listed
    assert "Not sent this is the sandbox" in listed

    html = owner.page("mailbox-message", message=row.pk)
    assert "[SANDBOX] Acacia Lenders asks for your consent" in visible_text(html)
    links = [unescape(link) for link in re.findall(r'href="(http[^"]+/c/\w+)"', html)]
    assert set(links) == {row.context["link"]}
    subject = Subject(links[0])
    subject.open()
    subject.confirm()
    subject.grant()
    assert "Receipt of a decision" in visible_text(owner.page("mailbox"))
    assert mail.outbox == []


def test_sms_is_read_in_the_mailbox(owner, api):
    row = ask(api, phone=NUMBER, email=None)
    html = owner.page("mailbox-message", message=row.pk)

    assert "SANDBOX: Acacia Lenders asks your consent" in visible_text(html)
    assert "Block/Izuie: http://localhost:8000/b/... By" in visible_text(html)
    assert re.search(r"/b/\w", html) is None


def test_mailbox_does_not_show_the_link_that_lifts_a_block(owner, api):
    html = owner.page("mailbox-message", message=ask(api).pk)

    assert "http://localhost:8000/b/…" in html
    assert 'href="http://localhost:8000/b/' not in html
    assert re.search(r"/b/\w", html) is None


def test_mailbox_shows_no_codes_and_no_invitations(owner, api):
    api.workspace.sandbox_addresses.all().delete()
    owner.post("mailbox-addresses", {"address": STRANGER})
    members.invite(owner.member, "new@people.test", Role.VIEWER)
    rows = Notification.objects.exclude(workspace=None)
    assert set(rows.values_list("kind", flat=True)) == {"SANDBOX_ADDRESS", "INVITATION"}
    rows.update(sandbox=True)

    assert "Messages appear here once" in owner.page("mailbox")
    for row in rows:
        assert owner.get("mailbox-message", message=row.pk).status_code == 404


def test_mailbox_shows_no_messages_of_production(owner, api):
    row = ask(api)
    Notification.objects.update(sandbox=False)

    assert "Messages appear here once" in owner.page("mailbox")
    assert owner.get("mailbox-message", message=row.pk).status_code == 404
    for page in ("mailbox", "mailbox-addresses"):
        assert owner.get(page, "production").status_code == 404
    answer = owner.post("mailbox-addresses", {"address": STRANGER}, "production")
    assert answer.status_code == 404


def test_message_that_was_forgotten_says_so(owner, api):
    row = ask(api)
    Notification.objects.update(context=None, recipient=None)

    assert "The text was deleted." in owner.page("mailbox-message", message=row.pk)


def test_member_adds_confirms_and_removes_an_address(admin, api):
    api.workspace.sandbox_addresses.all().delete()
    told = admin.messages_after("mailbox-addresses", {"address": STRANGER})
    assert told == ["A code is sent to this address."]
    row = api.workspace.sandbox_addresses.latest("id")
    assert "Waiting for its code" in admin.page("mailbox-addresses")
    sent = Notification.objects.get(kind="SANDBOX_ADDRESS")

    wrong = admin.messages_after("mailbox-confirm", {"code": "x"}, address=row.pk)
    assert wrong == ["The code is wrong or has expired."]
    code = {"code": sent.context["code"]}
    admin.messages_after("mailbox-confirm", code, address=row.pk)
    assert ask(api).status == "SENT"

    admin.messages_after("mailbox-remove", address=row.pk)
    assert ask(api).status == "WITHHELD"


def test_wrong_address_is_refused(admin, api):
    for address in ["", "x", NUMBER, "a@b", "x" * 300 + "@b.test"]:
        html = admin.post("mailbox-addresses", {"address": address}).content.decode()

        assert "<title>Error:" in html, address
        assert not Notification.objects.exists(), address


def test_too_many_addresses_are_refused(admin, api):
    html = admin.post("mailbox-addresses", {"address": "a@b.test"}).content.decode()

    assert "Too many addresses were added" in html


def test_viewer_is_not_led_to_the_mailbox(
    viewer: ConsoleVisitor, admin: ConsoleVisitor
):
    assert admin.url("mailbox") in admin.page("dashboard")
    assert viewer.url("mailbox") not in viewer.page("dashboard")


def development_page(settings, **request: str) -> str:
    settings.DEBUG = True
    asked = RequestFactory().get("/dev/mail", SERVER_NAME="localhost", **request)
    asked.user = None
    return development_mail.show_mail(asked).content.decode()


def test_development_page_shows_every_message_with_links(api, settings, owner):
    row = ask(api, phone=NUMBER)
    members.invite(owner.member, "new@people.test", Role.VIEWER)
    html = development_page(settings)

    texts = LETTER.findall(html)
    assert len(texts) == 3
    assert re.search(r"<h2[^>]*>You are invited to a workspace at .+ \(E-mail\)", html)
    assert "invitations/" in texts[0]
    for text in texts[1:]:
        assert f'href="{row.context["link"]}"' in text
    assert re.search(r'href="http://localhost:8000/b/\w{29}"', html)
    assert len(re.findall(r'href="mail/[-\w]+"', html)) == 2

    # The demo moves its reports and their messages into the past.
    newest = Notification.objects.order_by("id").last()
    Notification.objects.filter(pk=newest.pk).update(created_at=now() - timedelta(1))
    assert "invitations/" in LETTER.findall(development_page(settings))[-1]


def test_development_page_shows_the_html_of_a_message(api, settings, owner):
    row = ask(api)
    settings.DEBUG = True
    asked = RequestFactory().get("/dev/mail", SERVER_NAME="localhost")
    shown = development_mail.show_mail_html(asked, row.pk).content.decode()

    assert "<!doctype html>" in shown
    assert f'href="{row.context["link"]}"' in shown


@pytest.mark.parametrize(
    "request_",
    [
        {"REMOTE_ADDR": "192.0.2.1"},
        {"HTTP_HOST": "rebound.example"},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
    ],
)
def test_development_page_is_for_this_machine_alone(db, settings, request_):
    settings.ALLOWED_HOSTS = ["*"]
    with pytest.raises(Http404):
        development_page(settings, **request_)


@pytest.mark.parametrize(
    ("base_url", "is_shown"),
    [
        ("https://verify.example", False),
        ("http://localhost.example:8000", False),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
    ],
)
def test_development_page_needs_a_base_url_of_this_machine(
    db, settings, base_url, is_shown
):
    """A proxy of this machine may set no header and call the service `localhost`."""
    settings.BASE_URL = base_url
    if is_shown:
        assert "<html" in development_page(settings)
        return
    with pytest.raises(Http404):
        development_page(settings)


def test_development_page_needs_debug(db, client):
    assert client.get("/dev/mail").status_code == 404


def test_every_kind_of_message_to_people_has_words():
    assert set(sandbox_pages.KINDS) == THIRD_PARTY_KINDS


def test_report_page_says_why_a_message_was_not_sent(owner, viewer, api):
    row = ask(api)
    report = Report.objects.get().pk
    path = owner.url("mailbox-message", message=row.pk)
    html = owner.page("reports-detail", report=report)
    assert (
        "Request for consent Not sent: this is the sandbox · by e-mail"
        in visible_text(html)
    )
    assert path in html
    assert path not in viewer.page("reports-detail", report=report)


def test_text_of_a_message_is_no_markup():
    text = "<b>x</b> (a@b.test). http://h/c/1?a=1&b=2\nhttps://h/<script> http://h/b/… http://h/d/"
    assert linked(text) == (
        "&lt;b&gt;x&lt;/b&gt; (a@b.test). "
        '<a href="http://h/c/1?a=1&amp;b=2" rel="nofollow">http://h/c/1?a=1&amp;b=2</a>'
        "\nhttps://h/&lt;script&gt; http://h/b/… "
        '<a href="http://h/d/" rel="nofollow">http://h/d/</a>'
    )


def test_mailbox_shows_the_html_of_an_email_under_a_strict_policy(owner, api):
    row = ask(api)
    path = owner.url("mailbox-html", message=row.pk)
    assert f'href="{path}"' in owner.page("mailbox-message", message=row.pk)
    answer = owner.get("mailbox-html", message=row.pk)

    html = answer.content.decode()
    assert f'href="{row.context["link"]}"' in html
    assert re.search(r"/b/\w", html) is None
    policy = answer["Content-Security-Policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "style-src 'unsafe-inline'"} <= set(policy)
    assert "script-src" not in answer["Content-Security-Policy"]


def test_sms_has_no_html(owner, api):
    row = ask(api, phone=NUMBER, email=None)
    assert owner.get("mailbox-html", message=row.pk).status_code == 404
    assert f"{row.pk}/html" not in owner.page("mailbox-message", message=row.pk)
