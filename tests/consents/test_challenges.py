from datetime import timedelta

import pytest
import time_machine
from django.core import mail
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.consents.test_decisions import EVIDENCE
from tests.world.clients import HOSTED, Api, person
from tests.world.orders import EMPLOYMENT
from verification.consents.links import LinkLocked, answer_challenge, remind_subjects
from verification.consents.models import Consent, challenge_for_consent
from verification.consents.subject_decisions import grant
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification


def create_hosted_consent(api: Api, **subject: str) -> Consent:
    report = api.create({**person(**subject), "consent": HOSTED})
    return Consent.objects.get(report=report["id"])


@pytest.mark.parametrize("answer", ["1990-01-31", " 1990-01-31 "])
def test_date_of_birth_passes_the_challenge(api: Api, answer: str):
    consent = create_hosted_consent(api, dateOfBirth="1990-01-31")
    assert challenge_for_consent(consent) == "DATE_OF_BIRTH"
    assert answer_challenge(consent.pk, 1, answer)


@pytest.mark.parametrize("answer", ["5678", "56 78", "56-78"])
def test_challenge_asks_for_the_id_number_without_a_birthday(api: Api, answer: str):
    consent = create_hosted_consent(api)
    assert challenge_for_consent(consent) == "ID_NUMBER_END"
    assert answer_challenge(consent.pk, 1, answer)


@pytest.mark.parametrize("answer", ["", "1234", "12345678", "678", "1990-01-31"])
def test_other_answers_are_wrong(api: Api, answer: str):
    assert not answer_challenge(create_hosted_consent(api).pk, 1, answer)


def test_report_without_details_has_no_challenge(api: Api):
    item = person(idNumber=None, **EMPLOYMENT)
    item |= {"checksRequested": ["EMPLOYER_VERIFICATION"], "consent": HOSTED}
    consent = Consent.objects.get(report=api.create(item)["id"])
    assert challenge_for_consent(consent) is None


def test_five_wrong_answers_lock_the_link_for_15_minutes(api: Api):
    consent = create_hosted_consent(api)
    for _ in range(4):
        assert not answer_challenge(consent.pk, 1, "0000")
    with pytest.raises(LinkLocked) as locked:
        answer_challenge(consent.pk, 1, "0000")
    assert timedelta(minutes=14) < locked.value.until - now() <= timedelta(minutes=15)
    with pytest.raises(LinkLocked):
        answer_challenge(consent.pk, 1, "5678")
    Consent.objects.update(locked_until=now())
    assert answer_challenge(consent.pk, 1, "5678")


def test_right_answer_resets_the_wrong_ones(api: Api):
    consent = create_hosted_consent(api)
    for answer in ["0000"] * 4 + ["5678"] + ["0000"] * 4:
        answer_challenge(consent.pk, 1, answer)
    assert Consent.objects.get().wrong_answers == 4


def test_replaced_link_takes_no_answer(api: Api):
    consent = create_hosted_consent(api)
    Consent.objects.update(generation=2)
    with pytest.raises(Consent.DoesNotExist):
        answer_challenge(consent.pk, 1, "5678")


def lock(consent: Consent) -> timedelta | None:
    """Give the fifth wrong answer, once the last lock is over; how long the link is
    locked now, or None if it is so for good."""
    Consent.objects.filter(locked_until__isnull=False).update(locked_until=now())
    Consent.objects.update(wrong_answers=4)
    with pytest.raises(LinkLocked) as locked:
        answer_challenge(consent.pk, consent.generation, "0000")
    until = locked.value.until
    return until and until - now()


def test_locks_get_longer_and_the_fourth_never_ends(api: Api):
    consent = create_hosted_consent(api, email="wanjiku@kamau.test")
    send_due_notifications()
    mail.outbox.clear()

    locks = [lock(consent) for _ in range(3)]

    minute = timedelta(minutes=1)
    for found, meant in zip(locks, Consent.LOCK_DURATIONS, strict=True):
        assert meant - minute < found <= meant
    send_due_notifications()
    assert mail.outbox == []
    assert lock(consent) is None
    with time_machine.travel(now() + timedelta(days=3)), pytest.raises(LinkLocked):
        answer_challenge(consent.pk, 1, "5678")
    send_due_notifications()
    (message,) = mail.outbox
    assert "Your link to the request of Acacia Lenders is locked" in message.subject
    assert message.to == ["wanjiku@kamau.test"]
    changes = api.get(f"/reports/{consent.report_id}/events").json()["events"]
    assert changes[-1]["trigger"] == "consent link locked for good"
    assert changes[-1]["from"] == changes[-1]["to"] == "PENDING_CONSENT"


def test_right_answer_resets_the_locks(api: Api):
    consent = create_hosted_consent(api)
    lock(consent)
    lock(consent)
    Consent.objects.update(locked_until=now())
    assert answer_challenge(consent.pk, 1, "5678")

    assert lock(consent) <= timedelta(minutes=15)


def test_new_link_replaces_one_locked_for_good(api: Api):
    consent = create_hosted_consent(api)
    for _ in range(4):
        lock(consent)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))

    sent = api.post(f"/reports/{consent.report_id}/consent/resend")

    assert sent.status_code == 200
    assert answer_challenge(consent.pk, 2, "5678")


def test_granted_consent_is_never_locked_for_good(api: Api):
    consent = create_hosted_consent(api)
    grant(consent.pk, 1, EVIDENCE)

    locks = [lock(consent) for _ in range(6)]

    assert timedelta(hours=23) < locks[-1] <= timedelta(days=1)
    Consent.objects.update(locked_until=now())
    assert answer_challenge(consent.pk, 1, "5678")


def test_locked_link_gets_no_reminder(api: Api):
    consent = create_hosted_consent(api, email="wanjiku@kamau.test")
    for _ in range(4):
        lock(consent)
    Consent.objects.update(link_made_at=now() - timedelta(days=15))

    remind_subjects()

    assert not Notification.objects.filter(kind="CONSENT_REMINDER").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"locks": 5},
        {"locks": 0, "locked_until": now()},
        {"locks": 4, "locked_until": now()},
    ],
)
def test_database_refuses_other_locks(api: Api, wrong: dict):
    create_hosted_consent(api)
    locked = pytest.raises(IntegrityError, match="locked_for_a_time_or_for_good")
    with locked, transaction.atomic():
        Consent.objects.update(**wrong)
