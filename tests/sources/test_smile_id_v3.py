"""Smile ID's V3 through the engine: one job, one callback, and what comes between."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils.timezone import now

from tests.checks.engine import definitions, ledger_totals, only_result, work_until_done
from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.fakes.smile_id import smile_id as smile_id
from tests.fakes.smile_id_v3 import FakeSmileIdV3
from tests.fakes.smile_id_v3 import smile_id_v3 as smile_id_v3
from tests.hosted.conftest import asking
from tests.providers.test_smile_id_v3 import asked as inquiry_of_another
from tests.sources.two import CHECK, calls
from tests.world.clients import erase, person
from tests.world.clock import let_time_pass
from tests.world.clock import longest_pauses as longest_pauses
from tests.world.threads import start_and_block
from verification.checks import callbacks
from verification.checks.callbacks import erase_unread_answers
from verification.checks.due_checks import claim
from verification.checks.engine import (
    SourceQueues,
    add_consent,
    admit_calls,
    call_provider,
    find_route,
)
from verification.checks.models import CheckResult
from verification.providers import registry
from verification.providers.base import AnswerPending
from verification.settings.providers import Limit
from verification.sources.models import Call, Source

PATH = "/callbacks/smile-id-v3"
JANE = {"fullName": "Jane Wanjiku Kamau", "email": "jane@example.com"}
V3, V1 = "smile_id_v3", "smile_id"
WAITS, ANSWERED = (V3, "NOT_YET"), (V3, "ANSWERED")


def route(fake: FakeSmileIdV3, v1: FakeSmileId | None = None, **options: Any) -> None:
    sources: dict[str, Any] = {
        V3: (
            "verification.providers.smile_id_v3.SmileIdV3",
            {**fake.options, "attested_language": "en", **options},
        )
    }
    if v1:
        known = {"partner_id": PARTNER, "api_key": KEY}
        where = {"url": v1.url, "opened": [v1.host]}
        path = "verification.providers.smile_id.SmileId"
        sources[V1] = (path, known | where)
    registry.configure(sources, {"IDENTITY": {"KE": list(sources)}})


@pytest.fixture
def v3(smile_id_v3: FakeSmileIdV3) -> Iterator[FakeSmileIdV3]:
    """Asked in production, alone."""
    route(smile_id_v3)
    yield smile_id_v3
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


@pytest.fixture
def ordered(paying_api, v3):
    """One check whose job was begun; its callback is in `v3.events`."""
    made = paying_api.create(person(**JANE) | CHECK)
    paying_api.work()
    assert calls() == [WAITS]
    return made


def post(client, fake, event=None, **changed):
    """Deliver a callback as it was made, or with these members changed."""
    body, headers = fake.signed({**(event or fake.events[0]), **changed})
    http = {f"HTTP_{k.upper().replace('-', '_')}": v for k, v in headers.items()}
    http.pop("HTTP_CONTENT_TYPE")
    return client.post(PATH, body, content_type="application/json", **http)


def is_due():
    return only_result().next_attempt_at <= now()


def kept():
    return Call.objects.filter(answer__isnull=False).count()


def assert_nothing_changed(answer, status=200):
    assert answer.status_code == status
    assert kept() == 0
    assert not Call.objects.exclude(called_back_at=None).exists()
    assert calls() == [WAITS]
    assert not is_due()


def asked_by_a_worker_that_dies():
    """Up to the answer of the source, which is in nobody's hands then."""
    (claimed,) = claim(1)
    wish = add_consent(claimed, find_route(claimed))
    called, go = next(admit_calls([wish], definitions(), SourceQueues()))
    return call_provider(
        go.provider, called, definitions()[called.definition_id].retry_policy
    )


def test_callback_is_the_answer_of_the_one_job(paying_api, v3, ordered, client):
    assert not is_due()

    answer = post(client, v3)
    assert (answer.status_code, answer.json()) == (200, {})
    assert kept() == 1
    paying_api.work()

    (result,) = paying_api.report(ordered["id"])["checkResults"]
    assert result["details"]["fullName"] == "JANE WANJIKU KAMAU"
    assert result["evidence"]["provider"] == V3
    assert "lifeStatus" in result["evidence"]["fieldsNotTold"]
    assert calls() == [WAITS, ANSWERED]
    assert len(v3.jobs) == 1
    assert not v3.asked("/v3/status/")
    assert Call.objects.first().job in v3.jobs


