import io
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from allauth.account.models import EmailAddress
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.accounts.visitor import create_user
from tests.world.clients import Api, person
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from workspaces import keys, ledger
from workspaces.ledger import Kind, Movement
from workspaces.models import ApiKey, LedgerEntry, Scope, Workspace

pytestmark = pytest.mark.django_db


def run(name: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(name, *map(str, arguments), stdout=out)
    return out.getvalue()


def answer(name: str, *arguments: str) -> dict[str, Any]:
    return json.loads(run(name, *arguments))


def differences() -> list[str]:
    """Return the lines of the audit without identifiers."""
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"The ledger has \d+ differences"):
        call_command("audit_ledger", stdout=out)
    lines = [line.split(" ", 2) for line in out.getvalue().splitlines()]
    return sorted(f"{noun} {fault}" for noun, _, fault in lines)


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


@pytest.fixture
def busy(api: Api) -> Api:
    """Create reports in each state of money."""
    api.create(person())
    api.create(person(idNumber="90000008"))
    api.work()
    failed = next(r for r in CheckResult.objects.filter(status="FAILED"))
    api.post(f"/reports/{failed.report_id}/retry")
    waiting = api.create(person(idNumber="22222222"))
    api.create({**person(idNumber="33333333"), "paymentMode": "CANDIDATE"})
    api.create(person(idNumber="44444444"), draft=True)
    cancelled = api.create(person(idNumber="55555555"))
    api.post(f"/reports/{cancelled['id']}/cancel")
    assert waiting["status"] == "RUNNING"
    return api


def test_correct_ledger_is_reported_with_its_counts(busy):
    out = run("audit_ledger")

    entries, results = LedgerEntry.objects.count(), CheckResult.objects.count()
    assert out == (
        f"The ledger adds up: 2 accounts, {entries} entries, {results} check results "
        "and 0 paid checkouts.\n"
    )
    assert LedgerEntry.objects.filter(kind="REVERSAL").exists()
    assert CheckResult.objects.filter(attempt=2).exists()


def test_audit_finds_a_balance_changed_by_hand(busy):
    total = busy.account.balance
    execute("UPDATE workspaces_account SET balance = 7 WHERE billing = 'PLAY'")

    assert differences() == [f"account has balance 7.00 but its entries make {total}"]


def execute(statement: str, *parameters: Any) -> None:
    """Run a statement that the triggers would refuse."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, parameters)
        cursor.execute("SET session_replication_role = origin")


def result(status: str, attempt: int = 1) -> CheckResult:
    """Return a check result with a charge."""
    charged = LedgerEntry.objects.filter(kind="CHARGE").values("result_id")
    found = CheckResult.objects.filter(pk__in=charged, status=status, attempt=attempt)
    return found.order_by("pk")[0]


def delete_entry(result: CheckResult, kind: str, attempt: int = 1) -> None:
    """Delete an entry and its amount of the balance, as if it had never been."""
    execute(
        """
        WITH gone AS (
            DELETE FROM workspaces_ledgerentry
            WHERE result_id = %s AND kind = %s AND attempt = %s
            RETURNING account_id, amount
        )
        UPDATE workspaces_account a SET balance = balance - gone.amount
        FROM gone WHERE a.id = gone.account_id
        """,
        *(result.pk, kind, attempt),
    )


@pytest.mark.parametrize("status", ["COMPLETED", "PENDING"])
def test_audit_finds_a_result_without_a_charge(busy, status):
    delete_entry(result(status), "CHARGE")

    assert differences() == ["result was not charged for attempt 1"]


def test_audit_finds_a_first_attempt_without_a_charge(busy):
    retried = result("PENDING", attempt=2)
    delete_entry(retried, "CHARGE")
    delete_entry(retried, "REVERSAL")

    assert differences() == ["result was not charged for attempt 1"]


def test_audit_finds_a_failed_attempt_without_reversal(busy):
    delete_entry(result("PENDING", attempt=2), "REVERSAL")

    assert differences() == ["entry is not reversed though its check was not done"]


def test_audit_finds_a_cancelled_check_without_reversal(busy):
    delete_entry(result("CANCELLED"), "REVERSAL")

    assert differences() == ["entry is not reversed though its check was not done"]


def move(busy: Api, kind: Kind, amount: Decimal, of: CheckResult, attempt: int) -> None:
    ledger.record_movements(
        Movement(
            busy.account.pk, kind, amount, "tests", of.report_id, of.pk, attempt=attempt
        )
    )


def test_audit_finds_a_completed_check_with_reversal(busy):
    done = result("COMPLETED")
    move(busy, Kind.REVERSAL, done.price, done, 1)

    assert differences() == ["entry is reversed though its result is COMPLETED"]


def test_audit_finds_a_reversal_without_a_charge(busy):
    done = result("COMPLETED")
    move(busy, Kind.REVERSAL, done.price, done, 9)

    assert differences() == ["entry reverses what was not charged"]


def test_audit_finds_a_reversal_of_another_amount(busy):
    cancelled = result("CANCELLED")
    delete_entry(cancelled, "REVERSAL")
    move(busy, Kind.REVERSAL, cancelled.price + 1, cancelled, 1)

    assert differences() == [
        "entry is reversed by another amount or to another account"
    ]


def test_audit_finds_a_charge_of_another_amount(busy):
    done = result("COMPLETED")
    delete_entry(done, "CHARGE")
    move(busy, Kind.CHARGE, -done.price - 1, done, 1)

    assert differences() == [
        f"entry charges {-done.price - 1} for a result at {done.price}"
    ]


def test_audit_finds_a_charge_without_an_attempt(busy):
    done = result("COMPLETED")
    move(busy, Kind.CHARGE, -done.price, done, 2)

    assert differences() == ["entry charges an attempt that was not made"]


@pytest.mark.parametrize("payer", ["CANDIDATE", "SELF"])
def test_audit_finds_a_charge_for_a_report_of_a_payer(busy, payer):
    free = CheckResult.objects.filter(
        report__payment_mode=payer, report__status__in=["DRAFT", "PENDING_PAYMENT"]
    )[0]
    move(busy, Kind.CHARGE, -free.price, free, 1)

    assert differences() == [
        "entry charges a report that its workspace does not pay for"
    ]


def test_audit_finds_a_charge_to_another_account(busy):
    done = result("COMPLETED")
    delete_entry(done, "CHARGE")
    other = busy.workspace.accounts.get(environment="production")
    ledger.top_up(busy.workspace, "production", done.price, actor="tests", note="")
    ledger.record_movements(
        Movement(
            *(other.pk, Kind.CHARGE, -done.price, "tests"),
            *(done.report_id, done.pk, 1),
        )
    )

    assert differences() == [
        "entry charges another account or report than its result is of"
    ]


def test_audit_finds_a_charge_of_a_missing_result(busy):
    execute("DELETE FROM checks_checkresult WHERE id = %s", result("COMPLETED").pk)

    assert differences() == ["entry charges a result that does not exist"]


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
