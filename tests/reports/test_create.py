from tests.world.clients import Api, person


def test_a_created_report_runs_and_is_read_back_ready(api: Api):
    made = api.create(person())

    api.work()

    report = api.report(made["id"])
    assert report["status"] == "READY"
    assert [r["status"] for r in report["checkResults"]] == ["COMPLETED"] * 3
    assert report["riskLevel"] == "LOW"