def test_answer_is_sealed_until_it_is_read_and_then_erased(
    paying_api, v3, ordered, client, log_lines, caplog
):
    caplog.set_level(logging.DEBUG)
    post(client, v3)

    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM sources_call")
        values = cursor.fetchone()
    sealed = [bytes(one) for one in values if isinstance(one, bytes | memoryview)]
    assert len(sealed) == 1
    assert b"JANE" not in sealed[0]
    paying_api.work()

    assert kept() == 0
    assert only_result().status == "COMPLETED"
    assert "JANE" not in json.dumps(log_lines()) + caplog.text


def test_callback_that_comes_again_changes_nothing(paying_api, v3, ordered, client):
    post(client, v3)

    again = post(client, v3, id_fields={"full_name": "SOMEBODY ELSE"})
    paying_api.work()
    late = post(client, v3, id_fields={"full_name": "SOMEBODY ELSE"})

    assert (again.status_code, late.status_code) == (200, 200)
    (result,) = paying_api.report(ordered["id"])["checkResults"]
    assert result["details"]["fullName"] == "JANE WANJIKU KAMAU"
    assert kept() == 0
    assert calls() == [WAITS, ANSWERED]


def test_callback_with_a_wrong_signature_changes_nothing(v3, ordered, client):
    body, headers = v3.signed(v3.events[0], "another key")
    http = {f"HTTP_{k.upper().replace('-', '_')}": v for k, v in headers.items()}
    http.pop("HTTP_CONTENT_TYPE")

    assert_nothing_changed(client.post(PATH, body, content_type="x/y", **http), 401)


def test_signed_callback_without_the_proof_changes_nothing(v3, ordered, client):
    params = {**v3.events[0]["partner_params"], "proof": "0" * 64}

    assert_nothing_changed(post(client, v3, partner_params=params), 401)


def test_callback_of_an_unknown_inquiry_changes_nothing(v3, ordered, client, log_lines):
    with pytest.raises(AnswerPending):
        v3.adapter().ask(inquiry_of_another())

    assert_nothing_changed(post(client, v3, v3.events[-1]))
    told = [line["message"] for line in log_lines()]
    assert f"callback of {V3} names no inquiry of ours" in told


def test_callback_of_another_job_changes_nothing(v3, ordered, client):
    assert_nothing_changed(post(client, v3, job_id="job_" + "9" * 26))


def test_callback_of_a_job_at_work_changes_nothing(v3, ordered, client):
    assert_nothing_changed(post(client, v3, status="processing"))


def test_too_large_callback_changes_nothing(v3, ordered, client):
    body = b" " * (2 * 1024 * 1024 + 1)

    assert_nothing_changed(client.post(PATH, body, content_type="x/y"), 413)


def test_inquiry_ends_and_stays_billed_after_the_cancel(
    paying_api, v3, ordered, client
):
    paying_api.post(f"/reports/{ordered['id']}/cancel")
    assert post(client, v3).status_code == 200

    paying_api.work()

    report = paying_api.report(ordered["id"])
    assert report["status"] == "CANCELLED"
    assert report["checkResults"][0]["status"] == "COMPLETED"
    assert ledger_totals() == {"CHARGE": -50}


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_callback_after_an_erasure_is_not_stored(
    paying_api, v3, ordered, client, is_cancelled
):
    if is_cancelled:
        paying_api.post(f"/reports/{ordered['id']}/cancel")
    erase(paying_api, ordered["id"])
    let_time_pass()
    paying_api.work()

    assert post(client, v3).status_code == 200
    assert kept() == 0
    assert only_result().status == "CANCELLED"


def test_v3_address_needs_its_settings(client, db):
    assert client.post(PATH, b"{}", content_type="application/json").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_callback_before_the_job_is_recorded_is_not_lost(paying_api, v3, client):
    answers, happened = [], v3.happened

    def call_back_at_once(event):
        happened(event)
        answers.append(post(client, v3, event).status_code)
        connection.close()

    v3.happened = call_back_at_once
    made = paying_api.create(person(**JANE) | CHECK)

    paying_api.work()

    assert answers == [200]
    assert calls() == [WAITS, ANSWERED]
    assert paying_api.report(made["id"])["status"] == "READY"
    assert len(v3.jobs) == 1


def test_callback_answers_the_job_of_a_dead_worker(paying_api, v3, client):
    made = paying_api.create(person(**JANE) | CHECK)
    asked_by_a_worker_that_dies()
    assert post(client, v3).status_code == 200
    let_time_pass()

    paying_api.work()

    assert paying_api.report(made["id"])["status"] == "READY"
    assert calls() == [(V3, "LOST"), ANSWERED]
    assert len(v3.jobs) == 1
    assert kept() == 0


