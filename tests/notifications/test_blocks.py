"""Recipients block the workspace that writes to them."""

import re
from typing import Any
from uuid import UUID

import pytest
from django.core import mail
from django.test import Client

from tests.notifications.messages import (
    ADDRESS,
    CONTEXT,
    NUMBER,
    email_message,
    enqueue,
    send_due,
    sms_message,
)
from tests.references.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, Api, company, person
from tests.world.employer import create_reference as request_reference
from tests.world.orders import PAYER
from tests.world.subject import Visitor, visible_text
from verification import links
from verification.hosted.hosted_pages import DOTS
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import (
    BILINGUAL,
    Block,
    Channel,
    Kind,
    Notification,
)
from verification.notifications.outbox import notify, purge_recipients, send_again
from verification.notifications.recipients import address_hash
from verification.notifications.templates import write_email
from workspaces.models import Workspace

BLOCK = re.compile(r"http://\S+(/b/\w{29})$", re.MULTILINE)


@pytest.fixture
def send_request(workspace: Workspace, settings: Any):
    settings.AFRICASTALKING_USERNAME = settings.AFRICASTALKING_API_KEY = "x"

    def send(cause: str = "consent:1:1", **fields: Any) -> Notification:
        fields = {"workspace_id": workspace.pk, **fields}
        return enqueue(email_message(cause, **fields))

    return send


def path_of(notification: Notification) -> str:
    return links.block_url(notification.pk).removeprefix("http://localhost:8000")


def post(notification: Notification, **form: str) -> int:
    browser = Client(enforce_csrf_checks=True)
    return browser.post(path_of(notification), form).status_code


def status(notification: Notification) -> tuple[str, str]:
    notification.refresh_from_db()
    return notification.status, notification.error


def test_message_names_operator_and_has_block_link(send_request, settings):
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "Uhakika", "0800 111 222"
    row = send_request(language=BILINGUAL)
    send_due_notifications()

    (message,) = mail.outbox
    assert "Uhakika (0800 111 222) sends this message for Acacia" in message.body
    assert "Uhakika (0800 111 222) inatuma ujumbe huu kwa niaba ya" in message.body
    assert BLOCK.findall(message.body) == [path_of(row)] * 2
    assert message.extra_headers["List-Unsubscribe"] == f"<{links.block_url(row.pk)}>"
    one_click = message.extra_headers["List-Unsubscribe-Post"]
    assert one_click == "List-Unsubscribe=One-Click"


def test_message_to_owner_has_no_block_link(send_request):
    context = {"workspace": "Acacia", "currency": "KES", "topUpUrl": ""}
    send_request(kind=Kind.LOW_BALANCE, context=context)
    send_due_notifications()

    (message,) = mail.outbox
    assert "/b/" not in message.body
    assert "List-Unsubscribe" not in message.extra_headers


def test_opening_the_link_changes_nothing(send_request):
    row = send_request()
    answer = Client().get(path_of(row))

    assert answer.status_code == 200
    assert f"w{DOTS}@subject.test" in answer.content.decode()
    assert "Acacia Lenders" in answer.content.decode()
    assert answer["Cache-Control"] == "no-store"
    assert not Block.objects.exists()
    assert send_due() == [ADDRESS]


def test_one_click_of_mail_program_blocks_sender(send_request):
    row = send_request()
    assert post(row, **{"List-Unsubscribe": "One-Click"}) == 204
    send_request("consent:2:1", recipient="Wanjiku+loans@subject.test")

    assert send_due() == []
    assert set(Notification.objects.values_list("status", "error")) == {
        ("WITHHELD", "BLOCKED")
    }


