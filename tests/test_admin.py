import re
from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission, User
from django.core.paginator import Paginator
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now, timedelta

from tests.clients import Api, person
from verification.backoffice import CheapPaginator
from verification.checks.models import CheckDefinition, CheckResult
from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.reports.models import Report, StatusChange
from webhooks.models import Event
from workspaces import keys
from workspaces.accounts import create_workspace
from workspaces.models import Account, ApiKey, LedgerEntry, Workspace

HISTORY = [Report, CheckResult, Event, LedgerEntry, Consent, Payment]
EDITABLE = [Workspace, Account, ApiKey, CheckDefinition]
PERSONAL = ["98765432", "owner@acacia.test", "amina@payer.test"]


@pytest.fixture
def rows(api: Api) -> Api:
    """At least one row of everything."""
    api.create(person(idNumber="98765432"), person(idNumber="90000008"))
    payer = {"name": "Amina", "email": "amina@payer.test"}
    api.create({**person(), "paymentMode": "THIRD_PARTY", "payer": payer})
    api.work()
    return api


@pytest.fixture
def superuser(admin_user) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def staff(db: None) -> Client:
    """May do everything in the admin, and is no superuser."""
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(user)
    return client


def page(model, name: str, *arguments) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{name}", args=arguments)


def listing(model) -> str:
    return page(model, "changelist")


def change(row) -> str:
    return page(type(row), "change", row.pk)


def opened(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def act(client: Client, action: str, *chosen, **fields: str) -> list[str]:
    """What the list says after this action on the chosen rows."""
    data = {"action": action, "_selected_action": [row.pk for row in chosen], **fields}
    answer = client.post(listing(type(chosen[0])), data, follow=True)
    return [str(message) for message in answer.context["messages"]]


def listed_ids(client: Client, model, **query: str) -> set[str]:
    html = opened(client, listing(model), **query)
    return set(re.findall(r"[0-9a-f-]{36}(?=/change/)", html))


@pytest.mark.parametrize("model", HISTORY + EDITABLE)
def test_every_list_and_every_page_opens(rows, staff, superuser, model):
    for client in (staff, superuser):
        assert str(model.objects.first().pk) in opened(client, listing(model))
        for row in model.objects.all():
            opened(client, change(row))


@pytest.mark.parametrize("model", HISTORY + EDITABLE)
def test_a_list_costs_the_same_however_many_rows(
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


def test_a_report_shows_all_that_happened_on_one_page(
    rows, superuser, django_assert_max_num_queries
):
    report = Report.objects.filter(payment_mode="SELF").earliest("id")

    with django_assert_max_num_queries(16):
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


def test_a_report_that_is_paid_for_links_to_its_payment(rows, staff):
    payment = Payment.objects.get()

    assert change(payment) in opened(staff, change(payment.report))


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


def test_superusers_see_subject_and_finding_on_their_pages(rows, superuser):
    report = Report.objects.earliest("id")
    result = report.results.get(name="IDENTITY")

    assert "98765432" in opened(superuser, change(report))
    assert "98765432" in opened(superuser, change(result))
    assert "98765432" not in opened(superuser, listing(Report))


def test_a_report_is_found_by_its_id_and_its_reference(rows, superuser):
    wanted = Report.objects.earliest("id")
    Report.objects.filter(pk=wanted.pk).update(reference="ORDER-7")

    assert listed_ids(superuser, Report, q=str(wanted.pk)) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=wanted.pk.hex) == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q=" ORDER-7 ") == {str(wanted.pk)}
    assert listed_ids(superuser, Report, q="ORDER") == set()
    assert len(listed_ids(superuser, Report)) == 3


def test_what_belongs_to_a_report_is_found_by_its_id(rows, superuser):
    report = Report.objects.earliest("id")

    assert len(listed_ids(superuser, CheckResult, q=str(report.pk))) >= 3
    assert len(listed_ids(superuser, Consent, q=str(report.pk))) >= 1
    assert len(listed_ids(superuser, Event, q=str(report.pk))) >= 5


def test_what_is_stuck_is_found(rows, superuser):
    stuck = rows.create(person(idNumber="22222222"))
    rows.create(person(idNumber="33333333"))
    hours_ago = now() - timedelta(hours=2)
    Report.objects.filter(pk=stuck["id"]).update(updated_at=hours_ago)

    assert listed_ids(superuser, Report, stuck="hour") == {stuck["id"]}
    waiting = listed_ids(superuser, CheckResult, trouble="waiting")
    results = CheckResult.objects.filter(report=stuck["id"])
    assert waiting - {stuck["id"]} == {str(result.pk) for result in results}