def test_job_of_a_dead_worker_without_callback_is_in_doubt(paying_api, v3):
    paying_api.create(person(**JANE) | CHECK)
    asked_by_a_worker_that_dies()
    let_time_pass()

    work_until_done(paying_api)

    assert only_result().failure_code == "SOURCE_CALL_IN_DOUBT"
    assert calls() == [(V3, "IN_DOUBT")]
    assert len(v3.jobs) == 1
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_answer_is_read_again_when_its_reader_died(paying_api, v3, ordered, client):
    post(client, v3)
    asked_by_a_worker_that_dies()
    assert kept() == 1
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [WAITS, (V3, "LOST"), ANSWERED]
    assert len(v3.jobs) == 1
    assert kept() == 0


def test_answer_is_read_while_its_source_rests(paying_api, v3, ordered, client):
    resting = {"failures_in_row": 99, "resting_until": now() + timedelta(hours=1)}
    Source.objects.filter(name=V3).update(**resting)
    post(client, v3)

    paying_api.work()

    assert only_result().status == "COMPLETED"


@pytest.fixture(params=["alone", "before_v1"])
def begun_before_a_rest(request, paying_api, v3, smile_id):
    """A check whose job was begun, and is polled while V3 rests; v1 would answer."""
    route(v3, smile_id if request.param == "before_v1" else None)
    made = paying_api.create(person(**JANE) | CHECK)
    paying_api.work()
    resting = {"failures_in_row": 10, "resting_until": now() + timedelta(minutes=5)}
    Source.objects.filter(name=V3).update(**resting)
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())
    v3.requests.clear()
    paying_api.work()
    return made


def test_job_before_a_rest_waits_for_its_callback(
    paying_api, v3, smile_id, begun_before_a_rest, client
):
    assert calls() == [WAITS]
    assert not v3.requests
    assert not smile_id.requests
    result = only_result()
    assert (result.status, result.tries) == ("RUNNING", 0)
    assert 50 < (result.next_attempt_at - now()).total_seconds() < 62

    post(client, v3)
    assert is_due()
    paying_api.work()

    assert paying_api.report(begun_before_a_rest["id"])["status"] == "READY"
    assert calls() == [WAITS, ANSWERED]
    assert len(v3.jobs) == 1
    assert kept() == 0


def test_job_before_a_rest_is_polled_after_it(paying_api, v3, begun_before_a_rest):
    v3.outbox.clear()
    Source.objects.filter(name=V3).update(resting_until=now())
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())

    paying_api.work()

    assert calls() == [WAITS, WAITS]
    assert len(v3.outbox) == 1
    assert len(v3.jobs) == 1


def test_job_before_a_rest_waits_for_the_probe(paying_api, v3, begun_before_a_rest):
    probed = {"resting_until": now(), "probed_at": now()}
    Source.objects.filter(name=V3).update(**probed)
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())

    paying_api.work()

    assert calls() == [WAITS]
    assert only_result().tries == 0
    assert (only_result().next_attempt_at - now()).total_seconds() < 4


def test_job_before_a_long_rest_ends(paying_api, v3, begun_before_a_rest):
    # All that was begun is now an hour old, and V3 still rests.
    let_time_pass()

    paying_api.work()

    first, second = calls()[:2]
    assert (first, second) == (WAITS, (V3, "UNAVAILABLE"))
    assert Call.objects.filter(may_be_charged=True).count() == 1
    assert len(v3.jobs) == 1
    assert Source.objects.get(name=V3).failures_in_row == 11


def test_polls_in_a_long_rest_keep_the_limit_of_calls(paying_api, v3, settings):
    paying_api.create(*[person(**JANE, idNumber=f"2000000{n}") | CHECK for n in "12"])
    paying_api.work()
    settings.SOURCE_LIMITS = {V3: Limit(at_once=0)}
    resting = {"failures_in_row": 10, "resting_until": now() + timedelta(minutes=5)}
    Source.objects.filter(name=V3).update(**resting)
    let_time_pass()

    paying_api.work()

    assert calls() == [WAITS, WAITS]
    assert set(CheckResult.objects.values_list("tries", "waits_for")) == {(0, "")}


