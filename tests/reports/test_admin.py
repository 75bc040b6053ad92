import pytest
from django.utils.timezone import now, timedelta

from tests.world.clients import Api, person
from tests.world.orders import create_report_with_status
from tests.world.staff import change_url, list_url, listed_ids, read_page, reveal
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.models import LedgerEntry


@pytest.fixture
def rows(api: Api) -> Api:
    """Create a report with results, and one that a third party pays."""
    api.create(person(idNumber="98765432"))
    payer = {"name": "Amina", "email": "amina@payer.test"}
    api.create({**person(), "paymentMode": "THIRD_PARTY", "payer": payer})
    api.work()
    return api


def test_report_page_shows_its_whole_history(
    rows, superuser, staff, django_assert_max_num_queries
):
    report = Report.objects.filter(payment_mode="SELF").earliest("id")

    with django_assert_max_num_queries(24):
        html = read_page(superuser, change_url(report))

    for result in report.results.all():
        assert change_url(result) in html
    for event in Event.objects.filter(report_id=report.pk):
        assert change_url(event) in html
    entries = LedgerEntry.objects.filter(report_id=report.pk)
    assert entries.count() == 3
    for entry in entries:
        assert change_url(entry) in html
    assert change_url(report.consent) in html
    assert report.status_changes.first().trigger in html
    payment = Payment.objects.get()
    assert change_url(payment) in read_page(staff, change_url(payment.report))


def test_reveal_shows_subject_and_finding(rows, superuser):
    report = Report.objects.earliest("id")
    result = report.results.get(name="IDENTITY")
    assert "98765432" not in read_page(superuser, change_url(report))
    assert "98765432" not in read_page(superuser, change_url(result))

    reveal(superuser, report)
    reveal(superuser, result)
    assert "98765432" in read_page(superuser, change_url(report))
    assert "98765432" in read_page(superuser, change_url(result))
    assert "98765432" not in read_page(superuser, list_url(Report))


def test_report_and_its_rows_are_found_by_id_and_reference(rows, superuser):
    wanted = Report.objects.earliest("id")
    Report.objects.filter(pk=wanted.pk).update(reference="ORDER-7")

    assert listed_ids(superuser, Report, q=str(wanted.pk)) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=wanted.pk.hex) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=" ORDER-7 ") == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q="ORDER") == set()
    assert len(listed_ids(superuser, Report)) == Report.objects.count() > 1
    assert len(listed_ids(superuser, CheckResult, q=str(wanted.pk))) >= 3
    assert len(listed_ids(superuser, Consent, q=str(wanted.pk))) >= 1
    assert len(listed_ids(superuser, Event, q=str(wanted.pk))) >= 5


def test_stuck_filter_finds_stuck_reports(api, superuser):
    stuck = api.create(person(idNumber="22222222"))
    api.create(person(idNumber="33333333"))
    hours_ago = now() - timedelta(hours=2)
    Report.objects.filter(pk=stuck["id"]).update(updated_at=hours_ago)

    assert listed_ids(superuser, Report, stuck="hour") == {stuck["id"]}
    waiting = listed_ids(superuser, CheckResult, trouble="waiting")
    results = CheckResult.objects.filter(report=stuck["id"])
    assert waiting - {stuck["id"]} == {str(result.pk) for result in results}


def test_stuck_reports_begin_with_the_longest_wait(api, superuser):
    reports = [create_report_with_status(api, "RUNNING") for _ in range(3)]
    for report, hours in zip(reports, (4, 2, 3), strict=True):
        changed = now() - timedelta(hours=hours)
        Report.objects.filter(pk=report).update(updated_at=changed)

    html = read_page(superuser, list_url(Report), stuck="hour")

    places = [html.index(f"{report}/change/") for report in reports]
    assert places[0] < places[2] < places[1]
