"""The number on a paper leads to the reports that it is about."""

from __future__ import annotations

import pytest
from django.db import connection
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, erase, person
from tests.world.corrections import create_wrong_report, dispute
from tests.world.decisions import Officer
from tests.world.notices import create_report, decline
from tests.world.refunds import create_paid_checkout
from verification.consents.models import ConsentRecord
from verification.db.ids import filter_by_number
from verification.decisions.models import AdverseNotice
from verification.privacy.models import Erasure
from verification.references.models import Reference
from verification.reports.models import Report
from verification.reports.numbers import papers_of

pytestmark = pytest.mark.django_db


def found(api: Api, text: str) -> set[str]:
    answer = api.get("/reports", search=text)
    assert answer.status_code == 200, answer.content
    return {report["id"] for report in answer.json()["content"]}


def test_search_finds_a_report_by_the_number_on_each_paper(api: Api):
    hosted = api.create({**person(), "consent": HOSTED})["id"]
    record = ConsentRecord.objects.create(
        report_id=hosted,
        consent_id=hosted,
        decision="GRANTED",
        generation=1,
        digest=b"",
    )
    reference = Reference.objects.create(
        report_id=hosted,
        result_id=hosted,
        attempt=1,
        token_digest=b"",
        expires_at=now(),
    )
    checkout = create_paid_checkout(api)
    declined = create_report(api)
    decline(Officer(api), declined)
    correction = dispute(create_wrong_report(api))
    papers = {
        Report.objects.get(pk=hosted).number: hosted,
        record.number: hosted,
        reference.number: hosted,
        checkout.number: checkout.report_id,
        AdverseNotice.objects.get().number: declined,
        correction.request.number: correction.report_id,
    }

    assert sorted(number[0] for number in papers) == list("CDNPRR")
    for number, report_id in papers.items():
        assert found(api, number) == {str(report_id)}, number
    typed = f" {correction.request.number.replace('-', '').lower()} "
    assert found(api, typed) == {str(correction.report_id)}


def test_search_finds_all_reports_of_an_erasure(api: Api):
    made = {api.create(person())["id"] for _ in range(2)}
    api.create(person(idNumber="99"))
    api.work()

    erasure = erase(api, min(made))

    assert found(api, erasure.number) == made
    assert found(api, erasure.request.number) == made
    assert found(api, f" {min(made)}") == {min(made)}


def test_number_finds_nothing_of_another_client(
    api: Api, another_api: Api, live_api: Api
):
    number = Report.objects.get(pk=api.create(person())["id"]).number

    assert found(api, number)
    assert found(another_api, number) == set()
    assert found(live_api, number) == set()


def test_number_with_another_letter_finds_nothing(api: Api):
    number = Report.objects.get(pk=api.create(person())["id"]).number

    assert found(api, f"P{number[1:]}") == set()
    assert found(api, number[2:]) == set()


def test_papers_of_a_report_are_its_receipts(api: Api):
    checkout = create_paid_checkout(api)
    report = Report.objects.get(pk=api.create({**person(), "consent": HOSTED})["id"])
    record = ConsentRecord.objects.create(
        report=report,
        consent_id=report.consent.pk,
        decision="GRANTED",
        generation=1,
        digest=b"",
    )

    for paid_for, letter, row in (
        (checkout.report, "P", checkout),
        (report, "C", record),
    ):
        (paper,) = papers_of(paid_for)
        assert (paper.letter, paper.number) == (letter, row.number)


def test_papers_of_a_referee_are_there_once_they_have_answered(api: Api):
    made = api.create({**person(), "checksRequested": ["IDENTITY"]})["id"]
    Report.objects.update(checks_requested=["EMPLOYER_VERIFICATION"])
    report = Report.objects.get(pk=made)
    reference = Reference.objects.create(
        report=report, result_id=made, attempt=1, token_digest=b"", expires_at=now()
    )

    assert papers_of(report) == []
    Reference.objects.update(status="SUBMITTED", submitted_at=now())
    assert [paper.number for paper in papers_of(report)] == [reference.number]


@pytest.mark.parametrize(
    ("letter", "model", "index"),
    [
        ("E", Erasure, "erasures_by_number"),
        ("N", AdverseNotice, "notices_by_number"),
        ("R", Reference, "references_by_number"),
    ],
)
def test_search_by_number_uses_an_index(letter: str, model: type, index: str):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    rows = filter_by_number(model.objects.all(), letter, f"{letter}-0123-4567-89AB")

    assert index in rows.explain()
