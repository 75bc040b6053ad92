"""The adapter of Smile ID's V3: requests and answers.

tests/sources/test_smile_id_v3.py has jobs and callbacks through the engine.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.smile_id_v3 import KEY, POLICY, FakeSmileIdV3, parts, signed
from tests.fakes.smile_id_v3 import smile_id_v3 as smile_id_v3
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import (
    AnswerPending,
    BadSignature,
    Callback,
    ConsentEvidence,
    PendingInquiry,
    Refused,
    Unavailable,
)

AT = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
HOSTED = ConsentEvidence(AT, "SERVICE_HOSTED", "ke-2026-11d", "sw", "ab" * 32)
ATTESTED = ConsentEvidence(AT, "PAPER_FORM", "v7")
JANE = {
    "idNumber": "12345678",
    "fullName": "Jane Wanjiku Kamau",
    "firstName": "Jane",
    "middleName": "Wanjiku",
    "lastName": "Kamau",
    "email": "jane@example.com",
    "phone": "+254712345678",
}
BEGIN = "/v3/enhanced_kyc"
RECORD = {"full_name": "JANE WANJIKU KAMAU", "id_number": "12345678"}


def asked(
    begun: PendingInquiry | None = None,
    given: ConsentEvidence | None = HOSTED,
    **changed: Any,
):
    subject = {key: value for key, value in {**JANE, **changed}.items() if value}
    return replace(inquiry("IDENTITY", **subject), begun=begun, given=given)


def begin(fake: FakeSmileIdV3, **changed: Any) -> AnswerPending:
    with pytest.raises(AnswerPending) as taken:
        fake.adapter().ask(asked(**changed))
    return taken.value


def called_back(fake: FakeSmileIdV3) -> PendingInquiry:
    """Return the engine's record of the job after its callback."""
    body, headers = fake.signed(fake.events[-1])
    kept = fake.adapter().read_callback(body, headers, datetime.now(UTC))
    assert kept
    return PendingInquiry(datetime.now(UTC), kept.job, kept.body)


def finding_of(fake: FakeSmileIdV3, **changed: Any):
    begin(fake, **changed)
    return ask(fake.adapter(), asked(called_back(fake), **changed))


def test_job_begins_once_with_the_consent(smile_id_v3):
    taken = begin(smile_id_v3)

    (request,) = smile_id_v3.asked(BEGIN)
    sent = parts(request)
    assert taken.job == "job_00000000000000000000000001"
    assert taken.ask_at > datetime.now(UTC)
    assert sent["consent"] == {
        "granted": True,
        "granted_at": "2026-11-20T09:30:00.000Z",
        "notice_language": "SW",
        "notice_privacy_policy_url": POLICY,
    }
    assert sent["metadata"] == [
        {"name": "consent_method", "value": "SERVICE_HOSTED"},
        {"name": "consent_notice_version", "value": "ke-2026-11d"},
        {"name": "consent_notice_sha256", "value": "ab" * 32},
    ]
    assert sent["user_details"] == {
        "given_names": "Jane Wanjiku",
        "last_name": "Kamau",
        "email": "jane@example.com",
    }
    assert (sent["id_type"], sent["id_number"]) == ("NATIONAL_ID_NO_PHOTO", "12345678")
    assert sent["partner_params"]["reference"] == "run-1-1"
    assert request.headers["smileid-partner-id"] == "85"


@pytest.mark.parametrize(
    ("given", "language", "lacking"),
    [
        (HOSTED, "", ""),
        (ATTESTED, "", "the language of the notice"),
        (ATTESTED, "en", ""),
        (None, "en", "the language of the notice"),
    ],
)
def test_job_without_a_consent_is_refused(smile_id_v3, given, language, lacking):
    adapter = smile_id_v3.adapter(attested_language=language)

    assert lacking in adapter.missing_requirement(JANE, given)
    with pytest.raises(Refused if lacking else AnswerPending):
        adapter.ask(asked(given=given))
    assert len(smile_id_v3.jobs) == (not lacking)
    if given is ATTESTED and not lacking:
        (sent,) = smile_id_v3.jobs.values()
        assert sent["consent"]["notice_language"] == "EN"
        assert sent["metadata"][0]["value"] == "PAPER_FORM"


