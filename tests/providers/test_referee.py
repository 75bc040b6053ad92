import re
from datetime import date

import pytest

from tests.checks.test_checks_page import FLAGS as FLAGS_OF_THE_PAGE
from tests.world.employer import ANSWERS, EMPLOYMENT_INPUTS, NOT_EMPLOYED
from verification.checks.catalogue import CATALOGUE
from verification.providers.name_comparison import employers_alike, jobs_alike
from verification.providers.referee import FLAGS, TOLERANCE, compare_employment

ASKED_ON = date(2026, 11, 20)
(CHECK,) = [entry for entry in CATALOGUE if entry.name == "EMPLOYER_VERIFICATION"]


def finding_of(stated=None, **said):
    return compare_employment(
        {**EMPLOYMENT_INPUTS, **(stated or {})}, ANSWERS | said, ASKED_ON, "reference"
    )


def codes(finding):
    return [flag.code for flag in finding.flags]


@pytest.mark.parametrize(
    ("stated", "given", "likeness"),
    [
        ("Baraka Logistics Ltd", "BARAKA LOGISTICS LIMITED", "MATCH"),
        ("Baraka Logistics", "Baraka Logistics Co. Ltd.", "MATCH"),
        ("The Nation Media Group", "Nation Media Group PLC", "MATCH"),
        ("A.B.C. Traders", "ABC Traders", "MATCH"),
        ("Coca-Cola", "coca cola", "MATCH"),
        ("Smith & Sons", "Sons and Smith", "PARTIAL_MATCH"),
        ("Café Élan", "cafe elan", "MATCH"),
        ("Wanjiku\u2019s Kitchen", "Wanjikus Kitchen", "MATCH"),
        ("Safaricom", "Safarocom", "PARTIAL_MATCH"),
        ("Safari Com", "Safaricom", "MATCH"),
        ("Baraka Logistics", "Baraka Logistics East Africa", "PARTIAL_MATCH"),
        ("Equity Bank Kenya", "Equity Bank", "PARTIAL_MATCH"),
        ("Baraka Logistics", "Simba Haulage", "NO_MATCH"),
        ("Bank of Baroda", "Bank of India", "NO_MATCH"),
        ("Branch 1 Hotels", "Branch 2 Hotels", "NO_MATCH"),
        ("The Company Ltd", "The Company", "PARTIAL_MATCH"),
        ("...", "Baraka", "NO_MATCH"),
    ],
)
def test_employers_match_in_usual_spellings(stated, given, likeness):
    assert employers_alike(stated, given) == likeness
    assert employers_alike(given, stated) == likeness


@pytest.mark.parametrize(
    ("stated", "given", "likeness"),
    [
        ("Fleet Manager", "manager, fleet", "MATCH"),
        ("Snr. Accountant", "Senior accountant", "MATCH"),
        ("HR Mgr", "Human Resources Manager", "MATCH"),
        ("Admin. Asst.", "Administrative Assistant", "MATCH"),
        ("Admin", "Administrator", "MATCH"),
        ("Sales Exec & Rep", "Sales Executive and Representative", "MATCH"),
        ("MD", "Managing Director", "MATCH"),
        ("Deputy HOD", "Dep. Head of Department", "MATCH"),
        ("Drivers", "Driver", "MATCH"),
        ("Head of Sales", "Head, Sales", "MATCH"),
        ("Accountant", "Acountant", "MATCH"),
        ("Senior Accountant", "Accountant", "NO_MATCH"),
        ("Assistant Manager", "Manager", "NO_MATCH"),
        ("Nurse 1", "Nurse 2", "NO_MATCH"),
        ("Driver", "Diver", "NO_MATCH"),
        ("Accountant", "Auditor", "NO_MATCH"),
        ("会计", "会计", "MATCH"),
    ],
)
def test_jobs_match_only_in_other_spellings(stated, given, likeness):
    assert jobs_alike(stated, given) == likeness
    assert jobs_alike(given, stated) == likeness


def test_matching_answers_are_clear():
    finding = finding_of()
    assert (finding.score, codes(finding)) == (5, [])
    assert finding.summary == "The referee confirms the employment."
    assert len(finding.response_digest) == 64


