from datetime import UTC, datetime, timedelta

from tests.world.clients import ATTESTED, Api, person
from tests.world.orders import fault_codes, fault_codes_of_each, with_value
from verification.reports.models import Report


def stored_subject(api: Api, **subject) -> dict:
    return api.report(api.create(person(**subject))["id"])["subject"]


def test_phone_number_is_stored_as_e164(api: Api):
    for sent, kept in [
        ("+254712345678", "+254712345678"),
        ("+254 712 345-678", "+254712345678"),
        ("+44 20 7946 0018", "+442079460018"),
    ]:
        assert stored_subject(api, phone=sent)["phone"] == kept


INVALID = {
    "phone": [
        "0712345678",
        "+2547123",
        "+999123456789",
        "+254712345678 ext. 5",
        "+1 800 FLOWERS",
        "+٢٥٤٧١٢٣٤٥٦٧٨",
        "phone",
        "+",
        "+254000000000",
    ],
    "email": ["nobody", "a@", "@b.test", "a b@c.test", "a@b..test"],
    "dateOfBirth": [
        "2023-02-29",
        "1990-13-01",
        "1990-1-1",
        "01-02-1990",
        "19900101",
        "\u0662000-01-01",
    ],
    "country": ["ke", "KEN", "XX", "K", "254"],
}


def test_invalid_phone_email_date_and_country_are_refused(api: Api):
    for member, values in INVALID.items():
        code = "invalid-choice" if member == "country" else "invalid-format"

        codes = fault_codes_of_each(api, [person(**{member: v}) for v in values])

        assert codes == [{f"subject/{member}": code}] * len(values)


def test_email_address_is_stored_as_sent(api: Api):
    assert stored_subject(api, email="Wan.Jiku+x@acacia.test")["email"] == (
        "Wan.Jiku+x@acacia.test"
    )


def test_leap_day_is_accepted(api: Api):
    assert stored_subject(api, dateOfBirth="2024-02-29")["dateOfBirth"] == "2024-02-29"


def test_birth_date_is_from_1900_to_today(api: Api):
    today = datetime.now(UTC).date()

    for day in ("1899-12-31", "0001-01-01", str(today + timedelta(days=2))):
        refused = fault_codes(api, person(dateOfBirth=day))
        assert refused == {"subject/dateOfBirth": "out-of-range"}
    for day in ("1900-01-01", str(today)):
        assert stored_subject(api, dateOfBirth=day)["dateOfBirth"] == day


def test_default_country_is_kenya(api: Api):
    assert stored_subject(api)["country"] == "KE"
    assert stored_subject(api, country="TZ")["country"] == "TZ"


def attested_at(moment: str) -> dict:
    return {**person(), "consent": {**ATTESTED, "obtainedAt": moment}}


def test_timestamp_with_offset_is_stored_in_utc(api: Api):
    for sent, kept in [
        ("2026-01-20T10:00:00Z", "2026-01-20T10:00:00.000000Z"),
        ("2026-01-20t10:00:00z", "2026-01-20T10:00:00.000000Z"),
        ("2026-01-20T10:00:00.5+03:00", "2026-01-20T07:00:00.500000Z"),
        ("2026-01-01T01:00:00+03:00", "2025-12-31T22:00:00.000000Z"),
        ("2026-01-20T10:00:00.123456789-00:00", "2026-01-20T10:00:00.123456Z"),
        ("0987-01-20T10:00:00Z", "0987-01-20T10:00:00.000000Z"),
    ]:
        report = api.create(attested_at(sent))

        consent = Report.objects.get(pk=report["id"]).consent
        assert consent.attestation["obtainedAt"] == kept


def test_invalid_timestamp_is_refused(api: Api):
    moments = [
        "2026-01-20T10:00:00",
        "2026-01-20",
        "2026-01-20 10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-01-20T25:00:00Z",
        "2026-01-20T10:00:00+25:00",
        "20260120T100000Z",
        "0001-01-01T00:00:00+14:00",
        "now",
    ]

    codes = fault_codes_of_each(api, map(attested_at, moments))

    assert codes == [{"consent/obtainedAt": "invalid-format"}] * len(moments)


def test_consent_time_in_the_future_is_refused(api: Api):
    later = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()

    assert fault_codes(api, attested_at(later)) == {
        "consent/obtainedAt": "out-of-range"
    }


def test_timestamps_are_utc_with_microseconds(api: Api):
    report = api.report(api.create(person())["id"])

    moment = datetime.fromisoformat(report["createdAt"])
    assert report["createdAt"].endswith("Z")
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)
    assert len(report["createdAt"]) == len("2026-11-21T08:15:30.123456Z")


def test_inputs_of_a_draft_are_validated(api: Api):
    draft = {**person(phone="0712345678"), "draft": True}

    assert fault_codes(api, draft) == {"subject/phone": "invalid-format"}
    assert fault_codes(api, with_value(draft, "subject/country", "ke")) == {
        "subject/phone": "invalid-format",
        "subject/country": "invalid-choice",
    }
