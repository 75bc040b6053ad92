from tests.world.clients import Api, person


def test_created_report_runs_and_becomes_ready(api: Api):
    answer = api.post("/reports", {"reports": [person()]})
    assert answer.status_code == 201
    assert answer.json()["count"] == 1
    (created,) = answer.json()["reports"]
    assert created["status"] == "RUNNING"

    api.work()

    answer = api.get(f"/reports/{created['id']}")
    assert answer.status_code == 200
    report = answer.json()
    # Other tests call the verbs.
    assert api.report(created["id"]) == report
    assert api.create(person()).keys() == created.keys()
    assert report["status"] == "READY"
    assert [r["status"] for r in report["checkResults"]] == ["COMPLETED"] * 3
    assert report["riskLevel"] == "LOW"
