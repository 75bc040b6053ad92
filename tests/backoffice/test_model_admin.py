import re
from itertools import cycle
from typing import Any

import pytest
import time_machine
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404
from django.test import Client
from django.urls import resolve, reverse
from django.utils.timezone import now, timedelta

from monitoring.models import Alert, Rule, Run
from tests.accounts.visitor import create_user
from tests.world.clients import Api, create_lender, person
from tests.world.staff import (
    admin_url,
    assert_read_only,
    change_url,
    create_rows,
    list_url,
    listed_ids,
    log_in,
    read_page,
    reveal,
    reveal_url,
    run_action,
    staff_request,
    take_messages,
)
from verification.accounts.models import Colleague
from verification.backoffice import audit
from verification.backoffice.approvals import is_second_person
from verification.backoffice.model_admin import (
    CONFIRMED_FIELD,
    BackofficeAdmin,
    CheapPaginator,
)
from verification.backoffice.models import ActorKind, AuditEvent
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.golive.models import Application
from verification.payments.models import Payment
from verification.reports.models import Report, StatusChange
from verification.values.masking import mask
from webhooks.models import Event
from workspaces.create import create_workspace
from workspaces.models import Account, ApiKey, LedgerEntry, Member, Workspace

pytestmark = pytest.mark.django_db
HISTORY = [
    Report,
    CheckResult,
    Event,
    LedgerEntry,
    Consent,
    Payment,
    Rule,
    Run,
    Alert,
    Application,
]
UNKNOWN_ID = "01900000-0000-7000-8000-000000000001"
PERSONAL = ["98765432", "owner@acacia.test", "amina@payer.test"]
# Lists whose search field finds everything
SEARCHED = [Member, Colleague, Workspace, Account, Report, Rule, ApiKey]
SEARCH_FORM = re.compile(
    r'<form[^>]*>(?:(?!</form>).)*aria-label="Search everything by name', re.DOTALL
)
# Lists whose rows name their report by its number
NUMBERED = [CheckResult, Consent, LedgerEntry, Event]


@pytest.fixture(scope="module")
def rows(module_transaction: None) -> Api:
    return create_rows(Api(create_lender(), "sandbox"))


def test_every_list_masks_personal_data_and_costs_constant_queries(
    rows, superuser, django_assert_max_num_queries
):
    for number in range(4):
        rows.create(person(idNumber=f"1000000{number:02}"))
        other = create_workspace(name=f"Other {number}", owner_email="o@other.test")
        Api(other, "sandbox")
    for model, shown in admin.site._registry.items():
        if not model.objects.exists():
            # Nothing to mask; the view makes its columns and filters all the same.
            shown.changelist_view(staff_request(superuser))
            continue
        # Session, user, count, rows; a few for the filters.
        with django_assert_max_num_queries(7, info=str(model)):
            html = read_page(superuser, list_url(model))
        assert [personal for personal in PERSONAL if personal in html] == [], model
        if model in HISTORY:
            assert str(model.objects.latest("pk").pk) in html, model
        if model in SEARCHED:
            form = SEARCH_FORM.search(html)
            assert form, model
            assert 'method="post" action="/admin/search"' in form[0].replace("\n", " ")
            assert 'id="searchbar"' not in html, model
        if model in NUMBERED:
            row = model.objects.exclude(report_id=None).latest("pk")
            assert Report.objects.get(pk=row.report_id).number in html, model


def test_every_page_opens_and_masks_personal_data(rows, superuser):
    for model in admin.site._registry:
        # The first report, payment, consent and so on have the personal data.
        for row in model.objects.order_by("pk")[:1]:
            html = read_page(superuser, change_url(row))
            assert [personal for personal in PERSONAL if personal in html] == [], model


def test_name_does_not_turn_the_text_of_pages(rows: Api, superuser: Client):
    made = rows.create(person(fullName="Wanjiku \u202eKamau\u2066 Njeri"))["id"]

    for url in (list_url(Report), change_url(Report.objects.get(pk=made))):
        assert "Wanjiku Kamau Njeri" in read_page(superuser, url)


# Neither UUIDs, nor numbers, nor names
BAD_IDS = ["%FF", "\0", "_FF", "x", "9" * 40, "'"]


