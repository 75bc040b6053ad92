"""The mailbox of a development service, and what erasing deletes from it."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from verification.notifications.delivery import send_due_notifications
from verification.notifications.outbox import RETENTION, purge_recipients
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mailbox(tmp_path: Path, settings: Any) -> Path:
    settings.EMAIL_BACKEND = "verification.notifications.mailbox.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    return tmp_path


def request_consents(api: Api, count: int) -> list[str]:
    """Send a consent request to so many people; return the ids of the reports."""
    made = [
        api.create(
            {
                **person(email=f"p{n}@kamau.test", idNumber=str(30_000_000 + n)),
                "consent": HOSTED,
            }
        )["id"]
        for n in range(count)
    ]
    send_due_notifications()
    return made


def test_mailbox_has_a_file_for_each_email(api: Api, mailbox: Path):
    request_consents(api, 3)

    found = [path.read_text() for path in mailbox.glob("*.log")]
    assert sorted(
        line for text in found for line in text.splitlines() if "To: " in line
    ) == [f"To: p{n}@kamau.test" for n in range(3)]


def test_erasing_a_report_deletes_its_emails_and_no_others(api: Api, mailbox: Path):
    erased, _ = request_consents(api, 2)
    api.post(f"/reports/{erased}/cancel")
    old = now() - timedelta(days=400)
    Report.objects.filter(pk=erased).update(completed_at=old)

    erase_expired_reports()

    (left,) = mailbox.glob("*.log")
    assert "To: p1@kamau.test" in left.read_text()


def test_purge_deletes_old_emails(api: Api, mailbox: Path):
    request_consents(api, 2)
    old, young = mailbox.glob("*.log")
    then = (now() - RETENTION - timedelta(days=1)).timestamp()
    os.utime(old, (then, then))

    purge_recipients()

    assert list(mailbox.glob("*.log")) == [young]