@pytest.mark.parametrize("action", ["block", "unknown"])
def test_blocked_sender_reaches_recipient_by_no_channel(send_request, action):
    row = send_request()
    notify(sms_message("consent:1:1", workspace_id=row.workspace_id))
    assert post(row, action=action) == 303
    waiting = enqueue(sms_message("consent:2:1", workspace_id=row.workspace_id))
    receipt = send_request("receipt:1", kind=Kind.CONSENT_RECEIPT)

    assert send_due() == []
    assert status(waiting) == status(receipt) == ("WITHHELD", "BLOCKED")
    assert Block.objects.count() == 2


def test_block_stops_a_message_that_failed_and_waits(send_request, mail_server):
    row = send_request()
    mail_server.refuses[ADDRESS] = 451
    send_due_notifications()
    assert status(row)[0] == "PENDING"
    post(row, action="block")
    Notification.objects.update(next_attempt_at=row.created_at)
    mail_server.refuses.clear()
    send_due_notifications()

    assert mail_server.messages == []
    assert status(row) == ("WITHHELD", "BLOCKED")


def test_block_holds_for_one_workspace_and_one_person(send_request, another_api: Api):
    post(send_request(), action="block")
    send_request("consent:2:1", recipient="otieno@subject.test")
    send_request("consent:3:1", workspace_id=another_api.workspace.pk)

    assert send_due() == ["otieno@subject.test", ADDRESS]


def test_recipient_lifts_the_block_by_the_same_link(send_request):
    row = send_request()
    post(row, action="unknown")
    page = Client().get(path_of(row)).content.decode()
    assert "is blocked" in page
    assert "we look into it" in page
    post(row, action="lift")
    send_request("consent:2:1")

    assert send_due() == [ADDRESS, ADDRESS]
    assert "is blocked" not in Client().get(path_of(row)).content.decode()


def test_second_block_changes_only_the_reason(send_request):
    row = send_request()
    post(row, action="block")
    post(row, action="unknown")

    (block,) = Block.objects.all()
    assert block.reason == "UNKNOWN"


def test_blocked_invitation_is_not_sent(send_request):
    fields = {"kind": Kind.INVITATION, "context": {"requester": "Acacia", "url": "x"}}
    row = send_request("invitation:1", **fields)
    assert "for Acacia." in write_email(row).text
    post(row, action="block")

    assert send_due() == []


def test_staff_cannot_send_a_blocked_message_again(send_request):
    row = send_request()
    send_due()
    post(row, action="block")
    send_again(row)

    assert send_due() == []
    assert status(row) == ("WITHHELD", "BLOCKED")


@pytest.mark.parametrize("change", ["", "x", "0"])
def test_wrong_link_blocks_nobody(send_request, change):
    path = path_of(send_request())[: -1 if change else 10] + change
    if path == path_of(Notification.objects.get()):
        path = path[:-1] + "1"
    assert Client().post(path, {"action": "block"}).status_code == 404
    assert Client().get(path).status_code == 404
    assert Client().get("/b/" + "é" * 29).status_code == 404
    assert not Block.objects.exists()


def test_link_blocks_only_by_its_own_message(send_request):
    """Many messages can have the millisecond that the link names."""
    row = send_request()
    for number in range(1, 4):
        twin = Notification.objects.get(pk=row.pk)
        twin.pk, twin.cause = UUID(int=row.pk.int ^ number), f"consent:twin{number}:1"
        twin.recipient, twin.context = f"twin{number}@subject.test", dict(CONTEXT)
        twin.save(force_insert=True)

    assert post(row, action="block") == 303

    assert sorted(send_due()) == [
        f"twin{number}@subject.test" for number in range(1, 4)
    ]


def test_recipient_of_an_sms_blocks_sender_by_its_link(send_request, sms_gateway):
    row = send_request(channel=Channel.SMS, recipient=NUMBER, language="en")
    send_due_notifications()

    ((_number, text),) = sms_gateway.sent
    assert f"{links.block_url(row.pk)} Sent by Verification reports" in text
    assert post(row, action="unknown") == 303
    assert Block.objects.get().reason == "UNKNOWN"


