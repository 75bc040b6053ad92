import json
from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from monitoring.models import Rule
from tests.world.clients import Api, company, error_codes, person
from tests.world.orders import count_rows, with_value
from tests.world.rules import rule_request
from verification.privacy.personal_data import erase_reports
from verification.reports.idempotency import purge_idempotency_records
from verification.reports.models import IdempotencyRecord, Report
from workspaces.models import LedgerEntry

BODY = {"reports": [company()]}


def post_with_key(api: Api, key: str, body=BODY):
    return api.post("/reports", body, Idempotency_Key=key)


def test_repeat_gets_the_first_answer_and_creates_nothing(api: Api):
    body = {"reports": [company()] * 60}
    first = post_with_key(api, "k-1", body)
    # The reports change.
    api.work()
    before = count_rows()

    again = post_with_key(api, "k-1", body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert count_rows() == before
    assert Report.objects.count() == 60


def test_key_of_another_request_is_refused(api: Api):
    post_with_key(api, "k-1")

    problem = api.refused("/reports", {"reports": [person()]}, Idempotency_Key="k-1")

    assert (problem["status"], problem["code"]) == (422, "idempotency-key-reused")
    assert Report.objects.count() == 1


def test_any_difference_makes_another_request(api: Api):
    post_with_key(api, "k-1")

    for change in ({"draft": False}, {"draft": None}, {"bogus": 1}):
        assert post_with_key(api, "k-1", {**BODY, **change}).status_code == 422


def test_json_formatting_makes_no_other_request(api: Api):
    first = post_with_key(api, "k-1")
    backwards = json.loads(
        json.dumps(BODY), object_pairs_hook=lambda pairs: dict(reversed(pairs))
    )

    again = api._http.post(
        "/api/v1/reports",
        json.dumps(backwards, indent=3).replace("Supplier", "Supp\\u006cier"),
        content_type="application/json",
        headers={"Idempotency-Key": "k-1"},
    )

    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"


def test_key_is_read_without_its_quotes(api: Api):
    first = post_with_key(api, "k-1")

    assert post_with_key(api, '"k-1"').content == first.content
    assert post_with_key(api, '""k-1""').content != first.content


def test_invalid_key_is_refused(api: Api):
    for key in ("", '""', "x" * 121, '"' + "x" * 121 + '"', "kéy", "a\tb", "a\x7f"):
        problem = api.refused("/reports", BODY, Idempotency_Key=key)
        assert error_codes(problem) == {"Idempotency-Key": "invalid-format"}
    assert not Report.objects.exists()


def test_valid_key_is_accepted(api: Api):
    # The longest, and the longest in quotes, which are no part of it
    for first, again in [
        ("x" * 120, '"' + "x" * 120 + '"'),
        ('"', '"'),
        ("a b~!",) * 2,
    ]:
        assert post_with_key(api, first).status_code == 201
        assert post_with_key(api, again)["Idempotent-Replayed"] == "true"


def test_key_belongs_to_workspace_and_environment(
    api: Api, another_api: Api, live_api: Api
):
    live_api.account.__class__.objects.update(credit_limit=1000)
    answers = [post_with_key(one, "k-1") for one in (api, another_api, live_api)]

    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.content for answer in answers}) == 3
    assert not any("Idempotent-Replayed" in answer for answer in answers)


def test_repeat_by_another_api_key_gets_the_first_answer(api: Api):
    first = post_with_key(api, "k-1")

    other = Api(api.workspace, "sandbox")
    assert post_with_key(other, "k-1").content == first.content


def test_refused_request_stores_no_answer(api: Api, live_api: Api):
    wrong = {"reports": [with_value(company(), "purpose", "")]}

    assert post_with_key(api, "k-1", wrong).status_code == 400
    assert post_with_key(api, "k-1").status_code == 201
    assert post_with_key(live_api, "k-2").status_code == 402
    live_api.account.__class__.objects.update(credit_limit=1000)
    assert post_with_key(live_api, "k-2").status_code == 201


def test_answer_is_stored_for_72_hours(api: Api):
    first = post_with_key(api, "k-1")
    created = IdempotencyRecord.objects.all()

    created.update(created_at=now() - timedelta(hours=71, minutes=59))
    assert post_with_key(api, "k-1").content == first.content
    created.update(created_at=now() - timedelta(hours=72, minutes=1))
    assert (
        post_with_key(api, "k-1", {"reports": [company(fullName="Other")]}).status_code
        == 201
    )
    assert Report.objects.count() == 2
    assert IdempotencyRecord.objects.count() == 1


def test_purge_deletes_expired_answers(api: Api):
    post_with_key(api, "old")
    IdempotencyRecord.objects.update(created_at=now() - timedelta(hours=73))
    post_with_key(api, "new")

    with CaptureQueriesContext(connection) as queries:
        purge_idempotency_records()

    assert IdempotencyRecord.objects.count() == 1
    # A statement that deleted all of them could exceed its time, every hour.
    (deletion,) = [q["sql"] for q in queries if q["sql"].startswith("DELETE")]
    assert "LIMIT" in deletion


def test_repeat_without_a_key_creates_again(api: Api):
    api.create(company())
    api.create(company())

    assert Report.objects.count() == 2
    assert LedgerEntry.objects.count() == 2
    assert not IdempotencyRecord.objects.exists()


def test_key_and_answer_are_not_readable_in_the_table(api: Api):
    post_with_key(api, "id-12345678")

    answer = IdempotencyRecord.objects.values_list("key", "fingerprint", "body").get()
    assert not any(b"12345678" in bytes(value) for value in answer)


def test_body_without_a_canonical_form_is_refused(api: Api):
    wrong: object = 10**30
    for depth in range(701):
        if depth in {0, 300, 700}:
            body, key = {**BODY, "x": wrong}, f"k-{depth}"
            problem = api.refused("/reports", body, Idempotency_Key=key)
            assert error_codes(problem) == {"#/x": "unknown-member"}
            assert post_with_key(api, key).status_code == 201
            assert post_with_key(api, key, body).status_code == 422
        wrong = [wrong]


def test_answer_about_a_person_goes_with_the_erasure(api: Api):
    request = rule_request(reference="loan-7")
    made = api.post("/monitoring", request, Idempotency_Key="k-1").json()
    api.work()
    record = IdempotencyRecord.objects.get()
    assert record.body["subject"]["fullName"] == "Wanjiku Kamau"

    (report_id,) = Report.objects.values_list("pk", flat=True)
    erase_reports([report_id], now())

    record.refresh_from_db()
    assert record.body is None
    problem = api.refused("/monitoring", request, Idempotency_Key="k-1")
    assert (problem["status"], problem["code"]) == (410, "answer-erased")
    assert list(Rule.objects.values_list("pk", flat=True)) == [UUID(made["id"])]
