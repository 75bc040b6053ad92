import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.timezone import now, timedelta

from tests.world.clients import HOSTED, Api, person
from tests.world.corrections import create_wrong_report, dispute
from tests.world.payments import candidate_item, end_checkout, payment_of
from tests.world.payments import open_page as opened_checkout
from tests.world.refunds import create_paid_checkout
from tests.world.staff import change_url, log_in, read_page, take_messages
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent
from verification.payments.models import Checkout, Payment
from verification.reports.models import Report

pytestmark = pytest.mark.django_db
SENT = {"_form_submitted": "on"}


def act(client: Client, verb: str, report: Report, **fields: str) -> str:
    url = change_url(report).replace("change", verb)
    return " ".join(take_messages(client.post(url, {**SENT, **fields})))


def create_waiting_report(api: Api) -> Report:
    return Report.objects.get(pk=api.create({**person(), "consent": HOSTED})["id"])


def create_failed_report(api: Api) -> Report:
    report = api.create(person(idNumber="90000008"))
    api.work()
    return Report.objects.get(pk=report["id"])


def audited(action: str) -> AuditEvent:
    return AuditEvent.objects.get(action=action)


def test_cancel_needs_a_reason(api, superuser):
    report = create_waiting_report(api)

    act(superuser, "cancel", report)
    report.refresh_from_db()
    assert report.status == "PENDING_CONSENT"
    assert "cancelled" in act(superuser, "cancel", report, reason="Wrong person")

    report.refresh_from_db()
    assert report.status == "CANCELLED"
    assert report.status_changes.last().actor == "staff admin"
    assert audited("report.cancelled").reason == "Wrong person"
    assert audited("report.cancelled").workspace_id == report.workspace_id


def test_second_press_says_that_nothing_was_done(api, superuser):
    report = create_waiting_report(api)
    act(superuser, "cancel", report, reason="Wrong person")

    again = act(superuser, "cancel", report, reason="Wrong person")

    assert NOT_OFFERED in again
    assert audited("report.cancelled")


def make_retryable(report: Report) -> Report:
    """Make the failed checks retryable."""
    report.results.filter(status="FAILED").update(failure_retryable=True)
    return report


def create_report_for(verb: str, api: Api) -> Report:
    """Create a report whose page offers this verb."""
    if verb == "retry":
        return make_retryable(create_failed_report(api))
    return create_waiting_report(api)


def why_no_retry(client: Client, report: Report) -> str:
    """Return the page's reason why it offers no retry, or "" if it offers one."""
    url, page = change_url(report), read_page(client, change_url(report))
    retry = url.replace("change", "retry")
    is_offered = retry in page
    assert (client.get(retry).status_code == 200) is is_offered
    reason = page.partition("No retry: ")[2].partition("<")[0]
    assert is_offered is not bool(reason)
    return reason


def test_retry_is_offered_when_it_can_work(api, superuser):
    report = create_failed_report(api)
    assert why_no_retry(superuser, report).startswith("Their sources refused")

    assert why_no_retry(superuser, make_retryable(report)) == ""
    CheckDefinition.objects.filter(name="IDENTITY").update(active=False)
    assert "is not offered at present" in why_no_retry(superuser, report)


def test_retry_is_not_offered_after_a_refund(api, superuser):
    refused = person(idNumber="90000008", email="amina@people.test")["subject"]
    checkout = create_paid_checkout(api, subject=refused)
    api.work()
    Checkout.objects.update(refunded=1)

    reason = why_no_retry(superuser, make_retryable(checkout.report))
    assert "was given back" in reason


def test_failed_checks_are_retried(api, superuser):
    report = make_retryable(create_failed_report(api))

    act(superuser, "retry", report)

    assert report.results.get(name="IDENTITY").attempt == 2
    assert audited("report.retried").object_id == str(report.pk)


