"""The retention and other people at the same report: one of them wins, never both."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils.timezone import now

from tests.hosted.conftest import ask as ask
from tests.hosted.test_correction_form import send
from tests.privacy.test_retention import DAY, age
from tests.world.clients import Api
from tests.world.corrections import MISTYPED, create_wrong_report, dispute
from tests.world.staff import change_url, read_page
from tests.world.staff import superuser as superuser
from tests.world.subject import Visitor
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.jobs.models import Job
from verification.jobs.queue import schedule_job
from verification.jobs.worker import MAX_ATTEMPTS, claim, do_housekeeping, run_job
from verification.privacy.corrections import NoFinding
from verification.privacy.holds import HoldRefused, hold
from verification.privacy.journal import JournalUnavailable
from verification.privacy.models import Correction, RetentionRun
from verification.privacy.retention import (
    Cutoff,
    erase_before,
    erase_expired_reports,
)
from verification.reports.models import Report

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def expired(api: Api) -> Report:
    report_id = create_wrong_report(api)
    age(report_id, 366)
    return Report.objects.get(pk=report_id)


@pytest.fixture
def subject(ask: Any, api: Api) -> Visitor:
    """A subject at the page of a finding with another name."""
    visitor: Visitor = ask(subject={"idNumber": MISTYPED}, checksRequested=["IDENTITY"])
    visitor.agree()
    api.work()
    visitor.prove("data/")
    return visitor


def test_correction_that_is_being_opened_keeps_the_report(expired: Report):
    with uncommitted(lambda: dispute(str(expired.pk))):
        erase_expired_reports()
    erase_expired_reports()

    expired.refresh_from_db()
    assert expired.erased_at is None
    assert Correction.objects.get().is_open


@pytest.mark.parametrize("keep", ["correction", "hold"])
def test_report_that_is_kept_while_the_retention_reads_stays(
    expired: Report, keep: str
):
    class SlowCutoff(Cutoff):
        def expired(self, at: datetime) -> QuerySet[Report]:
            # It waits for the lock that this test holds.
            return (
                super()
                .expired(at)
                .extra(where=["pg_advisory_xact_lock_shared(1) IS NOT NULL"])
            )

    cutoff = SlowCutoff(expired.workspace, expired.environment, now() - 365 * DAY)

    def keep_it() -> None:
        if keep == "correction":
            dispute(str(expired.pk))
        else:
            hold(expired.pk, "A court asks", now() + DAY, by="staff grace")

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(1)")
        erasing = start_and_block(lambda: erase_before(cutoff))
        keep_it()
        cursor.execute("SELECT pg_advisory_unlock(1)")
    # It has locked the report, and then found why it is kept.
    erasing.result(SECONDS)

    expired.refresh_from_db()
    assert expired.erased_at is None


def test_correction_after_the_erasure_is_answered_by_it(subject: Visitor, api: Api):
    report = Report.objects.get()
    age(str(report.pk), 366)

    with uncommitted(erase_expired_reports):
        sent = start_and_block(lambda: send(subject))
    answer = sent.result(SECONDS)

    assert answer.status_code == 303
    page = subject.browser.get(answer["Location"], follow=True)
    assert "Your details were deleted" in page.content.decode()
    assert not Correction.objects.exists()


def test_hold_after_the_erasure_is_refused(expired: Report):
    def hold_it() -> None:
        hold(expired.pk, "A court asks", now() + DAY, by="staff grace")

    with uncommitted(erase_expired_reports):
        held = start_and_block(hold_it)

    with pytest.raises(HoldRefused, match="erased"):
        held.result(SECONDS)


def test_report_of_a_run_that_was_stopped_is_kept_by_nobody(
    expired: Report, documents: Path
):
    """The journal names it, so that a restored database would erase it."""
    (documents / "erasures").write_text("no folder")
    with pytest.raises(JournalUnavailable, match="directory"):
        erase_expired_reports()

    with pytest.raises(HoldRefused, match="too late"):
        hold(expired.pk, "A court asks", now() + DAY, by="staff grace")
    with pytest.raises(NoFinding):
        dispute(str(expired.pk))

    (documents / "erasures").unlink()
    erase_expired_reports()

    expired.refresh_from_db()
    assert expired.erased_at is not None
    assert RetentionRun.objects.get().report_ids is None


def test_page_of_a_given_up_retention_says_why_it_erased_nothing(
    expired: Report, documents: Path, superuser: Client
):
    (documents / "erasures").write_text("no folder")
    Job.objects.all().delete()
    schedule_job(erase_expired_reports)
    Job.objects.update(attempts=MAX_ATTEMPTS - 1)
    claimed = claim()
    assert claimed
    run_job(claimed)
    Job.objects.update(due_at=now())
    do_housekeeping()

    page = read_page(superuser, change_url(Job.objects.given_up().get()))

    assert "NotADirectoryError (Not a directory)" in page
    expired.refresh_from_db()
    assert expired.erased_at is None
