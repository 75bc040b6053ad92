import io
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from allauth.account.models import EmailAddress
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.accounts.visitor import create_user
from verification.backoffice.models import AuditEvent
from workspaces import keys
from workspaces.models import ApiKey, LedgerEntry, Scope, Workspace

pytestmark = pytest.mark.django_db


def run(name: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(name, *map(str, arguments), stdout=out)
    return out.getvalue()


def answer(name: str, *arguments: str) -> dict[str, Any]:
    return json.loads(run(name, *arguments))


def test_workspace_is_created_with_both_accounts():
    made = answer("create_workspace", "Acacia", "--owner", "a@acacia.test")

    workspace = Workspace.objects.get(pk=made["workspaceId"])
    assert list(made) == ["workspaceId"]
    assert (workspace.name, workspace.owner_email) == ("Acacia", "a@acacia.test")
    assert workspace.contact == "a@acacia.test"
    assert (workspace.kind, workspace.go_live) == ("BUSINESS", "NONE")
    billing = workspace.accounts.values_list("environment", "billing")
    assert dict(billing) == {"sandbox": "PLAY", "production": "PREPAID"}


def test_billing_and_kind_of_account_may_be_chosen():
    made = answer(
        *("create_workspace", "Amina", "--owner", "amina@mail.test"),
        *("--billing", "postpaid", "--account", "individual"),
        *("--contact", "+254712345678"),
    )

    workspace = Workspace.objects.get(pk=made["workspaceId"])
    assert workspace.requester.contact == "+254712345678"
    assert workspace.kind == "INDIVIDUAL"
    assert workspace.accounts.get(environment="production").billing == "POSTPAID"


INVALID_WORKSPACES = [
    (["Acacia", "--owner", "a@acacia.test", "--contact", " "], "must not be empty"),
    ([" ", "--owner", "a@acacia.test"], "must not be empty"),
    (["A\0B", "--owner", "a@acacia.test"], "NUL"),
    (["A" * 201, "--owner", "a@acacia.test"], "at most 200"),
    (["Acacia", "--owner", "acacia.test"], "'acacia.test' is not an e-mail"),
    (["Acacia"], "--owner"),
    (["Acacia", "--owner", "a@b.test", "--billing", "never"], "invalid choice"),
]


def test_invalid_workspace_is_not_created():
    for arguments, told in INVALID_WORKSPACES:
        with pytest.raises(CommandError, match=told):
            run("create_workspace", *arguments)

        assert not Workspace.objects.exists()


def test_printed_key_works(workspace):
    made = answer("create_key", workspace.pk, "--environment", "sandbox")

    key = keys.find(made["key"])
    assert list(made) == ["keyId", "key"]
    assert str(key.pk) == made["keyId"]
    assert key.workspace == workspace
    event = AuditEvent.objects.get()
    assert (event.actor, event.action) == ("service", "api-key.created")
    assert (event.object_id, event.workspace_id) == (str(key.pk), workspace.pk)
    assert set(key.scopes) == set(Scope.values) - {
        Scope.SUBJECTS_ERASE,
        Scope.DECISIONS_WRITE,
        Scope.AUDIT_READ,
    }


def test_key_may_have_fewer_scopes_and_a_name(workspace):
    run(
        *("create_key", workspace.pk, "--environment", "sandbox"),
        *("--scopes", "reports:read, monitoring:read", "--name", "Warehouse"),
        *("--networks", "192.0.2.0/24, 2001:db8::7"),
    )

    key = ApiKey.objects.get()
    assert (key.name, key.scopes) == ("Warehouse", ["reports:read", "monitoring:read"])
    assert key.networks == ["192.0.2.0/24", "2001:db8::7/128"]


def test_production_key_needs_approval_or_force(workspace):
    asked = ["create_key", workspace.pk, "--environment", "production"]

    with pytest.raises(CommandError, match=r"not approved to go live.*--force"):
        run(*asked)
    assert answer(*asked, "--force")["key"].startswith("vrf_live_")


INVALID_KEYS = [
    (["--environment", "staging"], "invalid choice"),
    ([], "--environment"),
    (["--environment", "sandbox", "--scopes", "reports:all"], "no scope 'reports:"),
    (["--environment", "sandbox", "--scopes", ""], "no scope ''"),
    (
        ["--environment", "sandbox", "--scopes", "reports:read,reports:read"],
        "twice",
    ),
    (["--environment", "sandbox", "--networks", ""], "'' is no address"),
    (["--environment", "sandbox", "--name", ""], "must not be empty"),
    (["--environment", "sandbox", "--name", "n" * 101], "at most 100"),
]


def test_invalid_key_is_not_created(workspace):
    for options, told in INVALID_KEYS:
        with pytest.raises(CommandError, match=told):
            run("create_key", workspace.pk, *options)

        assert not ApiKey.objects.exists()


@pytest.mark.parametrize("unknown", [str(UUID(int=7)), "acacia", ""])
@pytest.mark.parametrize(
    "command",
    [
        ["create_key", "--environment", "sandbox"],
        ["top_up", "--environment", "sandbox", "--amount", "1"],
    ],
)
def test_unknown_workspace_is_reported(command, unknown):
    with pytest.raises(CommandError, match=f"There is no workspace '{unknown}'"):
        run(command[0], unknown, *command[1:])


def test_top_up_adds_an_entry_to_the_balance(workspace):
    asked = ["top_up", workspace.pk, "--environment", "production", "--amount"]
    answer(*asked, "1000")

    made = answer(*asked, "0.5", "--note", "Bank transfer 7")

    assert made == {
        "workspaceId": str(workspace.pk),
        "environment": "production",
        "amount": 0.5,
        "balance": 1000.5,
    }
    entry = LedgerEntry.objects.latest("id")
    assert (entry.kind, entry.amount) == ("TOP_UP", Decimal("0.50"))
    assert (entry.actor, entry.note) == ("operator", "Bank transfer 7")


INVALID_AMOUNTS = [
    ("-1", "above 0"),
    ("0", "above 0"),
    ("NaN", "above 0"),
    ("sNaN", "above 0"),
    ("Infinity", "above 0"),
    ("1e12", "above 0 and up to 999999999999.99"),
    ("0.001", "at most two decimals"),
    ("ten", "'ten' is not an amount"),
    ("", "'' is not an amount"),
    ("1,000", "is not an amount"),
]


def test_invalid_amount_moves_no_money(workspace):
    for amount, told in INVALID_AMOUNTS:
        with pytest.raises(CommandError, match=told):
            run(
                *("top_up", workspace.pk, "--environment", "sandbox"),
                f"--amount={amount}",
            )

        assert not LedgerEntry.objects.exists()


def test_owner_without_an_account_gets_an_invitation(capsys):
    made = answer("create_workspace", "Acacia", "--owner", "a@acacia.test")

    workspace = Workspace.objects.get(pk=made["workspaceId"])
    assert workspace.invitations.get().role == "OWNER"
    assert "a@acacia.test has no account" in capsys.readouterr().err


@pytest.mark.parametrize("confirmed", [True, False])
def test_user_with_the_confirmed_address_owns_the_workspace(confirmed):
    user = create_user()
    EmailAddress.objects.update(verified=confirmed)

    made = answer("create_workspace", "Acacia", "--owner", "Grace@people.test")

    workspace = Workspace.objects.get(pk=made["workspaceId"])
    owners = [(m.user, m.role) for m in workspace.members.all()]
    assert owners == ([(user, "OWNER")] if confirmed else [])
    assert workspace.invitations.exists() is not confirmed
