from tests.world.clients import Api, company, person
from tests.world.orders import create_report_with_status, two_checks
from verification.checks.models import CheckDefinition
from verification.reports.models import Report


def test_results_are_in_the_order_of_the_request(api: Api):
    checks = ["CRB_SCORE", "IDENTITY", "KRA_PIN"]
    created = api.create({**person(), "checksRequested": checks})
    api.work()

    report = api.report(created["id"])
    assert report["checksRequested"] == checks
    assert [result["checkName"] for result in report["checkResults"]] == checks


def test_details_match_the_check_definition(api: Api):
    report = api.create(person())
    api.work()

    for result in api.report(report["id"])["checkResults"]:
        definition = CheckDefinition.objects.get(name=result["checkName"])
        assert list(result["details"]) == definition.output_fields
        assert result["evidence"]["environment"] == "sandbox"
        assert result["evidence"]["reusedFromResultId"] is None


def test_report_has_its_worst_score(api: Api):
    item = {**person(idNumber="90000003", kraPin="A900000000Z")}
    created = api.create(item)
    api.work()

    report = api.report(created["id"])
    scores = [result["score"] for result in report["checkResults"]]
    assert report["riskScore"] == max(scores) > min(scores)
    assert report["riskLevel"] == "HIGH"


def test_report_without_a_score_has_unknown_risk(api: Api):
    for status in ("RUNNING", "FAILED"):
        report = api.report(create_report_with_status(api, status))
        assert (report["riskScore"], report["riskLevel"]) == (None, "UNKNOWN")


def test_failed_check_has_a_reason(api: Api):
    report = api.report(create_report_with_status(api, "PARTIAL ended"))

    failed, completed = report["checkResults"]
    assert failed["failure"] == {
        "code": "SOURCE_REFUSED",
        "message": "The source refused the request.",
        "retryable": False,
    }
    assert (failed["evidence"], failed["details"], failed["flags"]) == (None, None, [])
    assert completed["failure"] is None
    assert report["failure"] == {
        "code": "CHECKS_FAILED",
        "message": "1 of 2 checks could not be completed.",
    }


def test_unknown_report_is_not_found(api: Api):
    for path in ["not-a-uuid", "00000000-0000-7000-8000-000000000000", "1", "%00", "é"]:
        answer = api.get(f"/reports/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    for address in ("events", "consent/state"):
        answer = api.get(f"/reports/not-a-uuid/{address}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    for verb in ("launch", "draft", "cancel", "retry"):
        problem = api.refused(f"/reports/not-a-uuid/{verb}", {})
        assert (problem["status"], problem["code"]) == (404, "not-found")


def test_subject_is_encrypted_in_the_table(api: Api):
    report = api.create(two_checks(email="wanjiku@acacia.test"))

    sealed = Report.objects.values_list("subject", flat=True).get(pk=report["id"])
    assert b"wanjiku@acacia" not in bytes(sealed)
    assert b"12345678" not in bytes(sealed)


def test_same_subject_has_one_id_in_its_workspace(api, another_api, live_api):
    live_api.account.__class__.objects.update(credit_limit=5000)
    for client in (api, another_api, live_api):
        client.create(company(), company(registrationNumber="pvt 12345"))
        client.create(person(), person(idNumber="7"))

    def subjects(client: Api) -> list:
        own = Report.objects.filter(
            workspace=client.workspace, environment=client.environment
        )
        return list(own.order_by("id").values_list("subject_id", flat=True))

    first, second, third, fourth = subjects(api)
    assert first == second
    assert len({first, third, fourth}) == 3
    everyone = [{*subjects(client)} for client in (api, another_api, live_api)]
    assert len(set().union(*everyone)) == 9
