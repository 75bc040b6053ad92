import re
from decimal import Decimal

import pytest

from tests.world.clients import approve_workspace
from tests.world.members import create_member, create_user, invitation_token
from tests.world.staff import (
    admin_url,
    change_url,
    dialog_fields,
    dialog_url,
    list_url,
    listed_ids,
    press_button,
    read_page,
    reveal,
    run_action,
    take_messages,
)
from verification.backoffice.model_admin import SENT_BEFORE
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.db.ids import uuid7
from workspaces import keys
from workspaces.create import operator_account
from workspaces.members import (
    AlreadyMember,
    accept,
    assign_owner,
    find_open_invitation,
)
from workspaces.models import Account, ApiKey, LedgerEntry, Member, Workspace


def test_new_workspace_gets_its_accounts(superuser):
    filled = {
        "name": "Baobab",
        "owner": "owner@baobab.test",
        "kind": "BUSINESS",
        "billing": "POSTPAID",
    }
    assert superuser.post(admin_url(Workspace, "add"), filled).status_code == 302

    workspace = Workspace.objects.get()
    assert workspace.owner_email == "owner@baobab.test"
    billing = workspace.accounts.values_list("environment", "billing")
    assert dict(billing) == {"sandbox": "PLAY", "production": "POSTPAID"}
    # And somebody who can open it.
    assert invitation_token("owner@baobab.test")


def test_staff_invite_the_owner_again_until_somebody_joins(workspace, superuser):
    assign_owner(workspace, "mistyped@acacia.test")
    mistyped = invitation_token("mistyped@acacia.test")

    again = {"email": "owner@people.test", "reason": "The address was wrong"}
    told = press_button(superuser, "invite_owner", workspace, **again)

    assert told == ["Acacia Lenders invites its owner."]
    assert find_open_invitation(mistyped) is None
    workspace.refresh_from_db()
    assert workspace.contact_email == workspace.contact == "owner@people.test"
    event = AuditEvent.objects.get(action="workspace.owner-invited")
    assert (event.reason, event.workspace_id) == (again["reason"], workspace.pk)
    accept(create_user("owner"), invitation_token("owner@people.test"))
    assert press_button(superuser, "invite_owner", workspace, **again) == [NOT_OFFERED]
    with pytest.raises(AlreadyMember):
        assign_owner(workspace, "another@acacia.test")


def test_operators_own_workspace_gets_no_owner(superuser):
    own = operator_account("sandbox").workspace

    assert dialog_url("invite_owner", own) not in read_page(superuser, change_url(own))


def test_form_of_a_new_workspace_that_is_sent_twice_makes_one(superuser):
    add = admin_url(Workspace, "add")
    (page,) = re.findall(r'name="page" value="([^"]+)"', read_page(superuser, add))
    filled = {
        "name": "Baobab",
        "owner": "owner@baobab.test",
        "kind": "BUSINESS",
        "billing": "POSTPAID",
        "page": page,
    }
    superuser.post(add, filled)

    again = superuser.post(add, filled)

    assert again["Location"] == change_url(Workspace.objects.get())
    assert take_messages(again)[-1] == SENT_BEFORE


def test_new_workspace_needs_an_address(superuser):
    filled = {"name": "Baobab", "owner": "x", "kind": "BUSINESS"}

    answer = superuser.post(admin_url(Workspace, "add"), filled)

    assert "Enter a valid email address." in answer.content.decode()
    assert not Workspace.objects.exists()


def test_workspace_is_suspended_with_a_reason_and_resumed(workspace, superuser):
    press_button(superuser, "suspend", workspace)
    workspace.refresh_from_db()
    assert not workspace.is_suspended

    told = press_button(superuser, "suspend", workspace, reason="Unpaid invoices")
    assert told == ["Acacia Lenders is suspended."]
    workspace.refresh_from_db()
    assert workspace.suspension_reason == "Unpaid invoices"
    asked = read_page(superuser, dialog_url("resume", workspace))
    assert "Unpaid invoices" in asked

    assert press_button(superuser, "resume", workspace) == [
        "Acacia Lenders works again."
    ]
    workspace.refresh_from_db()
    assert not workspace.is_suspended


def test_workspace_has_only_the_button_that_applies(workspace, superuser):
    for button, other in [("suspend", "resume"), ("resume", "suspend")]:
        page = read_page(superuser, change_url(workspace))
        assert dialog_url(button, workspace) in page
        assert dialog_url(other, workspace) not in page
        assert press_button(superuser, other, workspace, reason="x") == [NOT_OFFERED]
        workspace.suspend("Unpaid invoices")


def test_approval_and_suspension_cannot_be_edited(workspace, superuser):
    posted = {
        "name": "Acacia",
        "retention_days": "30",
        "sandbox_retention_days": "365",
        "go_live": "APPROVED",
        "suspended_at_0": "2026-01-01",
        "suspended_at_1": "00:00",
        "accounts-TOTAL_FORMS": "0",
        "accounts-INITIAL_FORMS": "0",
    }
    assert superuser.post(change_url(workspace), posted).status_code == 302

    workspace.refresh_from_db()
    assert (workspace.name, workspace.retention_days) == ("Acacia", 30)
    assert workspace.go_live == "NONE"
    assert not workspace.is_suspended


