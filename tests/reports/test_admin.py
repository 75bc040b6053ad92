from django.utils.timezone import now, timedelta

from tests.world.clients import person
from tests.world.staff import change, listed_ids, listing, opened, reveal
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.models import LedgerEntry


def test_report_page_shows_its_whole_history(
    rows, superuser, django_assert_max_num_queries
):
    report = Report.objects.filter(payment_mode="SELF").earliest("id")

    with django_assert_max_num_queries(24):
        html = opened(superuser, change(report))

    for result in report.results.all():
        assert change(result) in html
    for event in Event.objects.filter(report_id=report.pk):
        assert change(event) in html
    entries = LedgerEntry.objects.filter(report_id=report.pk)
    assert entries.count() == 3
    for entry in entries:
        assert change(entry) in html
    assert change(report.consent) in html
    assert report.status_changes.first().trigger in html


def test_paid_report_links_to_its_payment(rows, staff):
    payment = Payment.objects.get()

    assert change(payment) in opened(staff, change(payment.report))


def test_reveal_shows_subject_and_finding(rows, superuser):
    report = Report.objects.earliest("id")
    result = report.results.get(name="IDENTITY")
    assert "98765432" not in opened(superuser, change(report))
    assert "98765432" not in opened(superuser, change(result))

    reveal(superuser, report)
    reveal(superuser, result)
    assert "98765432" in opened(superuser, change(report))
    assert "98765432" in opened(superuser, change(result))
    assert "98765432" not in opened(superuser, listing(Report))


def test_report_is_found_by_id_and_reference(rows, superuser):
    wanted = Report.objects.earliest("id")
    Report.objects.filter(pk=wanted.pk).update(reference="ORDER-7")

    assert listed_ids(superuser, Report, q=str(wanted.pk)) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=wanted.pk.hex) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=" ORDER-7 ") == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q="ORDER") == set()
    assert len(listed_ids(superuser, Report)) == Report.objects.count() > 1


def test_rows_of_a_report_are_found_by_its_id(rows, superuser):
    report = Report.objects.earliest("id")

    assert len(listed_ids(superuser, CheckResult, q=str(report.pk))) >= 3
    assert len(listed_ids(superuser, Consent, q=str(report.pk))) >= 1
    assert len(listed_ids(superuser, Event, q=str(report.pk))) >= 5


def test_stuck_filter_finds_stuck_reports(rows, superuser):
    stuck = rows.create(person(idNumber="22222222"))
    rows.create(person(idNumber="33333333"))
    hours_ago = now() - timedelta(hours=2)
    Report.objects.filter(pk=stuck["id"]).update(updated_at=hours_ago)

    assert listed_ids(superuser, Report, stuck="hour") == {stuck["id"]}
    waiting = listed_ids(superuser, CheckResult, trouble="waiting")
    results = CheckResult.objects.filter(report=stuck["id"])
    assert waiting - {stuck["id"]} == {str(result.pk) for result in results}