@pytest.mark.parametrize(
    "changed",
    [{"lastName": None}, {"firstName": None}, {"email": None, "phone": None}],
)
def test_subject_without_required_details_is_refused(smile_id_v3, changed):
    with pytest.raises(Refused, match="needs the subject's"):
        smile_id_v3.adapter().ask(asked(**changed))

    assert smile_id_v3.requests == []


def test_job_has_the_phone_when_there_is_no_email(smile_id_v3):
    begin(smile_id_v3, email=None)

    (sent,) = smile_id_v3.jobs.values()
    assert sent["user_details"]["phone_number"] == "+254712345678"


def test_callback_with_a_record_makes_the_finding(smile_id_v3):
    answer = finding_of(smile_id_v3, dateOfBirth="1990-01-31")

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider == "smile_id_v3"
    assert answer.provider_reference == "job_00000000000000000000000001"
    assert answer.details["fullName"] == "JANE WANJIKU KAMAU"
    assert answer.details["gender"] == "FEMALE"


@pytest.mark.parametrize(
    ("tells", "person", "flags", "score"),
    [
        ({"status": "block", "reason": "identifier_not_found"}, {}, "ID_NOT_FOUND", 80),
        ({}, {"full_name": "PETER OUMA"}, "NAME_MISMATCH", 55),
        ({}, {"date_of_birth": "1991-01-31"}, "DOB_MISMATCH", 50),
        ({}, {"full_name": None, "first_name": "PETER"}, "NAME_MISMATCH", 55),
        # Smile ID is in doubt: not clean, and no better than the record.
        ({"status": "attention"}, {}, "", None),
        ({"status": "attention"}, {"full_name": "PETER OUMA"}, "NAME_MISMATCH", 55),
        ({}, {"date_of_birth": "soon"}, "", None),
        (
            {},
            {"full_name": "N/A", "first_name": "", "last_name": None},
            "NAME_NOT_COMPARED",
            None,
        ),
    ],
)
def test_callback_maps_to_an_outcome(smile_id_v3, tells, person, flags, score):
    smile_id_v3.tells, smile_id_v3.person = tells, person

    answer = finding_of(smile_id_v3, dateOfBirth="1990-01-31")

    assert (" ".join(codes(answer)), answer.score) == (flags, score)
    assert answer.is_whole == (score is not None and tells.get("status") != "attention")


@pytest.mark.parametrize(
    ("stated", "told"),
    [("01234567", "1234567"), ("1234567", "01234567"), ("0123 4567", 1234567)],
)
def test_number_matches_without_its_leading_zeros(smile_id_v3, stated, told):
    smile_id_v3.person = {"id_number": told}

    assert codes(finding_of(smile_id_v3, idNumber=stated)) == []


@pytest.mark.parametrize(
    ("tells", "failure", "told"),
    [
        ({"status": "block", "reason": "high_risk"}, Refused, "high_risk"),
        ({"status": "block", "reason": "JANE"}, Refused, "not known"),
        ({"status": "block", "reason": None}, Refused, "not known"),
        ({"status": "error", "reason": "service_unavailable"}, Unavailable, "service_"),
        ({"status": "error", "reason": "JANE"}, Unavailable, "could not answer"),
        ({"status": "complete", "id_fields": RECORD}, Unavailable, "could not answer"),
        ({"status": None, "id_fields": RECORD}, Unavailable, "could not answer"),
        ({"status": "block", "id_fields": RECORD}, Refused, "not known"),
        *(
            ({"status": status, "id_fields": no}, Unavailable, "could not answer")
            for status in ("clear", "attention")
            for no in (None, {})
        ),
        ({"id_fields": {"id_number": "999"}}, Unavailable, "something else"),
    ],
)
def test_callback_without_a_record_is_never_clean(smile_id_v3, tells, failure, told):
    smile_id_v3.tells = tells

    with pytest.raises(failure, match=told) as error:
        finding_of(smile_id_v3)

    assert "JANE" not in error.value.message
    assert getattr(error.value, "may_be_charged", True)


