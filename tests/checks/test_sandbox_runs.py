"""Every check with every reserved number, from the order to the end of its report."""

import pytest

from tests.checks.engine import ledger_totals, only_result
from tests.world.clients import ATTESTED, company, person
from tests.world.clock import let_time_pass
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckDefinition, CheckResult

EMPLOYMENT = {
    "employerName": "Baobab Traders",
    "refereeName": "Otieno Odhiambo",
    "refereeEmail": "otieno@baobab.test",
}
# Last digit -> (status, lowest score, highest score, flagged)
ENDS = {
    0: ("COMPLETED", 0, 60, False),
    1: ("COMPLETED", 40, 80, True),
    2: ("COMPLETED", 55, 55, True),
    3: ("COMPLETED", 60, 100, True),
    4: ("COMPLETED", 0, 60, False),
    5: ("FAILED", None, None, False),
    6: ("COMPLETED", 0, 60, False),
    7: ("COMPLETED", 0, 100, None),
    8: ("FAILED", None, None, False),
    9: ("FAILED", None, None, False),
}
# The screening of lists finds no hit, or a person in public office.
OF_LISTS = {
    1: ("COMPLETED", 5, 5, False),
    2: ("COMPLETED", 50, 50, True),
}
FAILURES = {
    5: {"code": "SOURCE_UNAVAILABLE", "retryable": True},
    8: {"code": "SOURCE_REFUSED", "retryable": False},
    9: {"code": "SANDBOX_FIXTURE_MISSING", "retryable": False},
}
# The number of runs before the check ends.
RUNS = {4: 3, 5: 5, 6: 2}


def order(check, digit):
    of_a_person = "INDIVIDUAL" in check.subject_types
    inputs = EMPLOYMENT if check.name == "EMPLOYER_VERIFICATION" else {}
    item = (
        person(idNumber=f"9000000{digit}", **inputs)
        if of_a_person
        else company(registrationNumber=f"SBX-000000{digit}")
    )
    return item | {"checksRequested": [check.name], "consent": ATTESTED}


def run(api):
    """Run the check to its end; return the number of its claims."""
    for _ in range(20):
        # A wait may be so short that one job claims the check twice.
        api.work()
        if only_result().next_attempt_at is None:
            return only_result().fence
        let_time_pass()
    raise AssertionError("a check that never ends")


@pytest.mark.parametrize("digit", ENDS)
@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.name)
def test_last_digit_decides_the_outcome_of_each_check(api, check, digit):
    CheckDefinition.objects.filter(name=check.name).update(active=True)
    ordered = api.create(order(check, digit))

    assert run(api) == RUNS.get(digit, 1)

    report = api.report(ordered["id"])
    (result,) = report["checkResults"]
    ends = ENDS | OF_LISTS if check.name == "AML_SCREENING" else ENDS
    status, lowest, highest, flagged = ends[digit]
    assert result["status"] == status
    assert report["status"] == {"COMPLETED": "READY", "FAILED": "FAILED"}[status]
    assert report["riskScore"] == result["score"]
    if status == "COMPLETED":
        assert lowest <= result["score"] <= highest
        assert set(result["details"]) == set(check.output_fields)
        assert {flag["code"] for flag in result["flags"]} <= set(check.flag_codes)
        assert flagged in {bool(result["flags"]), None}
        assert result["evidence"]["provider"] == "sandbox"
        assert ledger_totals() == {"CHARGE": -check.price}
    else:
        assert result["failure"].items() >= FAILURES[digit].items()
        assert ledger_totals() == {"CHARGE": -check.price, "REVERSAL": check.price}


def test_slow_source_is_polled_when_its_answer_is_due(api):
    api.create(person(idNumber="90000006") | {"checksRequested": ["IDENTITY"]})

    api.work()

    result = only_result()
    assert 19 < (result.next_attempt_at - result.started_at).total_seconds() < 21


def test_changing_result_differs_on_every_run(api):
    item = person(idNumber="90000007") | {"checksRequested": ["IDENTITY"]}
    api.create(item | {"reuse": False})
    api.work()
    api.create(item | {"reuse": False})
    api.work()

    first, second = CheckResult.objects.values_list("finding", flat=True)
    assert len(CheckResult.objects.all()) == 2
    assert first != second


def test_company_number_decides_the_tax_check(api):
    item = company(kraPin="A900000003Z") | {"consent": ATTESTED}
    ordered = api.create(item | {"checksRequested": ["KRA_PIN"]})

    api.work()

    (result,) = api.report(ordered["id"])["checkResults"]
    assert [flag["code"] for flag in result["flags"]] == ["PIN_INACTIVE"]


def test_evidence_names_the_fields_the_source_never_has(api):
    ordered = api.create(person() | {"checksRequested": ["CREDITBUREAU_STATUS"]})
    api.work()

    (result,) = api.report(ordered["id"])["checkResults"]
    never = ["totalOverdue", "clearanceCertificate"]
    assert result["evidence"]["fieldsNotTold"] == never
    assert [result["details"][name] for name in never] == [None, None]