@pytest.mark.parametrize("answers", [ANSWERS, NOT_EMPLOYED])
def test_details_are_the_output_fields_in_their_order(answers):
    finding = compare_employment(EMPLOYMENT_INPUTS, answers, ASKED_ON, "reference")
    assert list(finding.details) == CHECK.output_fields


@pytest.mark.parametrize(
    ("stated", "said", "match"),
    [
        ({}, {"employedFrom": "2019-04-01"}, "MATCH"),
        ({}, {"employedFrom": "2019-04-02"}, "NO_MATCH"),
        ({}, {"employedTo": "2023-05-30"}, "MATCH"),
        ({}, {"employedTo": "2023-05-29"}, "NO_MATCH"),
        ({}, {"employedTo": None}, "NO_MATCH"),
        ({}, {"employedTo": None, "stillEmployed": True}, "NO_MATCH"),
        ({}, {"employedTo": None, "stillEmployed": False}, "MATCH"),
        # A start without an end means that the employment goes on.
        ({"employmentEnd": None}, {"employedTo": None}, "MATCH"),
        ({"employmentEnd": None}, {"employedFrom": None}, "NO_MATCH"),
        ({"employmentEnd": None}, {"employedTo": "2020-01-01"}, "NO_MATCH"),
        ({"employmentEnd": None}, {"employedTo": "2026-10-19"}, "NO_MATCH"),
        ({"employmentEnd": None}, {"employedTo": "2026-10-20"}, "MATCH"),
        ({"employmentEnd": None}, {"employedTo": "2026-11-25"}, "MATCH"),
        (
            {"employmentEnd": None},
            {"employedFrom": None, "employedTo": None, "stillEmployed": False},
            None,
        ),
        # The last day is near, or to come.
        ({"employmentEnd": "2026-10-19"}, {"employedTo": None}, "NO_MATCH"),
        ({"employmentEnd": "2026-10-20"}, {"employedTo": None}, "MATCH"),
        ({"employmentEnd": "2027-06-30"}, {"employedTo": None}, "MATCH"),
        (dict.fromkeys(["employmentStart", "employmentEnd"]), {}, None),
    ],
)
def test_dates_may_differ_by_a_month(stated, said, match):
    finding = finding_of(stated, **said)
    assert TOLERANCE.days == 31
    assert finding.details["datesMatch"] == match
    assert codes(finding) == (["DATES_MISMATCH"] if match == "NO_MATCH" else [])


@pytest.mark.parametrize(
    ("stated", "given"), [({"jobTitle": None}, "Anything"), ({}, "")]
)
def test_members_that_one_leaves_out_stay_uncompared(stated, given):
    finding = finding_of(stated, jobTitle=given)
    assert finding.details["jobTitleMatch"] is None
    assert finding.flags == []


@pytest.mark.parametrize(
    ("said", "rehire", "flags"),
    [
        ("YES", True, []),
        ("NO", False, ["WOULD_NOT_REHIRE"]),
        ("UNKNOWN", None, []),
    ],
)
def test_only_no_raises_the_rehire_flag(said, rehire, flags):
    finding = finding_of(wouldRehire=said)
    assert finding.details["wouldRehire"] is rehire
    assert codes(finding) == flags


def test_partial_match_of_the_employer_has_no_flag():
    finding = finding_of(employer="Baraka Logistics East Africa")
    assert finding.details["employerMatch"] == "PARTIAL_MATCH"
    assert finding.flags == []


def test_summary_names_the_worst_flag():
    assert finding_of(jobTitle="Driver").summary.endswith("with differences.")
    assert re.search(
        r"differences.*not hire", finding_of(jobTitle="x", wouldRehire="NO").summary
    )
    unknown = compare_employment(EMPLOYMENT_INPUTS, NOT_EMPLOYED, ASKED_ON, "r")
    assert "no record" in unknown.summary


def test_flags_have_the_scores_of_the_page():
    for code, (score, severity, _) in FLAGS.items():
        assert FLAGS_OF_THE_PAGE[code] == (severity, score)