def test_lost_callback_is_polled_and_paid_once(paying_api, v3, ordered, client):
    v3.outbox.clear()
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())
    paying_api.work()
    assert calls() == [WAITS, WAITS]
    assert only_result().status == "RUNNING"
    (event,) = v3.outbox

    post(client, v3, event)
    paying_api.work()

    assert only_result().status == "COMPLETED"
    assert len(v3.jobs) == 1


@pytest.mark.parametrize(("limit", "jobs"), [({}, 2), ({"paid_again": 0}, 1)])
def test_job_without_a_callback_is_repeated_within_its_limit(
    paying_api, v3, settings, limit, jobs
):
    settings.SOURCE_LIMITS = {V3: Limit(**limit)}
    v3.is_at_work = True
    paying_api.create(person(**JANE) | CHECK)

    work_until_done(paying_api)

    result = only_result()
    assert (result.status, result.failure_code) == ("FAILED", "SOURCE_UNAVAILABLE")
    assert "may charge" in result.failure_message
    assert result.failure_retryable
    assert len(v3.jobs) == jobs
    assert Call.objects.filter(may_be_charged=True).count() == jobs
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_callback_that_comes_too_late_changes_nothing(paying_api, v3, settings, client):
    settings.SOURCE_LIMITS = {V3: Limit(paid_again=0)}
    v3.is_at_work = True
    paying_api.create(person(**JANE) | CHECK)
    work_until_done(paying_api)
    (job,) = v3.jobs
    v3.end(job)
    before = calls()

    assert post(client, v3).status_code == 200
    assert kept() == 0
    assert calls() == before
    assert only_result().status == "FAILED"


def test_unread_answer_is_erased_after_a_day(v3, ordered, client):
    post(client, v3)
    erase_unread_answers()
    assert kept() == 1

    Call.objects.update(called_back_at=now() - callbacks.ANSWER_RETENTION)
    erase_unread_answers()

    assert kept() == 0
    assert Call.objects.exclude(called_back_at=None).count() == 1


def test_unreadable_answer_is_no_finding_and_not_stored(
    paying_api, v3, ordered, client, longest_pauses
):
    post(client, v3, id_fields=None)

    paying_api.work()

    assert calls() == [WAITS, (V3, "UNAVAILABLE")]
    assert Call.objects.filter(may_be_charged=True).count() == 1
    assert kept() == 0


@pytest.mark.parametrize("changed", [{"email": None}, {"fullName": "Wanjiku"}])
def test_subject_with_too_few_details_goes_to_another_source(
    paying_api, v3, smile_id, changed
):
    route(v3, smile_id)
    paying_api.create(person(**{**JANE, "idNumber": "10000000", **changed}) | CHECK)

    paying_api.work()

    assert calls() == [(V1, "ANSWERED")]
    assert not v3.requests
    assert Source.objects.get(name=V1).failures_in_row == 0


def test_attested_consent_without_a_language_is_not_sent(paying_api, v3, smile_id):
    route(v3, smile_id, attested_language="")
    paying_api.create(person(**JANE) | CHECK)

    paying_api.work()

    assert [source for source, _ in calls()] == [V1]


def test_hosted_consent_is_sent_as_its_record_has_it(paying_api, v3, mailoutbox):
    route(v3, attested_language="")
    visitor = asking(paying_api)(subject=JANE, **CHECK)
    visitor.prove()
    visitor.grant()
    record = visitor.consent.report.consent_records.get()

    paying_api.work()

    ((_, sent),) = v3.jobs.items()
    assert sent["consent"]["granted_at"][:19] == record.created_at.isoformat()[:19]
    assert sent["consent"]["notice_language"] == "EN"
    assert {one["name"]: one["value"] for one in sent["metadata"]} == {
        "consent_method": "SERVICE_HOSTED",
        "consent_notice_version": record.notice_version,
        "consent_notice_sha256": bytes(record.notice_sha256).hex(),
    }
    assert "is also sent your name" in record.evidence["text"]


@pytest.mark.django_db(transaction=True)
def test_callback_during_the_next_claim_is_no_doubt(paying_api, v3, client):
    made = paying_api.create(person(**JANE) | CHECK)
    asked_by_a_worker_that_dies()
    let_time_pass()

    with transaction.atomic():
        # Taken, and not committed yet.
        assert post(client, v3).status_code == 200
        work = start_and_block(paying_api.work)
    work.result(timeout=30)

    assert paying_api.report(made["id"])["status"] == "READY"
    assert calls() == [(V3, "LOST"), ANSWERED]
    assert kept() == 0