def test_what_the_engine_gave_up_is_found(rows, superuser):
    failed = CheckResult.objects.filter(status="FAILED").first()
    assert listed_ids(superuser, CheckResult, trouble="gave-up") == set()

    CheckResult.objects.filter(pk=failed.pk).update(failure_code="ENGINE_GAVE_UP")
    assert str(failed.pk) in listed_ids(superuser, CheckResult, trouble="gave-up")


def test_no_list_counts_a_whole_table(rows, monkeypatch):
    monkeypatch.setattr(CheapPaginator, "COUNTED", 2)
    everything = StatusChange.objects.order_by("id")

    assert CheapPaginator(everything, 1).count == 2
    assert Paginator(everything, 1).count > 2


def test_a_new_workspace_gets_its_accounts(superuser):
    filled = {
        "name": "Baobab",
        "owner": "owner@baobab.test",
        "kind": "BUSINESS",
        "billing": "POSTPAID",
    }
    assert superuser.post(page(Workspace, "add"), filled).status_code == 302

    workspace = Workspace.objects.get()
    assert workspace.owner_email == "owner@baobab.test"
    billing = workspace.accounts.values_list("environment", "billing")
    assert dict(billing) == {"sandbox": "PLAY", "production": "POSTPAID"}


def test_a_new_workspace_needs_an_address(superuser):
    filled = {"name": "Baobab", "owner": "x", "kind": "BUSINESS"}

    answer = superuser.post(page(Workspace, "add"), filled)

    assert "Enter a valid email address." in answer.content.decode()
    assert not Workspace.objects.exists()


def test_a_workspace_is_suspended_with_a_reason_and_resumed(workspace, superuser):
    assert act(superuser, "suspend", workspace) == [
        "Give a reason of at most 500 characters."
    ]
    workspace.refresh_from_db()
    assert not workspace.is_suspended

    told = act(superuser, "suspend", workspace, reason="Unpaid invoices")
    assert told == ["Acacia Lenders is suspended."]
    workspace.refresh_from_db()
    assert workspace.suspension_reason == "Unpaid invoices"

    assert act(superuser, "resume", workspace) == ["Acacia Lenders works again."]
    workspace.refresh_from_db()
    assert not workspace.is_suspended


def test_approval_and_suspension_are_not_fields_to_edit(workspace, superuser):
    posted = {
        "name": "Acacia",
        "retention_days": "30",
        "go_live": "APPROVED",
        "suspended_at_0": "2026-01-01",
        "suspended_at_1": "00:00",
        "accounts-TOTAL_FORMS": "0",
        "accounts-INITIAL_FORMS": "0",
    }
    assert superuser.post(change(workspace), posted).status_code == 302

    workspace.refresh_from_db()
    assert (workspace.name, workspace.retention_days) == ("Acacia", 30)
    assert workspace.go_live == "NONE"
    assert not workspace.is_suspended


def test_a_new_key_is_shown_once(workspace, superuser):
    filled = {
        "workspace": str(workspace.pk),
        "environment": "sandbox",
        "name": "shop",
        "scopes": ["reports:create", "reports:read"],
    }

    first = superuser.post(page(ApiKey, "add"), filled, follow=True)

    text = re.search(r"vrf_test_[0-9A-Za-z]{38}", first.content.decode())[0]
    found = keys.find(text)
    assert found.workspace == workspace
    assert found.scopes == ["reports:create", "reports:read"]
    assert text not in opened(superuser, listing(ApiKey))
    assert text not in opened(superuser, change(found))


def test_a_production_key_needs_approval_here_too(workspace, superuser):
    filled = {
        "workspace": str(workspace.pk),
        "environment": "production",
        "name": "shop",
        "scopes": ["reports:read"],
    }

    refused = superuser.post(page(ApiKey, "add"), filled)
    assert "Acacia Lenders is not approved to go live." in refused.content.decode()
    assert not ApiKey.objects.exists()

    Workspace.objects.update(go_live="APPROVED")
    assert superuser.post(page(ApiKey, "add"), filled).status_code == 302


def test_limits_of_a_key_are_edited_and_its_scopes_are_not(api, superuser):
    posted = {
        "name": "faster",
        "creates_per_minute": "9",
        "requests_per_minute": "90",
        "scopes": ["reports:read"],
        "environment": "production",
    }
    assert superuser.post(change(api.key), posted).status_code == 302

    found = keys.find(api.text)
    assert (found.name, found.creates_per_minute) == ("faster", 9)
    assert len(found.scopes) == 5
    assert found.environment == "sandbox"


def test_a_key_is_revoked(api, superuser):
    assert act(superuser, "revoke", api.key) == [f"{api.key} is revoked."]

    assert keys.find(api.text) is None
    assert act(superuser, "revoke", api.key) == [f"{api.key} had ended already."]