def test_block_outlives_the_address_and_can_be_lifted(send_request):
    row = send_request()
    post(row, action="block")
    send_due()
    Notification.objects.update(created_at="2026-01-01T00:00:00Z")
    purge_recipients()

    assert "is blocked" in Client().get(path_of(row)).content.decode()
    send_request("consent:2:1")
    assert send_due() == []
    post(row, action="lift")
    page = Client().get(path_of(row)).content.decode()
    assert "We do not keep your address" in page
    assert post(row, action="block") == 303
    send_request("consent:3:1")
    assert send_due() == [ADDRESS]


def test_one_mailbox_has_one_hash():
    def same(*addresses: str) -> bool:
        return len({address_hash("EMAIL", one) for one in addresses}) == 1

    assert same("wanjiku@kamau.test", "Wanjiku+a@KAMAU.test ")
    assert same("w.kamau@gmail.com", "wkamau+x.y@googlemail.com")
    assert not same("w.kamau@kamau.test", "wkamau@kamau.test")
    assert address_hash("EMAIL", NUMBER) != address_hash("SMS", NUMBER)


@pytest.mark.parametrize("language", ["en", "sw"])
def test_page_is_in_the_language_of_the_reader(send_request, language):
    page = Client().get(path_of(send_request()), {"lang": language}).content.decode()
    assert ("Siwafahamu" in page) is (language == "sw")


ASKING = {
    "consent": {
        **person(email=ADDRESS, phone=NUMBER, dateOfBirth="1990-03-27"),
        "consent": HOSTED,
    },
    "payment": {
        **company(),
        "paymentMode": "THIRD_PARTY",
        "payer": {**PAYER, "email": ADDRESS, "phone": NUMBER},
    },
}


@pytest.mark.parametrize("asking", ASKING)
def test_hosted_page_lets_its_visitor_block_and_not_lift(api: Api, asking: str):
    api.create(ASKING[asking])
    block_on_page(Notification.objects.filter(kind=f"{asking.upper()}_REQUEST")[0])

    assert send_due() == []
    errors = Notification.objects.values_list("channel", "error")
    assert set(errors) == {("EMAIL", "BLOCKED"), ("SMS", "BLOCKED")}


def test_block_page_of_a_client_delivered_link_says_so(api: Api):
    made = api.create({**person(dateOfBirth="1990-03-27"), "consent": HOSTED})
    visitor = Visitor(made["consentState"]["consentUrl"])
    visitor.open()

    page = visitor.text("block")
    assert "This service has no e-mail address or phone number of yours" in page
    assert "A newer message" not in page


def test_referee_blocks_on_the_page(paying_api: Api):
    request_reference(paying_api)
    block_on_page(Notification.objects.get(kind="REFERENCE_REQUEST"))

    assert send_due() == []


def block_on_page(request: Notification) -> None:
    visitor = Visitor(request.context["link"])
    visitor.open()
    assert f'href="{visitor.page}block"' in visitor.text()

    assert DOTS + "@" not in visitor.text("block")
    answer = visitor.post("block", action="unknown")
    assert answer["Location"] == f"{visitor.page}block"
    visitor.post("block", action="lift")
    assert "Acacia Lenders is blocked" in visible_text(visitor.text("block"))
    assert 'value="lift"' not in visitor.text("block")
    assert {block.reason for block in Block.objects.filter(lifted_at=None)} == {
        "UNKNOWN"
    }


def test_replaced_link_blocks_nobody(api: Api):
    """The draft may have another subject now."""
    made = api.create({**ASKING["consent"], "draft": True})
    visitor = Visitor(made["consentState"]["consentUrl"])
    visitor.open()
    other = {"email": "otieno@subject.test", "phone": None}
    body = {"subject": person(**other)["subject"]}
    assert api.post(f"/reports/{made['id']}/draft", body).status_code == 200

    assert "/block" not in visitor.text()
    visitor.post("block", action="block")
    assert not Block.objects.exists()
