"""Recording an end while somebody else holds its report."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from tests.checks.engine import definitions, found
from tests.world.clients import HOSTED, person
from verification.checks.queue import claim
from verification.checks.results import record_outcomes
from verification.consents.decisions import Evidence, grant, withdraw
from verification.consents.models import Consent
from webhooks.models import Event

WAITING = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
)
"""

pytestmark = pytest.mark.django_db(transaction=True)


def recorded(claims):
    try:
        record_outcomes([(claimed, found(5)) for claimed in claims], definitions())
    finally:
        connection.close()


def until_one_waits(recording):
    with connection.cursor() as cursor:
        while not recording.done():
            cursor.execute(WAITING)
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)


def test_an_event_says_of_consent_what_was_so_when_the_report_was_held(api):
    one_check = person() | {"checksRequested": ["IDENTITY"], "consent": HOSTED}
    api.create(one_check, one_check)
    kept, withdrawn = Consent.objects.order_by("pk")
    for consent in (kept, withdrawn):
        grant(consent.pk, 1, Evidence(typed_name="Wanjiku Kamau"))
    claims = claim(2)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            withdraw(withdrawn.pk, 1, Evidence(), "")
            recording = pool.submit(recorded, claims)
            until_one_waits(recording)
        recording.result()

    ends = Event.objects.filter(name="check.completed")
    assert {e.report_id: e.payload["report"]["consentStatus"] for e in ends} == {
        kept.report_id: "GRANTED",
        withdrawn.report_id: "WITHDRAWN",
    }
