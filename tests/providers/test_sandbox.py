from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
import time_machine

from tests.world.processor import processor_seconds
from verification.checks.catalogue import CATALOGUE, Entry
from verification.providers import sandbox
from verification.providers.base import (
    AnswerPending,
    Finding,
    Inquiry,
    Refused,
    Unavailable,
)
from verification.reports.models import RiskLevel

ASKED_AT = datetime(2026, 11, 21, 8, 15, tzinfo=UTC)
KINDS = [(entry, kind) for entry in CATALOGUE for kind in entry.subject_types]
EVERY_CHECK = pytest.mark.parametrize(
    ("entry", "kind"), KINDS, ids=[f"{entry.name}-{kind}" for entry, kind in KINDS]
)
# A search of lists finds no record of the subject, so these outcomes do not apply.
RECORDS = [(entry, kind) for entry, kind in KINDS if entry.name != "AML_SCREENING"]
EVERY_RECORD = pytest.mark.parametrize(
    ("entry", "kind"), RECORDS, ids=[f"{entry.name}-{kind}" for entry, kind in RECORDS]
)
ANSWERED = [0, 1, 2, 3, 7]
PERSON = {
    "subjectType": "INDIVIDUAL",
    "country": "KE",
    "fullName": "Wairimu Jane Njeri",
    "idNumber": "31415926",
    "dateOfBirth": "1991-04-30",
    "phone": "+254712345678",
    "employerName": "Acacia Tea Estates Ltd",
    "refereeName": "Peter Otieno",
    "refereeEmail": "peter@example.com",
}
COMPANY = {
    "subjectType": "COMPANY",
    "country": "KE",
    "fullName": "Ziwa Fisheries Limited",
    "registrationNumber": "PVT-9KLMQ2X",
    "kraPin": "P051234567Q",
}


def subject_of(kind: str, digit: int | None = None, **members: Any) -> dict[str, Any]:
    subject = dict(PERSON if kind == "INDIVIDUAL" else COMPANY)
    if digit is not None and kind == "INDIVIDUAL":
        subject["idNumber"] = f"9000000{digit}"
    elif digit is not None:
        subject["registrationNumber"] = f"SBX-000000{digit}"
        subject["kraPin"] = f"A90000000{digit}Z"
    return {**subject, **members}


def ask(
    check: str, subject: dict[str, Any], reference: str = "run-1", attempt: int = 1
) -> Finding:
    inquiry = Inquiry(check, subject, reference, UUID(int=1), attempt, ASKED_AT)
    return sandbox.Sandbox().ask(inquiry)


