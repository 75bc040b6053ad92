"""Staff see what a report waits for, and since when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from tests.world.payments import candidate_item, open_page
from tests.world.staff import change_url, create_call, listed_ids, read_page
from tests.world.staff import superuser as superuser
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.jobs.models import Job
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.admin import WaitFilter
from verification.reports.models import Report
from verification.reports.waits import Wait, find_waits
from verification.sources.models import Source
from verification.values.local_time import format_nairobi
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
IDENTITY = {"checksRequested": ["IDENTITY"]}


def create(api: Api, **item: Any) -> Report:
    made = api.create({**person(), **item}, draft=item.pop("draft", False))
    return Report.objects.get(pk=made["id"])


def running(api: Api, **result: Any) -> tuple[Report, CheckResult]:
    """Return a running report whose only check has these columns."""
    report = create(api, **IDENTITY)
    CheckResult.objects.filter(report=report).update(status="RUNNING", **result)
    return report, CheckResult.objects.get(report=report)


def test_ended_report_waits_for_nothing(api: Api):
    report = create(api)
    api.work()

    assert find_waits(Report.objects.get(pk=report.pk)) == []


def test_draft_waits_for_its_launch(api: Api):
    made = api.create(person(), draft=True)
    report = Report.objects.get(pk=made["id"])

    assert find_waits(report) == [
        Wait("the client, to launch the draft", report.created_at)
    ]


def test_report_waits_for_the_consent_since_its_link_was_sent(
    api: Api, superuser: Client
):
    report = create(api, consent=HOSTED)
    consent = report.consent

    (wait,) = find_waits(report)
    assert wait.what == "the subject's consent"
    assert (wait.since, wait.until) == (consent.link_made_at, consent.expires_at)
    page = read_page(superuser, change_url(report))
    assert "Waits for" in page
    assert "the subject&#x27;s consent, link sent" in page


def test_report_waits_for_the_payment_and_its_open_checkouts(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    report = Report.objects.get(pk=made["id"])

    told = [(wait.what, wait.since) for wait in find_waits(report)]
    assert told == [
        ("the payment", report.payment.link_made_at),
        (f"checkout {checkout.number}, open at sandbox", checkout.created_at),
    ]


def test_check_waits_for_its_turn(api: Api):
    report, result = running(api)

    (wait,) = find_waits(report)
    assert wait == Wait(
        "National identity: its turn in the queue", result.next_attempt_at
    )
    # Nothing will run it.
    Job.objects.all().delete()
    (wait,) = find_waits(report)
    assert (
        wait.what
        == "National identity: its turn in the queue, without a job that is due"
    )


def test_check_waits_for_a_source_that_rests(api: Api):
    report, result = running(api, next_attempt_at=now() + timedelta(minutes=4))
    create_call(report, end="UNAVAILABLE", ended_at=now(), why="TIMEOUT")
    since, until = now() - timedelta(hours=2), now() + timedelta(minutes=5)
    source = Source.objects.create(
        name=result.calls.get().source, resting_until=until, failing_since=since
    )

    assert find_waits(report) == [
        Wait(f"National identity: source {source.name}, which rests", since, until)
    ]
    Source.objects.update(resting_until=None)
    (wait,) = find_waits(report)
    told = f"National identity: the next attempt at source {source.name}, after TIMEOUT"
    assert wait == Wait(told, result.created_at, result.next_attempt_at)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"end": ""}, "National identity: source {}, which is called"),
        (
            {"end": "NOT_YET", "ended_at": now()},
            "National identity: the answer of source {}",
        ),
    ],
)
def test_check_waits_for_the_answer_of_a_source(api: Api, call: Any, told: str):
    report, _ = running(api, next_attempt_at=now() + timedelta(minutes=4))
    made = create_call(report, **call)
    made.refresh_from_db()

    (wait,) = find_waits(report)
    assert (wait.what, wait.since) == (told.format(made.source), made.begun_at)


def test_check_waits_for_the_room_of_a_source(api: Api):
    report, _ = running(api, waits_for="metropol")

    assert find_waits(report)[0].what == "National identity: room at source metropol"


def test_check_waits_for_its_referee(api: Api):
    report, result = running(api)
    reference = Reference.objects.create(
        report=report,
        result_id=result.pk,
        attempt=1,
        token_digest=b"",
        expires_at=now(),
    )

    (wait,) = find_waits(report)
    assert wait.what == f"National identity: the referee ({reference.number})"
    assert wait.since == reference.link_made_at


def test_check_that_nothing_runs_says_so(api: Api):
    report, _ = running(api, next_attempt_at=None)

    assert (
        find_waits(report)[0].what
        == "National identity: nothing: no attempt is planned"
    )


def test_suspended_workspace_comes_first(api: Api):
    report = create(api)
    at = now()
    Workspace.objects.update(suspended_at=at, suspension_reason="Fraud")

    (first, *others) = find_waits(Report.objects.get(pk=report.pk))
    assert first == Wait("the suspended workspace", at)
    assert others


def test_links_of_a_suspended_workspace_end_after_it(api: Api, superuser: Client):
    asked = create(api, consent=HOSTED)
    paying = Report.objects.get(pk=api.create(candidate_item())["id"])
    referring, result = running(api)
    Reference.objects.create(
        report=referring,
        result_id=result.pk,
        attempt=1,
        token_digest=b"",
        expires_at=now() + timedelta(days=14),
    )
    away = timedelta(days=15)
    Workspace.objects.update(suspended_at=now() - away, suspension_reason="Fraud")
    for model in (Consent, Payment, Reference):
        model.objects.filter(expires_at__isnull=False).update(
            link_made_at=F("link_made_at") - away, expires_at=F("expires_at") - away
        )

    for report in (asked, paying, referring):
        _, link = find_waits(Report.objects.get(pk=report.pk))
        assert link.until
        assert link.until > now(), link.what
    late = Consent.objects.get(report=asked).expires_at
    page = read_page(superuser, change_url(asked))
    assert "link until" in page
    assert format_nairobi(late, "j M Y") not in page


def test_list_filters_by_what_reports_wait_for(api: Api, superuser: Client):
    made = api.create(person(idNumber="99"))
    ended = Report.objects.get(pk=made["id"])
    api.work()
    consent = create(api, consent=HOSTED)
    payment = api.create(candidate_item())["id"]
    called, result = running(api)
    create_call(called)
    later = now() + timedelta(minutes=4)
    CheckResult.objects.filter(pk=result.pk).update(next_attempt_at=later)
    full, _ = running(api, waits_for="metropol")
    queued, _ = running(api)
    Reference.objects.create(
        report=ended,
        result_id=ended.pk,
        attempt=1,
        token_digest=b"",
        expires_at=now(),
    )
    expected = {
        "consent": {str(consent.pk)},
        "payment": {payment},
        "referee": {str(ended.pk)},
        "source": {str(called.pk), str(full.pk)},
        "queue": {str(queued.pk)},
    }

    for name, reports in expected.items():
        chosen = WaitFilter(None, {"waits": [name]}, Report, None)
        found = chosen.queryset(None, Report.objects.all())
        assert {str(report.pk) for report in found} == reports, name
    assert listed_ids(superuser, Report, waits="source") == expected["source"]
