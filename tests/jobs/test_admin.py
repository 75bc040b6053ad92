"""Staff run jobs that were given up once more, or dismiss them with a reason."""

import pytest
from django.test import Client
from django.utils.timezone import now

from tests.web.test_metrics import TOKEN, samples
from tests.web.test_metrics import token as token
from tests.world.staff import press_button, run_action
from tests.world.staff import superuser as superuser
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.jobs.models import Job


@pytest.fixture
def given_up(db: None) -> Job:
    return Job.objects.create(function="nobody.knows", attempts=5, gave_up_at=now())


def count_given_up(client: Client) -> float:
    return samples(client.get("/metrics", **TOKEN).text)["verification_jobs_given_up",]


def test_dismissed_job_no_longer_counts_as_given_up(
    superuser: Client, given_up: Job, token: None
) -> None:
    assert count_given_up(superuser) == 1

    said = press_button(superuser, "dismiss", given_up, reason="Ticket 7: ran by hand")

    assert said == ["The job is dismissed."]
    assert count_given_up(superuser) == 0
    assert Job.objects.get().gave_up_at
    event = AuditEvent.objects.get(action="job.dismissed")
    assert (event.reason, event.object_id) == (
        "Ticket 7: ran by hand",
        str(given_up.pk),
    )


def test_job_is_not_dismissed_without_a_reason_or_twice(
    superuser: Client, given_up: Job
) -> None:
    press_button(superuser, "dismiss", given_up, reason="")
    assert Job.objects.get().dismissed_at is None

    for _ in range(2):
        press_button(superuser, "dismiss", given_up, reason="Done by hand")

    assert AuditEvent.objects.filter(action="job.dismissed").count() == 1


def test_waiting_job_cannot_be_dismissed(superuser: Client, db: None) -> None:
    waiting = Job.objects.create(function="nobody.knows")

    press_button(superuser, "dismiss", waiting, reason="Not wanted")

    assert Job.objects.get().dismissed_at is None


def test_dismissed_job_that_runs_again_counts_when_it_is_given_up_again(
    superuser: Client, given_up: Job
) -> None:
    press_button(superuser, "dismiss", given_up, reason="Done by hand")

    assert run_action(superuser, "run_again", given_up) == ["1 jobs will run again."]

    job = Job.objects.get()
    assert (job.attempts, job.gave_up_at, job.dismissed_at) == (0, None, None)
    assert run_action(superuser, "run_again", job) == [NOT_OFFERED]