def test_links_are_sent_again(api, superuser):
    asked, owing = create_waiting_report(api), api.create(candidate_item())
    payer = payment_of(owing).report
    past = now() - timedelta(minutes=2)
    Consent.objects.update(link_made_at=past)
    Payment.objects.update(link_made_at=past)

    act(superuser, "resend_consent", asked)
    act(superuser, "resend_payment", payer)

    assert Consent.objects.get(report=asked).generation == 2
    assert Payment.objects.get(report=payer).generation == 2
    assert audited("report.consent-link-sent")
    assert audited("report.payment-link-sent")


def test_refusal_is_shown_and_changes_nothing(api, superuser):
    report = create_waiting_report(api)

    assert "within the last minute" in act(superuser, "resend_consent", report)

    assert not AuditEvent.objects.exclude(action="report.opened").exists()


def test_opened_dialog_and_cross_site_form_change_nothing(api, superuser, admin_user):
    failed, waiting = (
        make_retryable(create_failed_report(api)),
        create_waiting_report(api),
    )
    client = Client(enforce_csrf_checks=True)
    log_in(client, admin_user)
    before = list(Report.objects.order_by("pk").values())

    for verb, report in [
        ("cancel", waiting),
        ("retry", failed),
        ("resend_consent", waiting),
    ]:
        url = change_url(report).replace("change", verb)
        assert superuser.get(url).status_code == 200, verb
        assert client.post(url, {**SENT, "reason": "x"}).status_code == 403, verb

    assert list(Report.objects.order_by("pk").values()) == before


def test_actions_need_the_change_permission(api):
    report = create_waiting_report(api)
    user = User.objects.create_user("looks", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_report"))
    client = Client()
    log_in(client, user)

    html = read_page(client, change_url(report))
    for verb in ("cancel", "retry", "resend_consent", "resend_payment", "pdf"):
        url = change_url(report).replace("change", verb)
        assert url not in html
        assert client.post(url, {**SENT, "reason": "x"}).status_code == 403


def test_pdf_needs_a_reason_and_each_download_is_recorded(api, superuser):
    report = create_failed_report(api)
    document = change_url(report).replace("change/", "document.pdf")
    assert superuser.get(document).status_code == 404

    url = change_url(report).replace("change", "pdf")
    answer = superuser.post(url, {**SENT, "reason": "Complaint"}, follow=True)

    assert answer.content.startswith(b"%PDF")
    assert audited("report.pdf-taken").reason == "Complaint"
    assert superuser.get(document).status_code == 200
    taken = AuditEvent.objects.filter(action="report.pdf-downloaded")
    assert taken.filter(object_id=report.pk).count() == 2


def test_staff_read_the_paid_amount_of_a_checkout(api, superuser):
    waits = opened_checkout(api.create(candidate_item()))
    checkout = opened_checkout(api.create(candidate_item()))
    end_checkout(checkout, pays=100)

    assert waits.money == "KES 250.00"
    assert str(checkout) == "PAID KES 100.00 (sandbox)"
    assert "paid, KES 100.00" in read_page(superuser, change_url(checkout.report))
    assert "KES 100.00" in read_page(superuser, "/admin/payments/checkout/")


def test_page_of_a_paid_report_costs_few_queries(
    api, superuser, django_assert_max_num_queries
):
    checkout = create_paid_checkout(api)
    api.work()

    with django_assert_max_num_queries(26):
        html = read_page(superuser, change_url(checkout.report))

    assert change_url(checkout) in html
    assert checkout.number in html
    assert "••••" in html


def test_report_page_says_flags_and_entries_in_words(api, superuser):
    made = api.create(person(idNumber="90000003"))
    api.work()

    page = read_page(superuser, change_url(Report.objects.get(pk=made["id"])))

    assert "The source records the holder as deceased</span>" in page
    assert 'title="DECEASED"' in page
    assert ">Charge</a>" in page


def test_report_page_warns_of_an_objection_and_a_correction(api, superuser):
    report = Report.objects.get(pk=create_wrong_report(api))
    clean = read_page(superuser, change_url(report))
    dispute(str(report.pk))
    Report.objects.update(restricted_at=now())

    html = read_page(superuser, change_url(report))

    for text in ("Do not use", "Under correction"):
        assert text not in clean
        assert text in html
