from datetime import timedelta

from django.utils.timezone import now

from tests.world.clients import Api, person
from tests.world.orders import movements, two_checks
from tests.world.packages import create_package
from verification.checks.models import CheckDefinition, CheckResult
from webhooks.models import Event


def run_report(api: Api, item: dict) -> str:
    report: str = api.create(item)["id"]
    api.work()
    return report


def reused_flags(report_id: str) -> list[bool]:
    results = CheckResult.objects.filter(report=report_id).order_by("position")
    return [result.reused for result in results]


def age_results(days: float) -> None:
    completed = CheckResult.objects.filter(status="COMPLETED")
    completed.update(completed_at=now() - timedelta(days=days))


def test_fresh_result_is_reused_for_free(api: Api):
    first = api.report(run_report(api, two_checks()))
    report = api.create(two_checks())
    api.work()
    second = api.report(report["id"])

    assert report["paymentState"]["amount"]["amount"] == 0
    assert second["status"] == "READY"
    assert [result["reused"] for result in first["checkResults"]] == [False, False]
    assert [result["reused"] for result in second["checkResults"]] == [True, True]
    assert movements(api) == [("CHARGE", -50, 1)] * 2
    for earlier, later in zip(
        first["checkResults"], second["checkResults"], strict=True
    ):
        evidence = {**earlier["evidence"], "reusedFromResultId": earlier["id"]}
        assert later["evidence"] == evidence
        for member in ("summary", "score", "riskLevel", "flags", "details"):
            assert later[member] == earlier[member]
    assert second["riskScore"] == first["riskScore"]
    events = Event.objects.filter(report_id=second["id"], name="check.completed")
    assert [event.payload["check"]["reused"] for event in events] == [True, True]


def test_result_is_reused_for_the_same_inputs_only(api: Api):
    run_report(api, two_checks())
    others = [
        {"idNumber": "87654321"},
        {"fullName": "Otieno Odhiambo"},
        {"dateOfBirth": "1990-01-31"},
        {"country": "TZ"},
        {"kraPin": "A012345678Z"},
    ]
    no_inputs = [
        {"email": "w@acacia.test"},
        {"phone": None},
        {"fullName": "WANJIKU KAMAU"},
    ]

    made = api.create(*[two_checks(**one) for one in (*others, *no_inputs)])
    api.work()

    flags = [reused_flags(one["id"]) for one in made]
    # The PIN is no input of IDENTITY.
    assert flags[:5] == [[False, False]] * 4 + [[True, False]]
    assert flags[5:] == [[True, True]] * 3


