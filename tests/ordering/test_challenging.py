from datetime import timedelta

import pytest
from django.utils.timezone import now

from tests.clients import HOSTED, Api, company, person
from verification.consents.models import Consent
from verification.ordering.challenging import Locked, answer_challenge, challenge_of


def hosted(api: Api, **subject: str) -> Consent:
    made = api.create({**person(**subject), "consent": HOSTED})
    return Consent.objects.get(report=made["id"])


@pytest.mark.parametrize("answer", ["1990-01-31", " 1990-01-31 "])
def test_who_knows_the_date_of_birth_is_let_in(api: Api, answer: str):
    consent = hosted(api, dateOfBirth="1990-01-31")
    assert challenge_of(consent) == "DATE_OF_BIRTH"
    assert answer_challenge(consent.pk, 1, answer)


@pytest.mark.parametrize("answer", ["5678", "56 78", "56-78"])
def test_without_it_the_end_of_the_id_number_is_asked_for(api: Api, answer: str):
    consent = hosted(api)
    assert challenge_of(consent) == "ID_NUMBER_END"
    assert answer_challenge(consent.pk, 1, answer)


@pytest.mark.parametrize("answer", ["", "1234", "12345678", "678", "1990-01-31"])
def test_anything_else_is_wrong(api: Api, answer: str):
    assert not answer_challenge(hosted(api).pk, 1, answer)


def test_a_report_that_knows_no_number_asks_nothing(api: Api):
    item = {**company(registrationNumber=None, kraPin="P123456789Z")}
    item |= {"checksRequested": ["KRA_PIN"], "consent": HOSTED}
    consent = Consent.objects.get(report=api.create(item)["id"])
    assert challenge_of(consent) is None


def test_five_wrong_answers_lock_the_link_for_15_minutes(api: Api):
    consent = hosted(api)
    for _ in range(4):
        assert not answer_challenge(consent.pk, 1, "0000")
    with pytest.raises(Locked) as locked:
        answer_challenge(consent.pk, 1, "0000")
    assert timedelta(minutes=14) < locked.value.until - now() <= timedelta(minutes=15)
    with pytest.raises(Locked):
        answer_challenge(consent.pk, 1, "5678")
    Consent.objects.update(locked_until=now())
    assert answer_challenge(consent.pk, 1, "5678")


def test_a_right_answer_forgets_the_wrong_ones(api: Api):
    consent = hosted(api)
    for answer in ["0000"] * 4 + ["5678"] + ["0000"] * 4:
        answer_challenge(consent.pk, 1, answer)
    assert Consent.objects.get().wrong_answers == 4


def test_a_link_that_was_replaced_asks_nothing(api: Api):
    consent = hosted(api)
    Consent.objects.update(generation=2)
    with pytest.raises(Consent.DoesNotExist):
        answer_challenge(consent.pk, 1, "5678")