@pytest.mark.parametrize("status", ["clear", "block", "attention"])
def test_status_of_an_ended_job_requests_a_new_callback(smile_id_v3, status):
    smile_id_v3.tells = {"status": status}
    job = begin(smile_id_v3).job

    with pytest.raises(AnswerPending) as waits:
        smile_id_v3.adapter().ask(asked(PendingInquiry(datetime.now(UTC), job)))

    assert waits.value.job == job
    assert len(smile_id_v3.events) == 2
    assert len(smile_id_v3.jobs) == 1


def test_running_job_is_awaited_for_a_limited_time(smile_id_v3):
    smile_id_v3.is_at_work = True
    job = begin(smile_id_v3).job

    with pytest.raises(AnswerPending):
        smile_id_v3.adapter().ask(asked(PendingInquiry(datetime.now(UTC), job)))
    late = datetime.now(UTC) - timedelta(minutes=16)
    with pytest.raises(Unavailable, match="call back in time") as error:
        smile_id_v3.adapter().ask(asked(PendingInquiry(late, job)))

    assert error.value.may_be_charged
    assert len(smile_id_v3.jobs) == 1
    assert not smile_id_v3.asked("/v3/replay/")


@pytest.mark.parametrize(
    ("tells", "job"), [({"status": "error"}, ""), ({}, "job_" + "9" * 26)]
)
def test_failed_job_is_unavailable_at_once(smile_id_v3, tells, job):
    smile_id_v3.tells = tells
    job = job or begin(smile_id_v3).job

    with pytest.raises(Unavailable, match="ended the job with status") as error:
        smile_id_v3.adapter().ask(asked(PendingInquiry(datetime.now(UTC), job)))

    assert error.value.may_be_charged


@pytest.mark.parametrize("fault", [{"status": 500}, {"html": True}, {"half": True}])
def test_unreadable_status_begins_no_second_job(smile_id_v3, fault):
    job = begin(smile_id_v3).job
    for name, value in fault.items():
        setattr(smile_id_v3.faults, name, value)
    smile_id_v3.faults.path = "/v3/status/"

    with pytest.raises(AnswerPending):
        smile_id_v3.adapter().ask(asked(PendingInquiry(datetime.now(UTC), job)))

    assert len(smile_id_v3.jobs) == 1


@pytest.mark.parametrize("fault", [{"half": True}, {"slow": 0.6}])
def test_job_with_a_lost_answer_is_awaited(smile_id_v3, fault, monkeypatch):
    monkeypatch.setattr("verification.providers.smile_id_v3.SECONDS", 0.2)
    for name, value in fault.items():
        setattr(smile_id_v3.faults, name, value)
    smile_id_v3.faults.path = BEGIN

    taken = begin(smile_id_v3)

    assert taken.job == ""
    assert len(smile_id_v3.jobs) == 1


@pytest.mark.parametrize("answer", ["<html>", [], {}, {"job_id": "../x"}])
def test_job_without_an_id_is_awaited(smile_id_v3, answer):
    smile_id_v3.says = (202, answer)

    assert begin(smile_id_v3).job == ""


@pytest.mark.parametrize(
    ("status", "failure", "told"),
    [
        (400, Refused, "a value of the request"),
        (401, Refused, "credentials"),
        (402, Unavailable, "no balance"),
        (403, Refused, "has not enabled"),
        (413, Refused, "this size"),
        (415, Refused, "form of request"),
        (422, Refused, "status 422"),
        (429, Unavailable, "status 429"),
        (500, Unavailable, "status 500"),
    ],
)
def test_error_maps_to_a_failure(smile_id_v3, status, failure, told):
    smile_id_v3.says = (status, {"status": "JANE", "message": "JANE"})

    with pytest.raises(failure, match=told) as error:
        smile_id_v3.adapter().ask(asked())

    assert "JANE" not in error.value.message
    assert not getattr(error.value, "may_be_charged", False)