def test_page_of_an_unknown_or_malformed_id_is_not_found(superuser):
    request = staff_request(superuser)
    for model_admin, bad in zip(
        admin.site._registry.values(), cycle(BAD_IDS), strict=False
    ):
        names = [
            pattern.name
            for pattern in model_admin.urls
            if pattern.name and "object_id" in pattern.pattern.converters
        ]
        # Django looks for the rows of these two as for that of the page.
        names = [name for name in names if not name.endswith(("_history", "_delete"))]
        for name in names:
            # An error of the server would end the test here.
            is_found = open_view(request, name, UNKNOWN_ID)
            if name.endswith("_change"):
                assert not is_found, name
                assert not open_view(request, name, bad), name
    assert superuser.get(admin_url(Report, "change", "x")).status_code == 404


def open_view(request: Any, name: str, object_id: str) -> bool:
    """Call the view of a page; return whether it finds the page."""
    view = resolve(reverse(f"admin:{name}", kwargs={"object_id": "ID"})).func
    try:
        view(request, object_id=object_id)
    except (Http404, PermissionDenied):
        return False
    return True


def test_all_history_is_read_only(superuser, rf, admin_user):
    request = rf.get("/admin/")
    request.user = admin_user
    for model in HISTORY:
        listed = admin.site.get_model_admin(model)
        assert not listed.has_add_permission(request), model
        assert not listed.has_change_permission(request), model


def test_lists_are_filtered_by_what_is_empty_in_words(rows, superuser):
    other = create_workspace(name="Baobab", owner_email="owner@baobab.test")
    other.suspend("Unpaid invoices")
    page = read_page(superuser, list_url(Workspace))
    # A tick would say that all is well.
    assert "check_small" not in page
    choice = r'href="\?(suspended_at__isempty)=(\d)"[^>]*>\s*([^<]*?)\s*<'

    shown = {
        words: str(other.pk) in listed_ids(superuser, Workspace, **{name: value})
        for name, value, words in re.findall(choice, page)
    }
    assert shown == {"running": False, "suspended": True}


def test_nothing_is_deleted_and_history_not_edited(rows, superuser):
    report = Report.objects.first()
    assert_read_only(superuser, report)
    html = read_page(superuser, change_url(report))
    assert 'name="_save"' not in html
    assert admin_url(Report, "delete", report.pk) not in html
    row = Workspace.objects.first()

    assert superuser.post(admin_url(Workspace, "delete", row.pk)).status_code == 403
    run_action(superuser, "delete_selected", row, post="yes")

    assert Workspace.objects.filter(pk=row.pk).exists()


def test_no_list_counts_a_whole_table(rows, monkeypatch):
    monkeypatch.setattr(CheapPaginator, "MAX_COUNT", 2)
    everything = StatusChange.objects.order_by("id")

    assert CheapPaginator(everything, 1).count == 2
    assert Paginator(everything, 1).count > 2


# Actions with their own confirmation page.
ASK_THEMSELVES = {
    "resume",
    "run_now",
    "withdraw",
    "clear_flags",
    "refund",
    "record_elsewhere",
    "approve",
    "reject",
}


def test_every_action_asks_before_it_changes_anything():
    for listed in admin.site._registry.values():
        assert isinstance(listed, BackofficeAdmin)
        for name in listed.actions or ():
            asks = {*listed.confirm, *ASK_THEMSELVES}
            assert name in asks, (listed, name)


def test_action_waits_for_the_confirmation(rows, superuser):
    url = f"{list_url(ApiKey)}?environment__exact=sandbox"
    data = {"action": "revoke", "_selected_action": [rows.key.pk]}

    page = superuser.post(url, data).content.decode()

    assert ApiKey.objects.get(pk=rows.key.pk).revoked_at is None
    assert "This cannot be undone" in page
    assert f"<li>{rows.key}</li>" in page
    assert f'<a class="cancel" href="{url}">Cancel</a>' in page
    answer = superuser.post(list_url(ApiKey), sent_by(page))
    assert "is revoked" in " ".join(take_messages(answer))
    assert ApiKey.objects.get(pk=rows.key.pk).revoked_at


def test_confirmation_page_counts_all_rows_when_all_are_chosen(rows, superuser):
    Api(rows.workspace, "production")
    data = {"action": "revoke", "_selected_action": [rows.key.pk], "select_across": "1"}

    page = superuser.post(list_url(ApiKey), data).content.decode()

    assert f"{ApiKey.objects.count()} chosen:" in page


def test_action_without_rows_shows_djangos_message(superuser):
    answer = superuser.post(list_url(ApiKey), {"action": "revoke", "index": "0"})

    assert "Items must be selected" in " ".join(take_messages(answer))


