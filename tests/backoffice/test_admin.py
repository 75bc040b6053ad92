import pytest
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.test import Client

from monitoring.models import Alert, Rule, Run
from tests.world.clients import Api, person
from tests.world.staff import act, change, listing, log_in, opened, page
from verification.backoffice.model_admin import CheapPaginator
from verification.checks.models import CheckDefinition, CheckResult
from verification.consents.models import Consent
from verification.golive.models import Application
from verification.payments.models import Payment
from verification.reports.models import Report, StatusChange
from webhooks.models import Event
from workspaces.models import Account, ApiKey, LedgerEntry, Workspace
from workspaces.signup import create_workspace

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
EDITABLE = [Workspace, Account, ApiKey, CheckDefinition]
PERSONAL = ["98765432", "owner@acacia.test", "amina@payer.test"]


@pytest.mark.parametrize("model", HISTORY + EDITABLE)
def test_every_list_and_every_page_opens(rows, staff, superuser, model):
    for client in (staff, superuser):
        assert str(model.objects.first().pk) in opened(client, listing(model))
        for row in model.objects.all():
            opened(client, change(row))


@pytest.mark.parametrize("model", HISTORY + EDITABLE)
def test_lists_cost_constant_queries(
    rows, superuser, model, django_assert_max_num_queries
):
    for number in range(12):
        rows.create(person(idNumber=f"1000000{number:02}"))
        other = create_workspace(name=f"Other {number}", owner_email="o@other.test")
        Api(other, "sandbox")
    rows.work()

    # Session, user, count, rows; a few for the filters.
    with django_assert_max_num_queries(7):
        opened(superuser, listing(model))


@pytest.mark.parametrize("model", HISTORY)
def test_history_cannot_be_added_edited_or_deleted(rows, superuser, model):
    row = model.objects.first()
    before = model.objects.filter(pk=row.pk).values().get()
    posted = dict.fromkeys(before, "")

    assert superuser.get(page(model, "add")).status_code == 403
    assert superuser.post(page(model, "add"), posted).status_code == 403
    assert superuser.post(change(row), posted).status_code == 403
    assert superuser.post(page(model, "delete", row.pk)).status_code == 403
    act(superuser, "delete_selected", row, post="yes")
    assert model.objects.filter(pk=row.pk).values().get() == before
    html = opened(superuser, change(row))
    assert 'name="_save"' not in html
    assert "deletelink" not in html


@pytest.mark.parametrize("model", EDITABLE)
def test_nothing_is_deleted(rows, superuser, model):
    row = model.objects.first()

    assert superuser.post(page(model, "delete", row.pk)).status_code == 403
    act(superuser, "delete_selected", row, post="yes")
    assert model.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", HISTORY + EDITABLE)
def test_personal_data_is_masked(rows, staff, model):
    html = opened(staff, listing(model))
    for row in model.objects.all():
        html += opened(staff, change(row))

    for personal in PERSONAL:
        assert personal not in html


def test_no_list_counts_a_whole_table(rows, monkeypatch):
    monkeypatch.setattr(CheapPaginator, "MAX_COUNT", 2)
    everything = StatusChange.objects.order_by("id")

    assert CheapPaginator(everything, 1).count == 2
    assert Paginator(everything, 1).count > 2


def test_staff_without_permission_see_nothing(rows, db):
    client = Client()
    log_in(client, User.objects.create_user("new", is_staff=True))

    for model in HISTORY + EDITABLE:
        assert client.get(listing(model)).status_code == 403
