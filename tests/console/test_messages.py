"""Members choose the messages that they get."""

import re
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from tests.world.clients import Api, company
from tests.world.console import ConsoleVisitor
from tests.world.deliveries import configure_receiver
from tests.world.member_messages import choose, messages_to
from tests.world.members import create_member
from verification.backoffice.models import AuditEvent
from verification.notifications.models import Channel, Kind, RefusedAddress
from verification.notifications.recipients import address_hash
from webhooks.health import notify_disabled
from webhooks.models import Configuration
from workspaces import ledger
from workspaces.ledger import notify_low_balances
from workspaces.member_messages import links_of
from workspaces.models import Member, MessageChoice

pytestmark = pytest.mark.django_db


def chosen_in(html: str) -> dict[str, str]:
    """Return the choice that the form shows for each kind."""
    selects = re.findall(r'<select name="(\w+)".*?</select>', html, re.DOTALL)
    times = re.findall(r'<option value="(\w+)" selected', html)
    return dict(zip(selects, times, strict=True))


def let_balance_run_low(live_api: Api) -> None:
    ledger.top_up(live_api.workspace, "production", Decimal(1250), actor="t", note="")
    live_api.create(company())
    notify_low_balances()


def test_owner_is_told_of_trouble_at_once_until_they_choose(owner, viewer):
    html = owner.page("messages", "production")
    assert chosen_in(html) == {
        "REPORT_READY": "OFF",
        "REPORT_FAILED": "OFF",
        "DECISION_WAITING": "DAILY",
        "HAND_OVER": "DAILY",
        "ALERT": "DAILY",
        "RULES_PAUSED": "NOW",
        "LOW_BALANCE": "NOW",
        "WEBHOOK": "NOW",
    }
    others = set(chosen_in(viewer.page("messages", "production")).values())
    assert others == {"OFF"}


def test_sandbox_sends_only_what_it_always_has(owner):
    shown = chosen_in(owner.page("messages"))
    assert {kind for kind, time in shown.items() if time != "OFF"} == {
        "RULES_PAUSED",
        "WEBHOOK",
    }
    assert "LOW_BALANCE" not in shown


def test_choice_of_one_environment_leaves_the_other(owner):
    fields = chosen_in(owner.page("messages"))
    assert owner.messages_after("messages", {**fields, "REPORT_READY": "NOW"}) == [
        "Saved."
    ]

    assert chosen_in(owner.page("messages"))["REPORT_READY"] == "NOW"
    assert chosen_in(owner.page("messages", "production"))["REPORT_READY"] == "OFF"
    (event,) = AuditEvent.objects.filter(action="messages.chosen")
    assert event.fields == ["REPORT_READY"]


def test_unknown_time_shows_the_form_again(owner):
    fields = chosen_in(owner.page("messages"))
    answer = owner.post("messages", {**fields, "ALERT": "WEEKLY"})

    assert "<title>Error:" in answer.content.decode()
    assert not MessageChoice.objects.exists()


def test_member_is_offered_what_the_role_may_see(viewer, officer):
    shown = chosen_in(viewer.page("messages", "production"))
    assert "DECISION_WAITING" not in shown
    shown = chosen_in(officer.page("messages", "production"))
    assert shown["DECISION_WAITING"] == "DAILY"
    assert not shown.keys() & {"LOW_BALANCE", "WEBHOOK"}


def test_account_leads_to_the_choice(owner, another_api):
    html = owner.http.get(reverse("mfa_index")).content.decode()
    assert 'href="/console/messages"' in html
    # Every link has the name of the page.
    pages = [owner.page(name) for name in ("messages", "members")]
    assert all("Messages to you" in page for page in (html, *pages))
    answer = owner.http.get("/console/messages")
    assert answer["Location"] == owner.url("messages")

    Member.objects.create(
        workspace=another_api.workspace, user=owner.member.user, role="VIEWER"
    )
    html = owner.http.get("/console/messages").content.decode()
    assert owner.url("messages", "production") in html


def test_low_balance_goes_to_those_who_want_it(live_api: Api):
    owner = create_member(live_api.workspace, "OWNER")
    viewer = create_member(live_api.workspace, "VIEWER")
    choose(viewer, LOW_BALANCE="NOW")
    choose(owner, LOW_BALANCE="OFF")
    let_balance_run_low(live_api)

    assert messages_to(owner) == []
    (message,) = messages_to(viewer)
    assert message.kind == Kind.LOW_BALANCE
    assert message.context["choicesUrl"].endswith("/production/messages/")


def test_only_the_first_owner_gets_a_low_balance_by_default(live_api: Api):
    first, second = (create_member(live_api.workspace, "OWNER", n) for n in "ab")
    create_member(live_api.workspace, "ADMIN")
    let_balance_run_low(live_api)

    assert len(messages_to(first)) == 1
    assert messages_to(second) == []


def test_owner_who_turns_the_warning_off_leaves_it_to_the_next_owner(live_api: Api):
    first, second = (create_member(live_api.workspace, "OWNER", n) for n in "ab")
    create_member(live_api.workspace, "ADMIN")
    choose(first, LOW_BALANCE="OFF")
    let_balance_run_low(live_api)

    assert messages_to(first) == []
    assert len(messages_to(second)) == 1


def test_page_says_what_nobody_gets(owner, viewer, officer):
    unread = "No member gets these messages, at once or in the digest"
    assert unread not in owner.page("messages", "production")

    choose(owner.member, LOW_BALANCE="OFF")

    html = viewer.page("messages", "production")
    assert f"{unread}:</p><ul><li>A low balance</li></ul>" in html
    assert unread not in officer.page("messages", "production")

    choose(viewer.member, LOW_BALANCE="DAILY")
    assert unread not in owner.page("messages", "production")


def test_page_says_that_the_only_reader_refuses_messages(owner):
    address = address_hash(Channel.EMAIL, owner.member.user.email)
    RefusedAddress.objects.create(address_hash=address)

    html = owner.page("messages", "production")

    assert "<li>A low balance</li>" in html


def test_disabled_receiver_is_told_to_those_who_want_it(api: Api):
    admin = create_member(api.workspace, "ADMIN")
    choose(admin, "sandbox", WEBHOOK="NOW")
    owner = create_member(api.workspace, "OWNER")
    configure_receiver(api.workspace, "https://hooks.example.com/")
    configuration = Configuration.objects.get()
    configuration.enabled, configuration.disabled_reason = False, "GONE"
    configuration.disabled_at = configuration.updated_at
    configuration.save()
    for _ in range(2):
        notify_disabled(str(configuration.pk))

    for member in (admin, owner):
        (message,) = messages_to(member)
        assert message.sandbox is True


def test_page_says_that_the_address_was_refused(owner: ConsoleVisitor):
    hashed = address_hash(Channel.EMAIL, owner.member.user.email)
    RefusedAddress.objects.create(address_hash=hashed)
    html = owner.page("messages")
    assert "refused our last message" in html

    owner.post("messages", chosen_in(html))
    assert "refused our last message" not in owner.page("messages")


def test_off_link_shows_what_it_turns_off_and_needs_no_login(owner):
    url = links_of(owner.member, "production-WEBHOOK", "production")["offUrl"]
    path = "/console/" + url.partition("/console/")[2]
    html = Client().get(path).content.decode()
    assert "Webhooks that fail or are disabled" in html

    html = Client().post(path).content.decode()
    assert "You no longer get these messages." in html
    assert AuditEvent.objects.get().action == "messages.turned-off"
