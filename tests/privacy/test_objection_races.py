"""An objection at once with an order or a withdrawal: both count, in either order."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from tests.world.clients import HOSTED, Api, error_codes, person
from tests.world.rules import create_rule, store_rule
from tests.world.subject import EVIDENCE
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from verification.privacy.withdrawals import withdraw
from verification.reports.models import Report

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def ended(api: Api) -> str:
    made = api.create(person())
    api.work()
    return made["id"]


def object_to(report_id: str) -> None:
    object_to_use(report_id, Origin.CLIENT, requested_by="key")


@pytest.mark.parametrize("others", [0, 2])
def test_objection_restricts_the_order_that_it_waited_for(
    api: Api, ended: str, others: int
):
    items = [person(), *(person(idNumber=f"2222222{n}") for n in range(others))]

    with uncommitted(lambda: api.create(*items)):
        objecting = start_and_block(lambda: object_to(ended))
    objecting.result(SECONDS)

    about = Report.objects.get(pk=ended).subject_id
    ordered = Report.objects.exclude(pk=ended).get(subject_id=about)
    assert ordered.status == "CANCELLED"
    assert ordered.restricted_at is not None


@pytest.mark.parametrize("others", [0, 2])
def test_order_that_waited_for_an_objection_is_refused(
    api: Api, ended: str, others: int
):
    items = [person(), *(person(idNumber=f"2222222{n}") for n in range(others))]

    with uncommitted(lambda: object_to(ended)):
        ordering = start_and_block(lambda: api.refused("/reports", {"reports": items}))
    problem: dict[str, Any] = ordering.result(SECONDS)

    assert error_codes(problem) == {
        "#/reports/0/consent/obtainedAt": "consent-required"
    }
    assert Report.objects.count() == 1


def test_objection_waits_for_a_withdrawal_of_the_person(api: Api):
    rule = store_rule(api)
    made = api.create({**person(), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)
    held = Consent.objects.select_for_update(no_key=True)

    with uncommitted(lambda: held.get(pk=consent.pk)):
        withdrawing = start_and_block(
            lambda: withdraw(consent.pk, consent.generation, EVIDENCE, "")
        )
        objecting = start_and_block(lambda: object_to(made["id"]))
    withdrawing.result(SECONDS)
    objecting.result(SECONDS)

    rule.refresh_from_db()
    report = Report.objects.get(pk=made["id"])
    assert rule.pause_reason == "OBJECTION"
    assert report.status == "CANCELLED"
    assert report.restricted_at is not None


def test_withdrawal_locks_earlier_runs_before_its_report(api: Api):
    create_rule(api)
    run = Report.objects.get()
    made = api.create({**person(), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)
    rows = Report.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=run.pk)):
        withdrawing = start_and_block(
            lambda: withdraw(consent.pk, consent.generation, EVIDENCE, "")
        )
        with transaction.atomic():
            rows.get(pk=made["id"])
    withdrawing.result(SECONDS)

    assert set(Report.objects.values_list("status", flat=True)) == {"CANCELLED"}


def test_objection_locks_results_by_their_ids(api: Api):
    made = api.create(person())
    first, *_, last = CheckResult.objects.order_by("pk").values_list("pk", flat=True)
    # A write moves the row to the end of the table.
    CheckResult.objects.filter(pk=first).update(tries=0)
    rows = CheckResult.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=first)):
        acting = start_and_block(lambda: object_to(made["id"]))
        with transaction.atomic():
            rows.get(pk=last)

    acting.result(SECONDS)