def test_new_key_is_shown_once(workspace, superuser):
    filled = {
        "workspace": str(workspace.pk),
        "environment": "sandbox",
        "name": "shop",
        "scopes": ["reports:create", "reports:read"],
    }

    first = superuser.post(admin_url(ApiKey, "add"), filled)

    # It is in this answer alone, and in no cookie.
    assert "messages" not in first.cookies
    text = re.search(r"vrf_test_[0-9A-Za-z]{38}", first.content.decode())[0]
    found = keys.find(text)
    assert found.workspace == workspace
    assert found.scopes == ["reports:create", "reports:read"]
    assert text not in read_page(superuser, list_url(ApiKey))
    assert text not in read_page(superuser, change_url(found))


def test_production_key_in_the_admin_needs_approval(workspace, superuser):
    filled = {
        "workspace": str(workspace.pk),
        "environment": "production",
        "name": "shop",
        "scopes": ["reports:read"],
    }

    refused = superuser.post(admin_url(ApiKey, "add"), filled)
    assert "Acacia Lenders is not approved to go live." in refused.content.decode()
    assert not ApiKey.objects.exists()

    approve_workspace(Workspace.objects.get())
    assert superuser.post(admin_url(ApiKey, "add"), filled).status_code == 200
    assert ApiKey.objects.get().environment == "production"


def test_suspended_workspace_gets_no_key_in_the_admin(workspace, superuser):
    workspace.suspend("Unpaid")
    filled = {
        "workspace": str(workspace.pk),
        "environment": "sandbox",
        "name": "shop",
        "scopes": ["reports:read"],
    }

    refused = superuser.post(admin_url(ApiKey, "add"), filled)

    assert "Acacia Lenders is suspended." in refused.content.decode()
    assert not ApiKey.objects.exists()


def test_limits_but_not_scopes_of_a_key_can_be_edited(api, superuser):
    posted = {
        "name": "faster",
        "creates_per_minute": "9",
        "requests_per_minute": "90",
        "networks": "198.51.100.7,2001:db8::/32",
        "scopes": ["reports:read"],
        "environment": "production",
    }
    assert superuser.post(change_url(api.key), posted).status_code == 302

    found = keys.find(api.text)
    assert (found.name, found.creates_per_minute) == ("faster", 9)
    assert found.networks == ["198.51.100.7/32", "2001:db8::/32"]
    assert len(found.scopes) == 5
    assert found.environment == "sandbox"


def test_key_is_revoked(api, superuser):
    assert run_action(superuser, "revoke", api.key) == [f"{api.key} is revoked."]

    assert keys.find(api.text) is None
    assert run_action(superuser, "revoke", api.key) == [f"{api.key} had ended already."]


def test_money_moves_by_entries(workspace, superuser):
    account = workspace.accounts.get(environment="production")

    told = press_button(
        superuser, "top_up", account, amount="100.50", note="Transfer 7"
    )
    assert told == ["Top-up of KES 100.50 on Acacia Lenders (production)."]
    press_button(superuser, "adjust", account, amount="-0.50", note="Bank fee")

    account.refresh_from_db()
    assert account.balance == 100
    entries = account.entries.order_by("id")
    assert [entry.amount for entry in entries] == [Decimal("100.50"), Decimal("-0.50")]
    assert {entry.actor for entry in entries} == {"staff admin"}


@pytest.mark.parametrize("button", ["top_up", "adjust"])
def test_dialog_shows_the_new_balance_before_it_books(
    workspace, superuser, settings, button
):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(5000)
    account = workspace.accounts.get(environment="production")
    Account.objects.filter(pk=account.pk).update(balance=200)

    def said(amount):
        data = {"_form_submitted": "on", "amount": amount, "note": "Transfer 7"}
        data["page"] = str(uuid7())
        return superuser.post(dialog_url(button, account), data).content.decode()

    page = said("5000")

    for fact in (
        "Acacia Lenders",
        "production",
        "KES 200.00",
        "KES 5,000.00",
        "KES 5,200.00",
        "Transfer 7",
        "Not needed",
        "Cancel",
    ):
        assert fact in page
    assert "once another person approves it" in said("5000.01")
    assert not LedgerEntry.objects.exists()


REFUSED_MOVEMENTS = [
    ("top_up", {}, "This field is required"),
    ("top_up", {"amount": "0"}, "A top-up is above 0"),
    ("top_up", {"amount": "1.005"}, "no more than 2 decimal places"),
    ("top_up", {"amount": "NaN"}, "Enter a number"),
    ("top_up", {"amount": "-5"}, "A top-up is above 0"),
    ("adjust", {"amount": "0", "note": "Fee"}, "changes nothing"),
    ("adjust", {"amount": "5"}, "This field is required"),
    ("adjust", {"amount": "-5", "note": "Fee"}, "This needs KES 5.00"),
]


