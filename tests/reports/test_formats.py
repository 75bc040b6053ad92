from datetime import UTC, datetime, timedelta

from tests.world.clients import ATTESTED, Api, person
from tests.world.orders import fault_codes, faults_of_each
from verification.reports.models import Report


def stored_subjects(api: Api, member: str, *values: str) -> list[str]:
    made = api.create(person(), *[person(**{member: value}) for value in values])
    return [api.report(one["id"])["subject"][member] for one in made[1:]]


def test_phone_number_is_stored_as_e164(api: Api):
    sent = ("+254712345678", "+254 712 345-678", "+44 20 7946 0018")

    kept = ["+254712345678", "+254712345678", "+442079460018"]
    assert stored_subjects(api, "phone", *sent) == kept


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


def test_invalid_phone_email_date_or_country_is_refused(api: Api):
    sent = [(name, value) for name, values in INVALID.items() for value in values]
    code = {**dict.fromkeys(INVALID, "invalid-format"), "country": "invalid-choice"}

    faults = faults_of_each(api, *[person(**{name: value}) for name, value in sent])

    for (name, value), fault in zip(sent, faults, strict=True):
        assert fault == {f"subject/{name}": code[name]}, value


def test_email_address_is_stored_as_sent(api: Api):
    sent = "Wan.Jiku+x@acacia.test"

    assert stored_subjects(api, "email", sent) == [sent]


def test_birth_date_is_from_1900_to_today(api: Api):
    today = datetime.now(UTC).date()
    outside = ("1899-12-31", "0001-01-01", str(today + timedelta(days=2)))
    # With a leap day
    inside = ["1900-01-01", "2024-02-29", str(today)]

    faults = faults_of_each(api, *[person(dateOfBirth=day) for day in outside])

    assert faults == [{"subject/dateOfBirth": "out-of-range"}] * 3
    assert stored_subjects(api, "dateOfBirth", *inside) == inside


def test_default_country_is_kenya(api: Api):
    default, other = api.create(person(), person(country="TZ"))

    assert api.report(default["id"])["subject"]["country"] == "KE"
    assert api.report(other["id"])["subject"]["country"] == "TZ"


def attested_at(moment: str) -> dict:
    return {**person(), "consent": {**ATTESTED, "obtainedAt": moment}}


MOMENTS = {
    "2026-01-20T10:00:00Z": "2026-01-20T10:00:00.000000Z",
    "2026-01-20t10:00:00z": "2026-01-20T10:00:00.000000Z",
    "2026-01-20T10:00:00.5+03:00": "2026-01-20T07:00:00.500000Z",
    "2026-01-01T01:00:00+03:00": "2025-12-31T22:00:00.000000Z",
    "2026-01-20T10:00:00.123456789-00:00": "2026-01-20T10:00:00.123456Z",
    "0987-01-20T10:00:00Z": "0987-01-20T10:00:00.000000Z",
}


def test_timestamp_with_offset_is_stored_in_utc(api: Api):
    made = api.create(*[attested_at(sent) for sent in MOMENTS])

    reports = [Report.objects.get(pk=one["id"]) for one in made]
    kept = [report.consent.attestation["obtainedAt"] for report in reports]
    assert kept == list(MOMENTS.values())


INVALID_MOMENTS = [
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


def test_consent_at_an_invalid_time_or_in_the_future_is_refused(api: Api):
    later = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()

    *invalid, future = faults_of_each(
        api, *[attested_at(moment) for moment in (*INVALID_MOMENTS, later)]
    )

    for moment, fault in zip(INVALID_MOMENTS, invalid, strict=True):
        assert fault == {"consent/obtainedAt": "invalid-format"}, moment
    assert future == {"consent/obtainedAt": "out-of-range"}


def test_timestamps_are_utc_with_microseconds(api: Api):
    report = api.report(api.create(person())["id"])

    moment = datetime.fromisoformat(report["createdAt"])
    assert report["createdAt"].endswith("Z")
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)
    assert len(report["createdAt"]) == len("2026-11-21T08:15:30.123456Z")


def test_inputs_of_a_draft_are_validated(api: Api):
    draft = {**person(phone="0712345678", country="ke"), "draft": True}

    assert fault_codes(api, draft) == {
        "subject/phone": "invalid-format",
        "subject/country": "invalid-choice",
    }