def test_token_serves_many_jobs_until_it_expires(smile_id_v3):
    adapter = smile_id_v3.adapter()
    for _ in range(2):
        with pytest.raises(AnswerPending):
            adapter.ask(asked())
    assert smile_id_v3.tokens == 1

    smile_id_v3.expired = {"token-1"}
    with pytest.raises(AnswerPending):
        adapter.ask(asked())
    assert (smile_id_v3.tokens, len(smile_id_v3.jobs)) == (2, 3)


def test_wrong_credentials_are_refused(smile_id_v3):
    with pytest.raises(Refused, match="does not take the credentials"):
        smile_id_v3.adapter(api_key="another").ask(asked())


def read(fake: FakeSmileIdV3, body: bytes | None = None, **headers: str | None):
    signed_body, given = fake.signed(fake.events[-1])
    given = {name: value for name, value in {**given, **headers}.items() if value}
    return fake.adapter().read_callback(body or signed_body, given, datetime.now(UTC))


@pytest.mark.parametrize("partner", ["85", "085"])
def test_callback_names_the_inquiry(smile_id_v3, partner):
    smile_id_v3.partner = partner
    begin(smile_id_v3)

    kept = read(smile_id_v3)

    assert isinstance(kept, Callback)
    assert (kept.reference, kept.attempt) == ("run-1", 1)
    assert kept.job == "job_00000000000000000000000001"
    assert json.loads(kept.body)["id_fields"]["full_name"] == "JANE WANJIKU KAMAU"


NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    "headers",
    [
        {"Response-Signature": "bm8="},
        {"Response-Signature": None},
        {"Response-Signature": "ä\udcff"},
        {"Response-Timestamp": None},
        {"Response-Timestamp": NOW.isoformat()},
        signed("soon"),
        signed(NOW.replace(tzinfo=None).isoformat()),
        signed((NOW - timedelta(hours=2)).isoformat()),
        signed((NOW + timedelta(hours=2)).isoformat()),
        signed(NOW.isoformat(), key="another"),
        signed(NOW.isoformat(), partner="86"),
    ],
)
def test_callback_with_a_wrong_or_old_signature_is_refused(smile_id_v3, headers):
    begin(smile_id_v3)

    with pytest.raises(BadSignature):
        read(smile_id_v3, **headers)


@pytest.mark.parametrize(
    "params",
    [
        {"proof": ""},
        {"proof": None},
        {"reference": "run-1-2"},
        {"reference": "run-1"},
        {"reference": "\x00"},
        {"reference": None},
    ],
)
def test_signed_callback_without_its_proof_is_refused(smile_id_v3, params):
    begin(smile_id_v3)
    event = smile_id_v3.events[-1]
    event["partner_params"] = {**event["partner_params"], **params}

    with pytest.raises(BadSignature):
        read(smile_id_v3)


@pytest.mark.parametrize("body", [b"\xff", b"<html>", b"[" * 100_000])
def test_signed_callback_that_is_no_json_is_refused(smile_id_v3, body):
    begin(smile_id_v3)

    with pytest.raises(BadSignature):
        read(smile_id_v3, body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"{}", b'{"partner_params": {}}'])
def test_signed_callback_about_another_job_is_dropped(smile_id_v3, body):
    begin(smile_id_v3)

    assert read(smile_id_v3, body) is None


def test_callback_of_a_running_job_is_dropped(smile_id_v3):
    smile_id_v3.tells = {"status": "processing"}
    begin(smile_id_v3)

    assert read(smile_id_v3) is None


def test_proof_depends_on_the_key(smile_id_v3):
    begin(smile_id_v3)

    (sent,) = smile_id_v3.jobs.values()
    assert KEY not in json.dumps(sent)
    assert len(sent["partner_params"]["proof"]) == 64
