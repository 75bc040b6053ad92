"""Every check with every reserved number, from the order to the end of its report."""

from itertools import product

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
# The screening of lists finds no hit.
OF_LISTS = {1: ("COMPLETED", 5, 5, False)}
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
    """Run all checks to their end."""
    for _ in range(20):
        # A wait may be so short that one job claims a check twice.
        api.work()
        if not CheckResult.objects.filter(next_attempt_at__isnull=False).exists():
            return
        let_time_pass()
    raise AssertionError("a check that never ends")


def test_last_digit_decides_the_outcome_of_each_check(api):
    CheckDefinition.objects.update(active=True)
    # Every number with one check, as `tests/providers` asks the source of each
    first, *others = CATALOGUE
    cases = [*product([first], ENDS), *product(others, [3])]
    cases += [(check, 1) for check in others if check.name == "AML_SCREENING"]
    ordered = api.create(*(order(*case) for case in cases))

    run(api)

    for (check, digit), made in zip(cases, ordered, strict=True):
        assert_end(check, digit, api.report(made["id"]))


def assert_end(check, digit, report):
    result = CheckResult.objects.get(report_id=report["id"])
    assert result.fence == RUNS.get(digit, 1), digit
    (shown,) = report["checkResults"]
    ends = ENDS | OF_LISTS if check.name == "AML_SCREENING" else ENDS
    status, lowest, highest, flagged = ends[digit]
    assert shown["status"] == status, digit
    assert report["status"] == {"COMPLETED": "READY", "FAILED": "FAILED"}[status]
    assert report["riskScore"] == shown["score"], digit
    charge = {"CHARGE": -check.price}
    if status == "COMPLETED":
        assert lowest <= shown["score"] <= highest, digit
        assert set(shown["details"]) == set(check.output_fields), digit
        assert {flag["code"] for flag in shown["flags"]} <= set(check.flag_codes)
        assert flagged in {bool(shown["flags"]), None}, digit
        assert shown["evidence"]["provider"] == "sandbox"
        assert ledger_totals(report_id=report["id"]) == charge, digit
    else:
        assert shown["failure"].items() >= FAILURES[digit].items()
        reversal = {"REVERSAL": check.price}
        assert ledger_totals(report_id=report["id"]) == charge | reversal, digit


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
