"""The rule that another person decides on a request."""

import pytest

from tests.accounts.visitor import known
from verification.backoffice.approvals import is_second_person

pytestmark = pytest.mark.django_db


def test_requester_and_service_are_no_second_person():
    ada, grace = known("ada", is_staff=True), known("grace", is_staff=True)

    assert is_second_person(grace.pk, [ada.pk])
    assert not is_second_person(ada.pk, [ada.pk])
    assert not is_second_person(None, [ada.pk])


def test_other_account_of_a_requester_is_no_second_person():
    ada, by_day = known("ada", is_staff=True), known("by-day", is_staff=True)
    by_day.email = ada.email.upper()
    by_day.save()

    assert not is_second_person(by_day.pk, [ada.pk])


def test_accounts_without_an_address_are_different_people():
    ada, grace = known("ada", is_staff=True), known("grace", is_staff=True)
    type(ada).objects.update(email="")

    assert is_second_person(grace.pk, [ada.pk])
