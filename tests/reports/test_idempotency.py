import json
from datetime import timedelta

import pytest
from django.utils.timezone import now

from tests.world.clients import Api, codes, company, person
from tests.world.orders import put, rows
from verification.reports.idempotency import purge_idempotency_records
from verification.reports.models import IdempotencyRecord, Report
from workspaces.models import LedgerEntry

BODY = {"reports": [company()]}


def sent(api: Api, key: str, body=BODY):
    return api.post("/reports", body, Idempotency_Key=key)


def test_a_repeated_request_gets_the_first_answer_and_creates_nothing(api: Api):
    first = sent(api, "k-1")
    before = rows()

    again = sent(api, "k-1")

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert rows() == before


def test_the_answer_stays_what_it_was_when_the_report_goes_on(api: Api):
    first = sent(api, "k-1")
    api.work()

    assert sent(api, "k-1").content == first.content


def test_a_request_of_many_is_repeated_as_a_whole(api: Api):
    body = {"reports": [company()] * 120}

    assert sent(api, "k-1", body).content == sent(api, "k-1", body).content
    assert Report.objects.count() == 120


def test_another_request_with_the_same_key_is_refused(api: Api):
    sent(api, "k-1")

    problem = api.refused("/reports", {"reports": [person()]}, Idempotency_Key="k-1")

    assert (problem["status"], problem["code"]) == (422, "idempotency-key-reused")
    assert Report.objects.count() == 1


@pytest.mark.parametrize("change", [{"draft": False}, {"draft": None}, {"bogus": 1}])
def test_the_smallest_difference_makes_another_request(api: Api, change: dict):
    sent(api, "k-1")

    assert sent(api, "k-1", {**BODY, **change}).status_code == 422


def test_how_the_json_is_written_makes_no_difference(api: Api):
    first = sent(api, "k-1")
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


def test_one_pair_of_quotes_around_the_key_is_not_part_of_it(api: Api):
    first = sent(api, "k-1")

    assert sent(api, '"k-1"').content == first.content
    assert sent(api, '""k-1""').content != first.content


@pytest.mark.parametrize(
    "key", ["", '""', "x" * 121, '"' + "x" * 121 + '"', "kéy", "a\tb", "a\x7f"]
)
def test_a_key_is_1_to_120_printable_characters(api: Api, key: str):
    problem = api.refused("/reports", BODY, Idempotency_Key=key)

    assert codes(problem) == {"Idempotency-Key": "invalid-format"}
    assert not Report.objects.exists()


@pytest.mark.parametrize("key", ["x", "x" * 120, '"' + "x" * 120 + '"', '"', "a b~!"])
def test_any_other_key_is_accepted(api: Api, key: str):
    assert sent(api, key).status_code == 201
    assert sent(api, key)["Idempotent-Replayed"] == "true"


def test_a_key_belongs_to_one_workspace_and_environment(
    api: Api, another_api: Api, live_api: Api
):
    live_api.account.__class__.objects.update(credit_limit=1000)
    answers = [sent(one, "k-1") for one in (api, another_api, live_api)]

    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.content for answer in answers}) == 3
    assert not any("Idempotent-Replayed" in answer for answer in answers)


def test_another_key_of_the_same_client_repeats_the_request_too(api: Api):
    first = sent(api, "k-1")

    other = Api(api.workspace, "sandbox")
    assert sent(other, "k-1").content == first.content


def test_a_refused_request_is_not_remembered(api: Api, live_api: Api):
    wrong = {"reports": [put(company(), "purpose", "")]}

    assert sent(api, "k-1", wrong).status_code == 400
    assert sent(api, "k-1").status_code == 201
    assert sent(live_api, "k-2").status_code == 402
    live_api.account.__class__.objects.update(credit_limit=1000)
    assert sent(live_api, "k-2").status_code == 201


def test_an_answer_is_remembered_for_72_hours(api: Api):
    first = sent(api, "k-1")
    made = IdempotencyRecord.objects.all()

    made.update(created_at=now() - timedelta(hours=71, minutes=59))
    assert sent(api, "k-1").content == first.content
    made.update(created_at=now() - timedelta(hours=72, minutes=1))
    assert sent(api, "k-1", {"reports": [company(fullName="Other")]}).status_code == 201
    assert Report.objects.count() == 2
    assert IdempotencyRecord.objects.count() == 1


def test_what_is_not_remembered_any_more_is_deleted(api: Api):
    sent(api, "old")
    IdempotencyRecord.objects.update(created_at=now() - timedelta(hours=73))
    sent(api, "new")

    assert purge_idempotency_records() == 1
    assert IdempotencyRecord.objects.count() == 1


def test_without_a_key_a_repeated_request_is_another_one(api: Api):
    api.create(company())
    api.create(company())

    assert Report.objects.count() == 2
    assert LedgerEntry.objects.count() == 2
    assert not IdempotencyRecord.objects.exists()


def test_neither_key_nor_answer_can_be_read_in_the_table(api: Api):
    sent(api, "id-12345678")

    answer = IdempotencyRecord.objects.values_list("key", "fingerprint", "body").get()
    assert not any(b"12345678" in bytes(value) for value in answer)


@pytest.mark.parametrize("depth", [0, 300, 700])
def test_a_body_without_a_canonical_form_is_refused_by_its_shape(api: Api, depth: int):
    wrong: object = 10**30
    for _ in range(depth):
        wrong = [wrong]

    problem = api.refused("/reports", {**BODY, "x": wrong}, Idempotency_Key="k-1")

    assert codes(problem) == {"#/x": "unknown-member"}
    assert sent(api, "k-1").status_code == 201
    assert sent(api, "k-1", {**BODY, "x": wrong}).status_code == 422