def test_refused_movement_changes_no_balance(workspace, superuser):
    for button, fields, told in REFUSED_MOVEMENTS:
        account = workspace.accounts.get(environment="production")

        # The first at the step that asks, the others at the one that books
        form = dialog_fields(**fields, sure="on" if fields else "")
        answer = superuser.post(dialog_url(button, account), form, follow=True)
        assert told in answer.content.decode()
        assert not LedgerEntry.objects.exists(), fields


def test_rows_of_the_account_list_have_the_buttons(workspace, superuser):
    page = read_page(superuser, list_url(Account))

    for account in workspace.accounts.all():
        assert dialog_url("top_up", account) in page
        assert dialog_url("adjust", account) in page


def test_dialog_returns_to_the_page_that_opened_it(workspace, superuser):
    account = workspace.accounts.get(environment="production")

    def led(page):
        answer = superuser.post(
            dialog_url("top_up", account),
            dialog_fields(amount="5"),
            headers={"HX-Request": "true", "HX-Current-URL": page},
        )
        return answer["HX-Redirect"]

    assert (
        led(f"http://testserver{change_url(workspace)}?x=1")
        == f"{change_url(workspace)}?x=1"
    )
    assert led("https://elsewhere.test/x") == change_url(account)


def test_editing_an_account_does_not_touch_its_balance(workspace, superuser):
    account = workspace.accounts.get(environment="production")
    posted = {"billing": "POSTPAID", "credit_limit": "10", "balance": "999"}

    assert superuser.post(change_url(account), posted).status_code == 302

    account.refresh_from_db()
    assert (account.billing, account.credit_limit) == ("POSTPAID", 10)
    assert account.balance == 0
    event = AuditEvent.objects.get(action="account.changed")
    terms = "billing: PREPAID → POSTPAID; credit_limit: 0.00 → 10;"
    assert event.reason.startswith(terms)


def test_staff_set_the_ceiling_of_a_postpaid_account(workspace, superuser):
    account = workspace.accounts.get(environment="production")
    Account.objects.filter(pk=account.pk).update(billing="POSTPAID", balance=-5)
    posted = {"billing": "POSTPAID", "credit_limit": "0", "ceiling": "4.99"}

    refused = superuser.post(change_url(account), posted)
    assert "owes KES 5.00, more than this ceiling" in refused.content.decode()
    superuser.post(change_url(account), {**posted, "ceiling": "5"})
    account.refresh_from_db()
    assert account.ceiling == 5
    superuser.post(change_url(account), {**posted, "ceiling": ""})
    account.refresh_from_db()
    assert account.ceiling is None


def test_overdrawn_account_cannot_become_prepaid(workspace, superuser):
    account = workspace.accounts.get(environment="production")
    Account.objects.filter(pk=account.pk).update(billing="POSTPAID", balance=-5)

    refused = superuser.post(
        change_url(account), {"billing": "PREPAID", "credit_limit": "0"}
    )

    assert "below what this would allow" in refused.content.decode()
    account.refresh_from_db()
    assert account.billing == "POSTPAID"


def test_terms_of_an_account_can_be_edited_after_a_provider_took_money_back(
    workspace, superuser
):
    account = workspace.accounts.get(environment="production")
    Account.objects.filter(pk=account.pk).update(balance=-5, taken_back=5)
    terms = {"billing": "PREPAID", "credit_limit": "0", "low_balance_at": "70"}

    assert superuser.post(change_url(account), terms).status_code == 302
    terms = {"billing": "POSTPAID", "credit_limit": "0", "ceiling": "0"}
    assert superuser.post(change_url(account), terms).status_code == 302


def test_play_money_stays_play_money(workspace, superuser):
    account = workspace.accounts.get(environment="sandbox")

    superuser.post(change_url(account), {"billing": "POSTPAID", "credit_limit": "10"})

    account.refresh_from_db()
    assert (account.billing, account.credit_limit) == ("PLAY", 0)


def test_members_are_listed_masked_and_found_by_workspace(workspace, superuser):
    grace = create_member(workspace, "OWNER", "grace")

    page = read_page(superuser, list_url(Member))

    assert "g••••@people.test" in page
    assert grace.user.email not in page
    for whole in (grace.pk, workspace.pk):
        assert listed_ids(superuser, Member, q=str(whole)) == {str(grace.pk)}
    # A name in a URL would be in logs and in the browser's history.
    assert listed_ids(superuser, Member, q="grace@people.test") == set()


def test_address_of_member_is_revealed_with_a_reason(workspace, superuser, staff):
    otieno = create_member(workspace, "OWNER", "otieno")
    assert otieno.user.email not in read_page(superuser, change_url(otieno))

    reveal(superuser, otieno)

    assert otieno.user.email in read_page(superuser, change_url(otieno))
    assert otieno.user.email not in read_page(staff, change_url(otieno))
    assert superuser.post(change_url(otieno), {"role": "VIEWER"}).status_code == 403


def test_list_of_members_costs_constant_queries(
    workspace, superuser, django_assert_max_num_queries
):
    for number in range(6):
        create_member(workspace, "VIEWER", f"viewer{number}")

    with django_assert_max_num_queries(7):
        read_page(superuser, list_url(Member))
