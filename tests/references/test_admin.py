import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.world.clients import Api
from tests.world.clock import let_days_pass
from tests.world.employer import ANSWERS, EVIDENCE, create_reference, referee_messages
from tests.world.staff import log_in, reveal, take_messages
from verification.references.answers import submit
from verification.references.models import Reference

LIST = reverse("admin:references_reference_changelist")
PERSONAL = ["amina@", "Amina", "Baraka", "Always on time", "Wanjiku", "192.0.2.9"]


@pytest.fixture
def staff(admin_user) -> Client:
    client = Client()
    log_in(client, admin_user)
    return client


def change(reference: Reference) -> str:
    return reverse("admin:references_reference_change", args=[reference.pk])


def resend_link(client: Client, reference: Reference) -> list[str]:
    chosen = {"action": "resend", "_selected_action": [reference.pk]}
    data = {"_confirmed": "yes", **chosen}
    return take_messages(client.post(LIST, data))


def test_staff_see_the_status_without_the_answers(paying_api: Api):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    looking = User.objects.create_user("wangari", is_staff=True)
    looking.user_permissions.add(Permission.objects.get(codename="view_reference"))
    client = Client()
    log_in(client, looking)

    listed = client.get(LIST).content.decode()
    page = client.get(change(reference)).content.decode()

    assert str(reference.pk) in listed
    assert "SUBMITTED" in listed
    # Who may only look sends no links.
    assert "Send a new link" not in listed
    assert "a…@baraka.test" in page
    assert reference.number in page
    for personal in PERSONAL:
        assert personal not in listed + page


def test_staff_see_answers_after_revealing_them(paying_api: Api, staff: Client):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)
    masked = staff.get(change(reference)).content.decode()
    assert not [personal for personal in PERSONAL if personal in masked]

    reveal(staff, reference)

    page = staff.get(change(reference)).content.decode()
    assert "Always on time" in page
    assert "192.0.2.9" in page


def test_staff_cannot_edit_a_reference(paying_api: Api, staff: Client):
    reference = create_reference(paying_api)

    assert staff.post(change(reference), {"status": "DECLINED"}).status_code == 403
    assert staff.get(reverse("admin:references_reference_add")).status_code == 403


def test_staff_send_a_new_link(paying_api: Api, staff: Client):
    reference = create_reference(paying_api)
    (message,) = resend_link(staff, reference)
    assert "within the last minute" in message
    let_days_pass(1)

    (message,) = resend_link(staff, reference)

    assert "A new link goes to the referee" in message
    assert Reference.objects.get().generation == 2
    assert len(referee_messages()) == 2


def test_answered_reference_gets_no_link(paying_api: Api, staff: Client):
    reference = create_reference(paying_api)
    submit(reference.pk, 1, ANSWERS, EVIDENCE)

    (message,) = resend_link(staff, reference)

    assert "SUBMITTED" in message
    assert len(referee_messages()) == 1


def test_list_needs_the_same_queries_for_more_rows(
    paying_api: Api, staff: Client, django_assert_max_num_queries
):
    for number in range(3):
        create_reference(paying_api, idNumber=f"2000000{number}")

    with django_assert_max_num_queries(6):
        staff.get(LIST)