@pytest.mark.parametrize("digit", [*ANSWERED, None])
@EVERY_CHECK
def test_details_are_the_output_fields_and_flags_are_declared(
    entry: Entry, kind: str, digit: int | None
) -> None:
    finding = ask(entry.name, subject_of(kind, digit))

    assert list(finding.details) == entry.output_fields
    assert {flag.code for flag in finding.flags} <= set(entry.flag_codes)
    assert finding.score is not None
    assert 0 <= finding.score <= 100
    assert finding.provider == "sandbox"
    assert finding.provider_reference is not None
    assert finding.provider_reference.startswith("sbx-")
    canonical = json.dumps(
        finding.details, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert finding.response_digest == sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize("digit", ANSWERED)
@EVERY_CHECK
def test_summary_holds_no_personal_data(entry: Entry, kind: str, digit: int) -> None:
    subject = subject_of(kind, digit)

    finding = ask(entry.name, subject)

    said = " ".join([finding.summary, *(flag.message for flag in finding.flags)])
    assert not [value for value in subject.values() if value in said]


@EVERY_CHECK
def test_number_0_is_clear_and_about_the_subject(entry: Entry, kind: str) -> None:
    subject = subject_of(kind, 0)

    finding = ask(entry.name, subject)

    assert not finding.flags
    assert RiskLevel.of(finding.score) == "LOW"
    assert finding.details.get("nameMatch", "MATCH") == "MATCH"
    assert subject["fullName"] in finding.details.values()
    shown = {key: finding.details[key] for key in subject if key in finding.details}
    assert shown == {key: subject[key] for key in shown}


@EVERY_RECORD
def test_number_1_is_not_found(entry: Entry, kind: str) -> None:
    subject = subject_of(kind, 1)

    finding = ask(entry.name, subject)

    assert len(finding.flags) == 1
    assert finding.flags[0].code.endswith(("NOT_FOUND", "NO_CREDIT_RECORD"))
    assert RiskLevel.of(finding.score) in ("MEDIUM", "HIGH")
    known = {key for key, value in finding.details.items() if value is not None}
    assert known <= {*subject, "employed", "remarks"}


@EVERY_RECORD
def test_number_2_has_another_name(entry: Entry, kind: str) -> None:
    subject = subject_of(kind, 2)

    finding = ask(entry.name, subject)

    assert [flag.code for flag in finding.flags] == ["NAME_MISMATCH"]
    assert RiskLevel.of(finding.score) == "MEDIUM"
    assert finding.details["nameMatch"] == "NO_MATCH"
    assert subject["fullName"] not in finding.details.values()


def test_other_name_is_never_the_subjects_own() -> None:
    name = ask("IDENTITY", subject_of("INDIVIDUAL", 2)).details["fullName"]

    finding = ask("IDENTITY", subject_of("INDIVIDUAL", 2, fullName=name.upper()))

    assert finding.details["fullName"] != name


@EVERY_CHECK
def test_number_3_is_adverse(entry: Entry, kind: str) -> None:
    finding = ask(entry.name, subject_of(kind, 3))

    assert "HIGH" in {flag.severity for flag in finding.flags}
    assert RiskLevel.of(finding.score) == "HIGH"


def test_number_3_raises_the_main_flag_of_each_check() -> None:
    def adverse(check: str, kind: str = "INDIVIDUAL") -> str:
        return ask(check, subject_of(kind, 3)).flags[0].code

    assert adverse("IDENTITY") == "DECEASED"
    assert adverse("KRA_PIN") == "PIN_INACTIVE"
    assert adverse("EMPLOYER_VERIFICATION") == "WOULD_NOT_REHIRE"
    assert adverse("BUSINESS_VERIFICATION", "COMPANY") == "COMPANY_DISSOLVED"
    assert adverse("CRB_SCORE") == "LOW_CREDIT_SCORE"
    assert adverse("CRB_STANDARD") == "NON_PERFORMING_ACCOUNT"
    assert adverse("CRB_FULL") == "NON_PERFORMING_ACCOUNT"
    assert adverse("CREDITBUREAU_SCORE") == "LOW_CREDIT_SCORE"
    assert adverse("CREDITBUREAU_STATUS") == "ADVERSE_LISTING"
    assert adverse("CREDITBUREAU_COMP", "COMPANY") == "NON_PERFORMING_ACCOUNT"


@EVERY_CHECK
def test_number_4_is_down_twice_and_then_clear(entry: Entry, kind: str) -> None:
    for attempt in (1, 2):
        with pytest.raises(Unavailable) as down:
            ask(entry.name, subject_of(kind, 4), attempt=attempt)
        assert down.value.code == "SOURCE_UNAVAILABLE"

    assert not ask(entry.name, subject_of(kind, 4), attempt=3).flags


@EVERY_CHECK
def test_number_5_is_always_down(entry: Entry, kind: str) -> None:
    for attempt in (1, 3, 50):
        with pytest.raises(Unavailable) as down:
            ask(entry.name, subject_of(kind, 5), attempt=attempt)
        assert down.value.code == "SOURCE_UNAVAILABLE"


@EVERY_CHECK
def test_number_6_answers_after_20_seconds_without_sleeping(
    entry: Entry, kind: str
) -> None:
    with time_machine.travel(ASKED_AT + timedelta(seconds=19), tick=False):
        with pytest.raises(AnswerPending) as wait:
            ask(entry.name, subject_of(kind, 6))
        assert wait.value.ask_at == ASKED_AT + timedelta(seconds=20)

    with time_machine.travel(wait.value.ask_at, tick=False):
        assert not ask(entry.name, subject_of(kind, 6)).flags


@EVERY_CHECK
def test_number_7_differs_between_runs(entry: Entry, kind: str) -> None:
    runs = [
        ask(entry.name, subject_of(kind, 7), reference=f"run-{n}") for n in range(60)
    ]

    assert len({finding.response_digest for finding in runs}) == 60
    assert {RiskLevel.of(finding.score) for finding in runs} == {
        "LOW",
        "MEDIUM",
        "HIGH",
    }


@EVERY_CHECK
def test_number_7_is_stable_within_a_run(entry: Entry, kind: str) -> None:
    subject = subject_of(kind, 7)

    assert ask(entry.name, subject, attempt=1) == ask(entry.name, subject, attempt=2)


@EVERY_CHECK
def test_number_8_is_refused(entry: Entry, kind: str) -> None:
    with pytest.raises(Refused) as refusal:
        ask(entry.name, subject_of(kind, 8))

    assert refusal.value.code == "SOURCE_REFUSED"


@EVERY_CHECK
def test_number_9_has_no_fixture(entry: Entry, kind: str) -> None:
    with pytest.raises(Refused) as refusal:
        ask(entry.name, subject_of(kind, 9))

    assert refusal.value.code == "SANDBOX_FIXTURE_MISSING"


def test_check_without_fixtures_is_refused() -> None:
    with pytest.raises(Refused) as refusal:
        ask("AML", subject_of("INDIVIDUAL"))

    assert refusal.value.code == "SANDBOX_FIXTURE_MISSING"


@EVERY_CHECK
def test_other_numbers_are_clear_and_stable(entry: Entry, kind: str) -> None:
    first = ask(entry.name, subject_of(kind))
    again = ask(entry.name, subject_of(kind), reference="run-2")

    assert not first.flags
    assert first.details == again.details
    assert first.provider_reference != again.provider_reference


@EVERY_CHECK
def test_every_other_number_is_low_risk(entry: Entry, kind: str) -> None:
    for n in range(30):
        subject = subject_of(
            kind, idNumber=str(n), kraPin=f"A{n}", registrationNumber=f"PVT-{n}"
        )

        assert RiskLevel.of(ask(entry.name, subject).score) == "LOW"


def test_missing_details_derive_from_the_number() -> None:
    subjects = [
        {"subjectType": "INDIVIDUAL", "idNumber": str(number), "fullName": "Ada Obi"}
        for number in range(10_000_000, 10_000_200)
    ]

    dates = {ask("IDENTITY", s).details["dateOfBirth"] for s in subjects}
    pins = {ask("KRA_PIN", s).details["kraPin"] for s in subjects}

    assert len(dates) > 180
    assert len(pins) == 200


def test_missing_member_is_no_match() -> None:
    bare = {"subjectType": "INDIVIDUAL", "idNumber": "31415926", "fullName": "Ada Obi"}

    details = ask("IDENTITY", bare).details

    assert details["dateOfBirthMatch"] is None
    assert details["nameMatch"] == "MATCH"


def test_name_in_parts_is_put_together() -> None:
    subject = {
        "subjectType": "INDIVIDUAL",
        "idNumber": "31415926",
        "firstName": "Ada",
        "lastName": "Obi",
    }

    assert ask("IDENTITY", subject).details["fullName"] == "Ada Obi"


def test_credit_checks_of_a_person_agree() -> None:
    subject = subject_of("INDIVIDUAL")
    full = ask("CRB_FULL", subject).details
    standard = ask("CRB_STANDARD", subject).details

    assert {key: full[key] for key in standard} == standard
    assert ask("CRB_SCORE", subject).details["creditScore"] == full["creditScore"]


@pytest.mark.parametrize("digit", [0, 3])
@pytest.mark.parametrize("check", ["CRB_STANDARD", "CRB_FULL", "CREDITBUREAU_COMP"])
def test_totals_are_those_of_the_accounts(check: str, digit: int) -> None:
    kind = "COMPANY" if check == "CREDITBUREAU_COMP" else "INDIVIDUAL"
    details = ask(check, subject_of(kind, digit)).details
    accounts = details["accounts"]
    statuses = [account["status"] for account in accounts]

    assert details["totalBalance"] == sum(a["balance"] for a in accounts)
    assert details["totalOverdue"] == sum(a["overdue"] for a in accounts)
    assert details["worstDaysInArrears"] == max(a["daysInArrears"] for a in accounts)
    assert details["nonPerformingAccounts"] == statuses.count("NON_PERFORMING")
    assert details["openAccounts"] == len(statuses) - statuses.count("SETTLED")


def test_pin_decides_before_the_id_number() -> None:
    subject = subject_of("INDIVIDUAL", 8, kraPin="A900000003Z")

    assert ask("KRA_PIN", subject).flags[0].code == "PIN_INACTIVE"


def test_reference_without_an_id_number_is_clear() -> None:
    subject = subject_of("INDIVIDUAL")
    del subject["idNumber"]

    assert not ask("EMPLOYER_VERIFICATION", subject).flags


@pytest.mark.parametrize("number", ["A900000003Z", "a900000003z", " A90 0000 003Z "])
def test_numbers_are_compared_without_case_and_spacing(number: str) -> None:
    assert sandbox.reserved_members({"kraPin": number}) == ["kraPin"]
    subject = subject_of("COMPANY", kraPin=number)
    assert ask("KRA_PIN", subject).flags[0].code == "PIN_INACTIVE"


def test_table_lists_every_reserved_number_once() -> None:
    rows = sandbox.list_reserved_numbers()

    assert len(rows) == 10
    for digit, row in enumerate(rows):
        assert row["idNumber"] == f"9000000{digit}"
        assert row["kraPin"] == f"A90000000{digit}Z"
        assert row["registrationNumber"] == f"SBX-000000{digit}"
        assert row["outcome"]
        assert row["description"]
    assert len({row["outcome"] for row in rows}) == 10


def test_number_is_reserved_only_under_its_key() -> None:
    keys = ("idNumber", "kraPin", "registrationNumber")

    for row in sandbox.list_reserved_numbers():
        for key in keys:
            assert sandbox.reserved_members(dict.fromkeys(keys, row[key])) == [key]
    assert not sandbox.reserved_members({"idNumber": "90000010"})
    assert not sandbox.reserved_members({"idNumber": "9000000"})
    assert not sandbox.reserved_members({"phone": "90000000"})


def test_changing_an_answer_does_not_change_the_next_one() -> None:
    subject = subject_of("COMPANY")
    finding = ask("KRA_PIN", subject)
    before = [*finding.details["obligations"]]

    finding.details["obligations"].clear()
    finding.flags.clear()

    assert ask("KRA_PIN", subject).details["obligations"] == before


# An answer takes 7 to 26 microseconds.
@EVERY_CHECK
def test_answer_takes_microseconds(entry: Entry, kind: str) -> None:
    subject = subject_of(kind)

    def ask_often() -> None:
        for _ in range(100):
            ask(entry.name, subject)

    assert processor_seconds(ask_often) / 100 < 100e-6
