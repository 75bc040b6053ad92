from datetime import datetime
from itertools import pairwise

from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from tests.world.orders import create_report_with_status, two_checks
from verification.notifications.delivery import send_due_notifications
from verification.reports.models import Report, StatusChange
from verification.reports.status import record_note


def timeline(api: Api, report_id: str) -> list[dict]:
    answer = api.get(f"/reports/{report_id}/events")
    assert answer.status_code == 200
    return answer.json()["events"]


def test_timeline_names_the_api_key(api: Api):
    report = api.create(two_checks(), draft=True)
    other = Api(api.workspace, "sandbox")
    other.post(f"/reports/{report['id']}/launch")
    other.post(f"/reports/{report['id']}/cancel")

    moves = timeline(api, report["id"])

    actors = [f"key {api.key}", f"key {other.key}", f"key {other.key}"]
    assert [move["actor"] for move in moves] == actors
    assert [move["trigger"] for move in moves] == ["created", "launched", "cancelled"]
    assert api.text not in str(moves)


def test_timeline_names_no_member_of_the_staff(api: Api):
    made = api.create(two_checks())["id"]
    record_note(Report.objects.get(pk=made), "check run again", "staff grace", now())

    assert timeline(api, made)[-1]["actor"] == "staff"


def test_timeline_is_oldest_first(api: Api):
    report_id = create_report_with_status(api, "FAILED")
    api.post(f"/reports/{report_id}/retry")
    api.work()

    moves = timeline(api, report_id)

    moments = [datetime.fromisoformat(move["createdAt"]) for move in moves]
    assert len(moves) == 4
    assert moments == sorted(moments)
    for earlier, later in pairwise(moves):
        assert later["from"] == earlier["to"]


def test_calls_that_change_nothing_add_no_entry(api: Api):
    report = api.create({**two_checks(), "consent": HOSTED}, draft=True)
    for verb in ("launch", "retry"):
        api.refused(f"/reports/{report['id']}/{verb}")
    api.post(f"/reports/{report['id']}/draft", {"purpose": "Other"})
    api.report(report["id"])

    assert StatusChange.objects.count() == 1


def test_timeline_says_which_messages_were_not_sent(api: Api, another_api: Api):
    item = person(email="stranger@elsewhere.test", phone="+254712345678")
    report = api.create({**item, "consent": HOSTED, "paymentMode": "CANDIDATE"})
    other = api.create({**item, "consent": HOSTED})
    send_due_notifications()
    told = api.get(f"/reports/{report['id']}/events").json()["messages"]

    assert [(one["kind"], one["channel"]) for one in told] == [
        ("CONSENT_REQUEST", "EMAIL"),
        ("CONSENT_REQUEST", "SMS"),
    ]
    assert {(one["status"], one["reason"]) for one in told} == {("WITHHELD", "SANDBOX")}
    assert "confirmed addresses only" in told[0]["detail"]
    assert "stranger" not in str(told)
    theirs = api.get(f"/reports/{other['id']}/events").json()["messages"]
    assert {one["id"] for one in theirs}.isdisjoint(one["id"] for one in told)
    strange = another_api.get(f"/reports/{report['id']}/events")
    assert strange.status_code == 404


def test_timeline_names_messages_to_payers(api: Api):
    payer = {"name": "Amina", "email": "amina@payer.test"}
    report = api.create({**person(), "paymentMode": "THIRD_PARTY", "payer": payer})
    send_due_notifications()
    (told,) = api.get(f"/reports/{report['id']}/events").json()["messages"]

    assert (told["kind"], told["status"]) == ("PAYMENT_REQUEST", "SENT")
    assert told["reason"] is None
    assert told["sentAt"]
