"""The page of decisions in the back office."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.world.clients import Api
from tests.world.decisions import Officer, create_ready_report
from tests.world.staff import (
    assert_read_only,
    change_url,
    list_url,
    log_in,
    read_page,
    reveal,
)
from verification.decisions.models import Decision

SEERS = {"Operations", "Privacy officer", "Reviewer", "Superuser"}
PERSONAL = ["Adverse information", "Two loans at Baraka"]


@pytest.fixture
def decision(api: Api) -> Decision:
    report = create_ready_report(api)
    return Officer(api, "OFFICER").decide(report, note="Two loans at Baraka")


def test_staff_read_decisions_and_their_reasons_after_a_reveal(decision):
    client = log_in_as("Reviewer")

    masked = read_page(client, list_url(Decision)) + read_page(
        client, change_url(decision)
    )
    assert str(decision.report_id) in masked
    assert "DECLINED" in masked or "Declined" in masked
    assert not [text for text in PERSONAL if text in masked]
    reveal(client, decision)
    shown = read_page(client, change_url(decision))

    assert [text for text in PERSONAL if text not in shown] == []


def test_staff_change_no_decision(decision, superuser):
    assert_read_only(superuser, decision)


def test_roles_without_decisions_see_none(decision):
    seers = Group.objects.filter(permissions__codename="view_decision")

    assert {group.name for group in seers} == SEERS
    assert log_in_as("Finance").get(change_url(decision)).status_code == 403


def log_in_as(role: str) -> Client:
    user = User.objects.create_user("wangari", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    log_in(client, user)
    return client