def test_result_about_a_namesake_is_not_reused(api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    screening = {"checksRequested": ["AML_SCREENING"]}
    details = [
        {"phone": "+254712345678"},
        {"phone": "+254712345679"},
        {},
        {"email": "wanjiku@kamau.test"},
        {"dateOfBirth": "1990-01-31"},
    ]
    items = [person(idNumber=None, **one) | screening for one in details]

    first = api.create(*items)
    api.work()
    second = api.create(*items)
    api.work()

    assert [reused_flags(report["id"]) for report in first] == [[False]] * 5
    # Nothing tells the person with a name alone from a namesake.
    assert [reused_flags(report["id"]) for report in second] == [
        [True],
        [True],
        [False],
        [True],
        [True],
    ]


def test_result_of_another_workspace_is_not_reused(api: Api, another_api: Api):
    run_report(api, two_checks())

    assert reused_flags(run_report(another_api, two_checks())) == [False, False]


def test_result_of_the_other_environment_is_not_reused(api: Api, live_api: Api):
    run_report(api, two_checks())
    live_api.account.__class__.objects.update(credit_limit=100)

    report = live_api.create(two_checks())

    assert report["paymentState"]["amount"]["amount"] == 100


def test_reuse_false_gets_new_results(api: Api):
    run_report(api, two_checks())

    report = run_report(api, {**two_checks(), "reuse": False})

    assert reused_flags(report) == [False, False]
    assert len(movements(api)) == 4


BY_PACKAGE = {"package": "quick", "checksRequested": None}


def test_reserved_number_is_reused_only_on_request(api: Api):
    create_package("quick", checks=["IDENTITY", "KRA_PIN"])
    items = [
        two_checks(idNumber="90000003"),
        two_checks(kraPin="A900000003Z"),
        two_checks(idNumber="90000003") | BY_PACKAGE,
        two_checks(idNumber="90000003") | {"reuse": None},
    ]
    on_request = [{**item, "reuse": True} for item in items]

    def run() -> list[list[bool]]:
        made = api.create(*items)
        api.work()
        return [reused_flags(one["id"]) for one in made]

    assert run() == run() == [[False, False]] * 4
    quoted = api.post("/reports/quote", {"reports": on_request}).json()
    assert quoted["total"]["amount"] == 0
    items = on_request
    assert run() == [[True, True]] * 4


def test_draft_keeps_what_its_request_said_of_reuse(api: Api):
    item = two_checks(idNumber="90000003")
    run_report(api, item)
    cases = [
        ({}, {}, [False, False]),
        ({}, {"reuse": True}, [True, True]),
        ({"reuse": True}, {"purpose": "Another"}, [True, True]),
        ({"reuse": False}, {"purpose": "Another"}, [False, False]),
        ({}, {"purpose": "Another"}, [False, False]),
    ]
    drafts = api.create(*[{**item, **members} for members, _, _ in cases], draft=True)

    for draft, (_, edit, _) in zip(drafts, cases, strict=True):
        if edit:
            assert api.post(f"/reports/{draft['id']}/draft", edit).status_code == 200
        assert api.post(f"/reports/{draft['id']}/launch").status_code == 200
    api.work()

    flags = [reused_flags(draft["id"]) for draft in drafts]
    assert flags == [reused for _, _, reused in cases]


def test_newest_result_is_reused(api: Api):
    run_report(api, two_checks())
    second = run_report(api, {**two_checks(), "reuse": False})

    third = CheckResult.objects.filter(report=run_report(api, two_checks()))

    newest = CheckResult.objects.filter(report=second)
    assert {one.reused_from_id for one in third} == {one.pk for one in newest}


def test_result_is_fresh_for_the_days_of_its_check(api):
    run_report(api, two_checks())

    for days, expected in ((89.99, True), (90.01, False)):
        age_results(days)
        assert reused_flags(run_report(api, two_checks())) == [expected, expected]


def test_reused_result_does_not_extend_freshness(api: Api):
    run_report(api, two_checks())
    age_results(80)
    second = run_report(api, two_checks())
    age_results(95)
    CheckResult.objects.filter(report=second).update(completed_at=now())

    assert reused_flags(run_report(api, two_checks())) == [False, False]


def test_check_without_freshness_is_not_reused(api: Api):
    CheckDefinition.objects.update(freshness_days=0)
    run_report(api, two_checks())

    assert reused_flags(run_report(api, two_checks())) == [False, False]


def test_failed_and_cancelled_results_are_not_reused(api: Api):
    run_report(api, two_checks(idNumber="90000008"))
    assert reused_flags(run_report(api, two_checks(idNumber="90000008"))) == [
        False,
        False,
    ]

    report = api.create(two_checks())
    api.post(f"/reports/{report['id']}/cancel")
    assert reused_flags(run_report(api, two_checks())) == [False, False]


def test_unfinished_result_is_not_reused(api: Api):
    api.create(two_checks())

    assert api.create(two_checks())["paymentState"]["amount"]["amount"] == 100


def test_erased_result_runs_again_for_free(api: Api):
    run_report(api, two_checks())
    created = api.create(two_checks())
    CheckResult.objects.exclude(report=created["id"]).update(finding=None)
    api.work()

    report = api.report(created["id"])
    assert report["status"] == "READY"
    assert reused_flags(created["id"]) == [False, False]
    assert report["paymentState"]["amount"]["amount"] == 0
    assert len(movements(api)) == 2


def test_launch_reuses_results_fresh_at_launch(api: Api):
    report = api.create(two_checks(), draft=True)
    run_report(api, two_checks())

    assert api.report(report["id"])["paymentState"]["amount"]["amount"] == 0
    api.post(f"/reports/{report['id']}/launch")
    api.work()
    assert reused_flags(report["id"]) == [True, True]


def test_launch_does_not_reuse_results_that_expired(api: Api):
    run_report(api, two_checks())
    report = api.create(two_checks(), draft=True)
    age_results(91)

    api.post(f"/reports/{report['id']}/launch")
    api.work()

    assert reused_flags(report["id"]) == [False, False]
    assert len(movements(api)) == 4


def test_free_report_requests_no_payment(api: Api):
    run_report(api, two_checks())

    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"})

    assert report["status"] == "RUNNING"
    assert report["paymentState"]["status"] == "NOT_REQUIRED"