def sent_by(page: str) -> dict[str, str]:
    """Return the fields that the form of the page sends."""
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {**dict(found), CONFIRMED_FIELD: "Yes, go on"}


def test_requester_and_service_are_no_second_person():
    ada, grace = create_user("ada", is_staff=True), create_user("grace", is_staff=True)

    assert is_second_person(grace.pk, [ada.pk])
    assert not is_second_person(ada.pk, [ada.pk])
    assert not is_second_person(None, [ada.pk])


def test_other_account_of_a_requester_is_no_second_person():
    ada, by_day = (
        create_user("ada", is_staff=True),
        create_user("by-day", is_staff=True),
    )
    by_day.email = ada.email.upper()
    by_day.save()

    assert not is_second_person(by_day.pk, [ada.pk])


def test_accounts_without_an_address_are_different_people():
    ada, grace = create_user("ada", is_staff=True), create_user("grace", is_staff=True)
    type(ada).objects.update(email="")

    assert is_second_person(grace.pk, [ada.pk])


NUMBER = "98765432"


@pytest.fixture
def report(rows) -> Report:
    return Report.objects.earliest("id")


def revealed() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action__endswith=".revealed"))


def test_nothing_is_revealed_without_a_reason(report, superuser):
    for reason in ("", "  ", "x" * 501):
        data = {"reason": reason, "_form_submitted": "on"}
        assert superuser.post(reveal_url(report), data).status_code == 200

    assert NUMBER not in read_page(superuser, change_url(report))
    assert not revealed()


def test_cross_site_form_reveals_nothing(report, admin_user):
    client = Client(enforce_csrf_checks=True)
    log_in(client, admin_user)
    data = {"reason": "Because", "_form_submitted": "on"}

    assert client.post(reveal_url(report), data).status_code == 403
    assert not revealed()


def test_reveal_is_audited_and_lasts_ten_minutes_on_one_page_and_session(
    report, superuser, staff
):
    other = CheckResult.objects.get(report=report, name="IDENTITY")
    reveal(superuser, report, "Complaint 12")

    (event,) = revealed()
    assert (event.action, event.actor) == ("report.revealed", "admin")
    assert (event.reason, event.fields) == ("Complaint 12", ["subject"])
    assert event.object_id == str(report.pk)
    assert event.workspace_id == report.workspace_id
    assert NUMBER not in str(vars(event))

    with time_machine.travel(now() + timedelta(minutes=9)):
        assert NUMBER in read_page(superuser, change_url(report))
    with time_machine.travel(now() + timedelta(minutes=11)):
        assert NUMBER not in read_page(superuser, change_url(report))
    assert NUMBER not in read_page(superuser, change_url(other))
    assert NUMBER not in read_page(staff, change_url(report))


def test_reveal_ends_with_the_permission(report, staff):
    reveal(staff, report)
    assert NUMBER in read_page(staff, change_url(report))

    User.objects.get(username="grace").user_permissions.remove(
        Permission.objects.get(codename="reveal_personal")
    )
    assert NUMBER not in read_page(staff, change_url(report))


def test_reveal_needs_the_permission(report):
    user = User.objects.create_user("looks", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_report"))
    client = Client()
    log_in(client, user)
    data = {"reason": "Because", "_form_submitted": "on"}

    assert "Reveal" not in read_page(client, change_url(report))
    assert client.post(reveal_url(report), data).status_code == 403
    assert not revealed()


def test_missing_and_impersonal_rows_are_not_revealed(report, superuser):
    gone = reveal_url(Report(pk=Event.objects.first().pk))
    data = {"reason": "Because", "_form_submitted": "on"}

    assert superuser.post(gone, data).status_code == 404
    assert superuser.post(reveal_url(Event.objects.first()), data).status_code == 403


def test_opening_a_report_is_recorded_and_listing_reports_is_not(report, superuser):
    done = AuditEvent.objects.filter(object_type="reports.report")
    listed = superuser.get("/admin/reports/report/")
    assert listed.status_code == 200
    assert not done.exists()

    read_page(superuser, change_url(report))

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


def test_columns_of_personal_data_are_masked_until_they_are_revealed(staff):
    who = audit.Actor(ActorKind.STAFF, "grace", "192.0.2.77")
    event = audit.record("report.opened", who, User.objects.get(username="grace"))

    assert "192.0.2.77" not in read_page(staff, change_url(event))

    reveal(staff, event)
    assert "192.0.2.77" in read_page(staff, change_url(event))
