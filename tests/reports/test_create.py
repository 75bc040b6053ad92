from tests.world.clients import Api, person


def test_created_report_runs_and_becomes_ready(api: Api):
    created = api.create(person())

    api.work()

    report = api.report(created["id"])
    assert report["status"] == "READY"
    assert [r["status"] for r in report["checkResults"]] == ["COMPLETED"] * 3
    assert report["riskLevel"] == "LOW"