def test_money_moves_by_entries(workspace, superuser):
    account = workspace.accounts.get(environment="production")

    told = act(superuser, "top_up", account, amount="100.50", note="Transfer 7")
    assert told == ["TOP_UP of KES 100.50 on Acacia Lenders (production)."]
    act(superuser, "adjust", account, amount="-0.50", note="Bank fee")

    account.refresh_from_db()
    assert account.balance == 100
    entries = account.entries.order_by("id")
    assert [entry.amount for entry in entries] == [Decimal("100.50"), Decimal("-0.50")]
    assert {entry.actor for entry in entries} == {"staff admin"}


@pytest.mark.parametrize(
    ("action", "fields", "told"),
    [
        ("top_up", {}, "Give an amount"),
        ("top_up", {"amount": "0"}, "Give an amount"),
        ("top_up", {"amount": "1.005"}, "Give an amount"),
        ("top_up", {"amount": "NaN"}, "Give an amount"),
        ("top_up", {"amount": "-5"}, "A top-up is above 0"),
        ("adjust", {"amount": "5"}, "An adjustment needs a note"),
        ("adjust", {"amount": "-5", "note": "Fee"}, "This needs KES 5.00"),
    ],
)
def test_money_that_cannot_move_stays(workspace, superuser, action, fields, told):
    account = workspace.accounts.get(environment="production")

    (message,) = act(superuser, action, account, **fields)

    assert message.startswith(told)
    assert not LedgerEntry.objects.exists()


def test_money_moves_on_one_account_at_a_time(workspace, superuser):
    told = act(superuser, "top_up", *workspace.accounts.all(), amount="5")

    assert told == ["Choose one account."]


def test_editing_an_account_does_not_touch_its_balance(workspace, superuser):
    account = workspace.accounts.get(environment="production")
    posted = {"billing": "POSTPAID", "credit_limit": "10", "balance": "999"}

    assert superuser.post(change(account), posted).status_code == 302

    account.refresh_from_db()
    assert (account.billing, account.credit_limit) == ("POSTPAID", 10)
    assert account.balance == 0


def test_an_account_that_is_overdrawn_cannot_become_prepaid(workspace, superuser):
    account = workspace.accounts.get(environment="production")
    Account.objects.filter(pk=account.pk).update(billing="POSTPAID", balance=-5)

    refused = superuser.post(
        change(account), {"billing": "PREPAID", "credit_limit": "0"}
    )

    assert "below what this would allow" in refused.content.decode()
    account.refresh_from_db()
    assert account.billing == "POSTPAID"


def test_play_money_stays_play_money(workspace, superuser):
    account = workspace.accounts.get(environment="sandbox")

    superuser.post(change(account), {"billing": "POSTPAID", "credit_limit": "10"})

    account.refresh_from_db()
    assert (account.billing, account.credit_limit) == ("PLAY", 0)


DEFINITION = {
    "display_name": "Identity",
    "description": "Who it is.",
    "active": "on",
    "price": "75.00",
    "freshness_days": "30",
    "max_attempts": "4",
    "initial_delay_seconds": "2",
    "backoff_multiplier": "1.5",
    "max_delay_seconds": "60",
}


def test_price_texts_and_retries_of_a_check_are_edited(workspace, superuser):
    identity = CheckDefinition.objects.get(name="IDENTITY")
    posted = {**DEFINITION, "name": "OTHER", "output_fields": "x"}

    assert superuser.post(change(identity), posted).status_code == 302

    edited = CheckDefinition.objects.get(pk=identity.pk)
    assert (edited.price, edited.freshness_days) == (75, 30)
    assert edited.retry_policy == {
        "maxAttempts": 4,
        "initialDelaySeconds": 2,
        "backoffMultiplier": 1.5,
        "maxDelaySeconds": 60,
    }
    assert edited.updated_at > identity.updated_at
    assert edited.name == "IDENTITY"
    assert edited.output_fields == identity.output_fields


@pytest.mark.parametrize(
    "wrong",
    [
        {"price": "-1"},
        {"price": "0.001"},
        {"max_attempts": "0"},
        {"max_attempts": "many"},
        {"initial_delay_seconds": "90"},
        {"backoff_multiplier": "nan"},
        {"max_delay_seconds": "1e9"},
        {"display_name": ""},
    ],
)
def test_a_check_that_cannot_be_is_not_saved(workspace, superuser, wrong):
    identity = CheckDefinition.objects.get(name="IDENTITY")

    assert superuser.post(change(identity), DEFINITION | wrong).status_code == 200

    unchanged = CheckDefinition.objects.get(pk=identity.pk)
    assert unchanged.updated_at == identity.updated_at


def test_staff_without_permission_see_nothing(rows, db):
    client = Client()
    client.force_login(User.objects.create_user("new", is_staff=True))

    for model in HISTORY + EDITABLE:
        assert client.get(listing(model)).status_code == 403
