"""Members confirm the addresses that get the messages of their sandbox."""

from datetime import timedelta

import pytest
from django.core import mail
from django.utils.timezone import now

from tests.fakes.africastalking import sms_gateway as sms_gateway
from tests.notifications.messages import NUMBER
from tests.world.clients import Api, approve_workspace
from tests.world.members import create_member
from tests.world.threads import run_at_once
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Channel, Notification, SandboxAddress
from workspaces.members import NotAllowed
from workspaces.models import Member
from workspaces.sandbox_addresses import (
    CODES_PER_DAY,
    MAX_ADDRESSES,
    MAX_TRIES,
    TooManyAddresses,
    WrongCode,
    add,
    confirm,
    remove,
)

ADDRESS = "grace@testers.test"


@pytest.fixture
def admin(another_api: Api) -> Member:
    return create_member(another_api.workspace, "ADMIN")


def add_address(admin: Member, address: str = ADDRESS, channel=Channel.EMAIL) -> str:
    """Return the code that is sent."""
    row = add(admin, channel, address, "en")
    cause = f"sandbox-address:{row.pk}"
    return Notification.objects.get(cause=cause).context["code"]


def row() -> SandboxAddress:
    return SandboxAddress.objects.latest("id")


def is_confirmed() -> bool:
    return row().confirmed_at is not None


def test_code_that_was_sent_confirms_the_address(admin: Member):
    code = add_address(admin)
    send_due_notifications()
    (letter,) = mail.outbox
    assert letter.to == [ADDRESS]
    assert code in letter.body
    assert "/b/" in letter.body
    confirm(admin, row().pk, f" {code} ")

    assert is_confirmed()
    assert row().code_hash is None
    assert row().address == ADDRESS
    assert ADDRESS not in str(list(SandboxAddress.objects.values_list()))


def test_code_names_nobody_until_the_workspace_is_live(admin: Member):
    add_address(admin)
    send_due_notifications()

    assert "Baobab" not in str(mail.outbox[0].message())


def test_number_is_refused_until_the_workspace_is_live(admin: Member, sms_gateway):
    with pytest.raises(ValueError, match="sends no SMS"):
        add_address(admin, NUMBER, Channel.SMS)
    send_due_notifications()

    assert sms_gateway.sent == []


def test_code_is_sent_by_sms_to_a_number(admin: Member, sms_gateway):
    approve_workspace(admin.workspace)
    code = add_address(admin, NUMBER, Channel.SMS)
    send_due_notifications()

    ((number, text),) = sms_gateway.sent
    assert number == NUMBER
    assert code in text


def test_code_works_for_five_tries(admin: Member):
    code = add_address(admin)
    for _ in range(MAX_TRIES):
        with pytest.raises(WrongCode):
            confirm(admin, row().pk, "x")
    with pytest.raises(WrongCode):
        confirm(admin, row().pk, code)

    assert not is_confirmed()


def test_code_works_for_half_an_hour(admin: Member):
    code = add_address(admin)
    SandboxAddress.objects.update(created_at=now() - timedelta(minutes=31))
    with pytest.raises(WrongCode):
        confirm(admin, row().pk, code)

    new = add_address(admin)
    confirm(admin, row().pk, new)
    assert admin.workspace.sandbox_addresses.count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_tries_are_limited_to_five(admin: Member):
    add_address(admin)
    answers = run_at_once(8, lambda n: confirm(admin, row().pk, f"{n}"), connected=True)

    assert {type(one) for one in answers} == {WrongCode}
    assert row().wrong_codes == MAX_TRIES


def test_confirmed_address_gets_no_second_code(admin: Member):
    code = add_address(admin)
    confirm(admin, row().pk, code)
    add(admin, Channel.EMAIL, "Grace@Testers.test", "en")

    assert is_confirmed()
    assert Notification.objects.count() == 1


def test_code_of_another_workspace_is_not_found(admin: Member, api: Api):
    code = add_address(admin)
    stranger = create_member(api.workspace, "OWNER", "stranger")
    with pytest.raises(SandboxAddress.DoesNotExist):
        confirm(stranger, row().pk, code)
    remove(stranger, row().pk)

    assert not is_confirmed()


def test_removed_address_gets_no_code(admin: Member):
    add_address(admin)
    remove(admin, row().pk)
    send_due_notifications()

    assert mail.outbox == []
    assert not admin.workspace.sandbox_addresses.exists()


def test_addresses_of_a_workspace_are_limited(admin: Member):
    for n in range(MAX_ADDRESSES):
        add_address(admin, f"p{n}@testers.test")
    with pytest.raises(TooManyAddresses):
        add_address(admin)


def test_codes_of_a_workspace_a_day_are_limited(admin: Member):
    for n in range(CODES_PER_DAY):
        add_address(admin, f"p{n}@testers.test")
        remove(admin, row().pk)
    with pytest.raises(TooManyAddresses):
        add_address(admin)


def test_viewer_adds_no_address(another_api: Api):
    viewer = create_member(another_api.workspace, "VIEWER")
    with pytest.raises(NotAllowed):
        add_address(viewer)
