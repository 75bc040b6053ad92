import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.timezone import now, timedelta

from tests.world.staff import change, log_in, opened, reveal, reveal_url
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.reports.models import Report
from verification.values.masking import mask
from webhooks.models import Event

NUMBER = "98765432"


@pytest.fixture
def report(rows) -> Report:
    return Report.objects.earliest("id")


def revealed() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action__endswith=".revealed"))


def test_a_reveal_is_recorded_with_its_reason_and_the_names_of_fields(
    report, superuser
):
    reveal(superuser, report, "Complaint 12")

    (event,) = revealed()
    assert (event.action, event.actor) == ("report.revealed", "admin")
    assert (event.reason, event.fields) == ("Complaint 12", ["subject"])
    assert event.object_id == str(report.pk)
    assert event.workspace_id == report.workspace_id
    assert NUMBER not in str(vars(event))


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_nothing_is_revealed_without_a_reason(report, superuser, reason):
    data = {"reason": reason, "_form_submitted": "on"}

    assert superuser.post(reveal_url(report), data).status_code == 200

    assert NUMBER not in opened(superuser, change(report))
    assert not revealed()


def test_opening_the_dialog_reveals_nothing(report, superuser):
    assert "reason" in opened(superuser, reveal_url(report))

    assert NUMBER not in opened(superuser, change(report))
    assert not revealed()


def test_a_form_from_elsewhere_reveals_nothing(report, admin_user):
    client = Client(enforce_csrf_checks=True)
    log_in(client, admin_user)
    data = {"reason": "Because", "_form_submitted": "on"}

    assert client.post(reveal_url(report), data).status_code == 403
    assert not revealed()


def test_reveal_lasts_ten_minutes_on_one_page_and_session(report, superuser, staff):
    other = CheckResult.objects.get(report=report, name="IDENTITY")
    reveal(superuser, report)

    with time_machine.travel(now() + timedelta(minutes=9)):
        assert NUMBER in opened(superuser, change(report))
    with time_machine.travel(now() + timedelta(minutes=11)):
        assert NUMBER not in opened(superuser, change(report))
    assert NUMBER not in opened(superuser, change(other))
    assert NUMBER not in opened(staff, change(report))


def test_reveal_ends_with_the_permission(report, staff):
    reveal(staff, report)
    assert NUMBER in opened(staff, change(report))

    User.objects.get(username="grace").user_permissions.remove(
        Permission.objects.get(codename="reveal_personal")
    )
    assert NUMBER not in opened(staff, change(report))


def test_reveal_needs_the_permission(report):
    user = User.objects.create_user("looks", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_report"))
    client = Client()
    log_in(client, user)
    data = {"reason": "Because", "_form_submitted": "on"}

    assert "Reveal" not in opened(client, change(report))
    assert client.post(reveal_url(report), data).status_code == 403
    assert not revealed()


def test_missing_and_impersonal_rows_are_not_revealed(report, superuser):
    gone = reveal_url(Report(pk=Event.objects.first().pk))
    data = {"reason": "Because", "_form_submitted": "on"}

    assert superuser.post(gone, data).status_code == 404
    assert superuser.post(reveal_url(Event.objects.first()), data).status_code == 403


def test_opening_a_report_is_recorded_and_listing_reports_is_not(report, superuser):
    done = AuditEvent.objects.filter(object_type="reports.report")
    superuser.get("/admin/reports/report/")
    assert not done.exists()

    opened(superuser, change(report))

    event = done.get()
    assert (event.action, event.object_id) == ("report.opened", str(report.pk))


def test_masked_values_keep_their_shape():
    assert mask(
        {
            "fullName": "Amina Wanjiku",
            "idNumber": "12345678",
            "phone": "+254712345678",
            "email": "amina@payer.test",
            "dateOfBirth": "1990-03-27",
            "employed": True,
            "kraPin": None,
            "flags": [{"code": "NAME_MISMATCH", "message": "Amina is not Amani"}],
        }
    ) == {
        "fullName": "A••••",
        "idNumber": "••••5678",
        "phone": "••••678",
        "email": "a••••@payer.test",
        "dateOfBirth": "••••",
        "employed": "••••",
        "kraPin": None,
        "flags": [{"code": "NAME_MISMATCH", "message": "••••"}],
    }
