"""Smile ID's jobs that are only begun, and its callbacks."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils.timezone import now

from tests.checks.engine import only_result
from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.fakes.smile_id import smile_id as smile_id
from tests.sources.two import calls, orders
from tests.world.clock import let_time_pass
from tests.world.clock import longest_pauses as longest_pauses
from verification.checks.models import CheckResult
from verification.jobs.models import Job
from verification.providers import registry
from verification.sources.models import Call

PATH = "/callbacks/smile-id"
STATUS = "/v1/job_status"


@pytest.fixture
def asked(smile_id: FakeSmileId) -> Iterator[FakeSmileId]:
    """Smile ID with an address for its callbacks, asked in production."""
    options = {
        "partner_id": PARTNER,
        "api_key": KEY,
        "url": smile_id.url,
        "opened": [smile_id.host],
        "callback_url": f"https://reports.test{PATH}",
    }
    source = ("verification.providers.smile_id.SmileId", options)
    registry.configure({"smile_id": source}, {"IDENTITY": {"KE": ["smile_id"]}})
    yield smile_id
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


@pytest.fixture
def ordered(paying_api, asked):
    """One check whose job was begun; Smile ID is at work on it."""
    ordered = paying_api.create(*orders(1))
    paying_api.work()
    assert calls() == [("smile_id", "NOT_YET")]
    Job.objects.all().delete()
    return ordered


def post(client, event, **changed):
    body = json.dumps({**event, **changed})
    return client.post(PATH, body, content_type="application/json")


def is_due():
    return only_result().next_attempt_at <= now()


def test_callback_makes_the_check_read_the_job(paying_api, asked, ordered, client):
    assert not is_due()
    told = asked.asked("/v1/async_id_verification")[0]
    assert told["callback_url"] == f"https://reports.test{PATH}"

    answer = post(client, asked.events[0], FullName="SOMEBODY ELSE", ResultCode="1013")
    paying_api.work()

    assert (answer.status_code, answer.json()) == (200, {})
    (result,) = paying_api.report(ordered["id"])["checkResults"]
    assert result["details"]["fullName"] == "JANE WANJIKU KAMAU"
    assert len(asked.asked(STATUS)) == 1
    assert len(asked.jobs) == 1


def test_callback_counts_once(asked, ordered, client):
    first, second = (post(client, asked.events[0]) for _ in range(2))

    assert (first.status_code, second.status_code) == (200, 200)
    assert Job.objects.count() == 1
    assert Call.objects.exclude(called_back_at=None).count() == 1


def test_callback_with_a_wrong_signature_changes_nothing(asked, ordered, client):
    for changed in (
        {"signature": "bm8="},
        {"timestamp": "2026-01-02T03:04:05.679Z"},
        {"signature": None},
        {"signature": "\ud800"},
    ):
        answer = post(client, asked.events[0], **changed)

        assert answer.status_code == 401, changed
    assert not is_due()
    assert not Call.objects.exclude(called_back_at=None).exists()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"[" * 100_000])
def test_malformed_callback_is_refused(asked, client, db, body):
    assert client.post(PATH, body, content_type="x/y").status_code == 401


def test_too_large_callback_is_refused(asked, client, db):
    body = b" " * (2 * 1024 * 1024 + 1)

    assert client.post(PATH, body, content_type="x/y").status_code == 413


def test_callback_of_an_unknown_job_is_accepted_and_logged(
    asked, ordered, client, log_lines
):
    jobs = ("run-1", "\x00", None, {"a": 1}, "x" * 999)
    for job in jobs:
        answer = post(client, asked.events[0], PartnerParams={"job_id": job})

        assert answer.status_code == 200, job
    assert not is_due()
    told = [line["message"] for line in log_lines()]
    assert told.count("callback of smile_id names no inquiry of ours") == len(jobs)


@pytest.mark.django_db(transaction=True)
def test_callback_before_the_end_of_the_call_counts(paying_api, asked, client):
    answers = []
    happened = asked.happened

    def call_back_at_once(event):
        happened(event)
        answers.append(post(client, event).status_code)
        connection.close()

    asked.happened = call_back_at_once
    ordered = paying_api.create(*orders(1))

    paying_api.work()

    assert answers == [200]
    assert calls() == [("smile_id", "NOT_YET"), ("smile_id", "ANSWERED")]
    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert len(asked.jobs) == 1


def test_check_polls_after_a_minute_without_a_callback(paying_api, asked, ordered):
    let_time_pass()

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert len(asked.jobs) == 1


def test_callback_address_needs_a_contract(client, db):
    assert client.post(PATH, b"{}", content_type="application/json").status_code == 404


def test_late_job_gets_its_full_time(paying_api, asked):
    paying_api.create(*orders(1))
    # It waited for its turn at the source for most of that time.
    CheckResult.objects.update(started_at=now() - timedelta(hours=1))

    paying_api.work()

    assert calls() == [("smile_id", "NOT_YET")]


def test_job_that_takes_too_long_fails_the_check(
    paying_api, asked, ordered, longest_pauses
):
    asked.is_at_work = True
    Call.objects.update(begun_at=now() - timedelta(minutes=16))
    CheckResult.objects.update(next_attempt_at=now(), turn_at=now())

    paying_api.work()

    assert calls() == [("smile_id", "NOT_YET"), ("smile_id", "UNAVAILABLE")]
