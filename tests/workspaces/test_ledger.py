from decimal import Decimal
from uuid import UUID

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils.timezone import now

from tests.world.threads import run_at_once
from verification.db.bulk_insert import insert
from verification.db.ids import uuid7
from workspaces import ledger
from workspaces.create import create_workspace
from workspaces.ledger import InsufficientBalance, Kind, Movement
from workspaces.models import Account, LedgerEntry

pytestmark = pytest.mark.django_db

PRICE = Decimal("50.00")


@pytest.fixture
def prepaid() -> Account:
    return ledger.account_of(
        create_workspace(name="Acacia", owner_email="a@acacia.test"), "production"
    )


@pytest.fixture
def postpaid() -> Account:
    workspace = create_workspace(
        name="Baobab", owner_email="b@baobab.test", billing=Account.Billing.POSTPAID
    )
    return ledger.account_of(workspace, "production")


def charge(account: Account, result_id: UUID | None = None, attempt: int = 1):
    return Movement(
        account.pk,
        Kind.CHARGE,
        -PRICE,
        "tests",
        report_id=uuid7(),
        result_id=result_id or uuid7(),
        attempt=attempt,
    )


def reversal(of: Movement, amount: Decimal = PRICE):
    return Movement(
        of.account_id, Kind.REVERSAL, amount, "tests", None, of.result_id, of.attempt
    )


def top_up(account: Account, amount: str) -> None:
    ledger.top_up(
        account.workspace, "production", Decimal(amount), actor="tests", note=""
    )


def balance(account: Account) -> Decimal:
    return Account.objects.get(pk=account.pk).balance


def test_balance_is_the_sum_of_its_entries(prepaid):
    top_up(prepaid, "120.00")
    charged = charge(prepaid)
    ledger.record_movements(charged)
    ledger.record_movements(reversal(charged))
    ledger.record_movements(charge(prepaid))

    amounts = prepaid.entries.order_by("id").values_list("amount", flat=True)
    assert list(amounts) == [120, -50, 50, -50]
    assert balance(prepaid) == 70


def test_prepaid_account_refuses_and_names_the_missing_sum(prepaid):
    top_up(prepaid, "49.99")

    with pytest.raises(InsufficientBalance, match=r"KES 50\.00 .* KES 49\.99"):
        ledger.record_movements(charge(prepaid))

    assert balance(prepaid) == Decimal("49.99")
    assert prepaid.entries.count() == 1


def test_prepaid_account_pays_with_its_credit_too(prepaid):
    Account.objects.filter(pk=prepaid.pk).update(credit_limit=60)

    ledger.record_movements(charge(prepaid))
    with pytest.raises(InsufficientBalance, match=r"has KES 10\.00"):
        ledger.record_movements(charge(prepaid))

    assert balance(prepaid) == -50


def test_postpaid_account_owes_up_to_its_ceiling(postpaid):
    Account.objects.filter(pk=postpaid.pk).update(ceiling=60)

    ledger.record_movements(charge(postpaid))
    with pytest.raises(InsufficientBalance, match=r"owes KES 50\.00, of KES 60\.00"):
        ledger.record_movements(charge(postpaid))

    assert balance(postpaid) == -50


def test_refusal_of_a_postpaid_account_with_money_speaks_of_no_debt(postpaid):
    Account.objects.filter(pk=postpaid.pk).update(ceiling=10, balance=20)

    with pytest.raises(InsufficientBalance, match=r"has KES 20\.00 and may owe KES 10"):
        ledger.record_movements(charge(postpaid))


def test_request_is_charged_as_a_whole_or_not_at_all(prepaid):
    top_up(prepaid, "100.00")

    with pytest.raises(InsufficientBalance, match=r"needs KES 150\.00"):
        ledger.record_movements(*[charge(prepaid) for _ in range(3)])

    assert balance(prepaid) == 100


def test_postpaid_account_and_play_money_never_refuse(postpaid):
    play = ledger.account_of(postpaid.workspace, "sandbox")

    ledger.record_movements(charge(postpaid), charge(play))

    assert (balance(postpaid), balance(play)) == (-50, -50)


def test_overdrawn_account_takes_a_reversal(postpaid):
    charged = charge(postpaid)
    ledger.record_movements(charged, charge(postpaid))

    ledger.record_movements(reversal(charged))

    assert balance(postpaid) == -50


@pytest.mark.django_db(transaction=True)
def test_money_for_5_pays_5_of_15_concurrent_charges(prepaid):
    top_up(prepaid, "250.00")

    outcomes = run_at_once(15, lambda _: ledger.record_movements(charge(prepaid)))

    refused = [o for o in outcomes if isinstance(o, InsufficientBalance)]
    assert outcomes.count(None) == 5
    assert len(refused) == 10
    assert balance(prepaid) == 0
    assert prepaid.entries.filter(kind=Kind.CHARGE).count() == 5


@pytest.mark.django_db(transaction=True)
def test_concurrent_movements_of_two_accounts_do_not_deadlock(prepaid, postpaid):
    top_up(prepaid, "1000.00")

    def both(number: int) -> None:
        pair = [charge(prepaid), charge(postpaid)]
        ledger.record_movements(*(pair if number % 2 else reversed(pair)))

    assert run_at_once(10, both) == [None] * 10
    assert (balance(prepaid), balance(postpaid)) == (500, -500)


@pytest.mark.parametrize("kind", [Kind.CHARGE, Kind.REVERSAL])
def test_result_is_charged_and_reversed_once_an_attempt(postpaid, kind):
    charged = charge(postpaid)
    moved = charged if kind == Kind.CHARGE else reversal(charged)
    ledger.record_movements(moved)

    with pytest.raises(IntegrityError, match="charged_and_reversed_once"):
        ledger.record_movements(moved)

    assert postpaid.entries.count() == 1


def test_each_attempt_is_charged(postpaid):
    first = charge(postpaid)
    ledger.record_movements(first)

    ledger.record_movements(charge(postpaid, first.result_id, attempt=2))

    assert balance(postpaid) == -100


@pytest.mark.parametrize(
    ("kind", "amount"),
    [
        (Kind.CHARGE, "50"),
        (Kind.CHARGE, "0"),
        (Kind.REVERSAL, "-50"),
        (Kind.TOP_UP, "-1"),
        (Kind.TOP_UP, "0"),
    ],
)
def test_charges_are_negative_and_reversals_positive(postpaid, kind, amount):
    wrong = Movement(
        postpaid.pk, kind, Decimal(amount), "tests", uuid7(), uuid7(), attempt=1
    )
    with pytest.raises(IntegrityError, match="charges_take_and_reversals_give"):
        insert(ledger.entries([wrong], now()))


@pytest.mark.parametrize("missing", ["result_id", "attempt"])
def test_charge_names_its_result_and_attempt(postpaid, missing):
    named = {"result_id": uuid7(), "attempt": 1, missing: None}
    with pytest.raises(IntegrityError, match="name_their_result"):
        ledger.record_movements(
            Movement(postpaid.pk, Kind.CHARGE, -PRICE, "tests", **named)
        )


def test_checkout_tops_up_once(prepaid):
    paid = uuid7()
    topped_up = Movement(prepaid.pk, Kind.TOP_UP, Decimal(5), "tests", checkout_id=paid)
    ledger.record_movements(topped_up)

    with pytest.raises(IntegrityError, match="a_checkout_tops_up_once"):
        ledger.record_movements(topped_up)

    assert balance(prepaid) == 5


def test_checkout_can_be_taken_back_in_parts(prepaid):
    paid = uuid7()
    for kind, amount in [("TOP_UP", 5), ("ADJUSTMENT", -2), ("ADJUSTMENT", -3)]:
        ledger.record_movements(
            Movement(prepaid.pk, Kind(kind), Decimal(amount), "tests", checkout_id=paid)
        )

    assert balance(prepaid) == 0


def test_charge_names_no_checkout(postpaid):
    charged = charge(postpaid)._replace(checkout_id=uuid7())

    with pytest.raises(IntegrityError, match="adjustments_name_a_checkout"):
        ledger.record_movements(charged)


IMPOSSIBLE = [
    ({"balance": -1}, "prepaid_is_never_overdrawn"),
    ({"credit_limit": -1}, "credit_limit_is_not_negative"),
    ({"ceiling": -1}, "ceiling_is_not_negative"),
    (
        {"billing": "POSTPAID", "ceiling": 5, "balance": -6},
        "postpaid_stays_below_its_ceiling",
    ),
    ({"billing": "PLAY"}, "play_money_is_for_the_sandbox"),
    ({"environment": "sandbox"}, "play_money_is_for_the_sandbox"),
]


def test_database_refuses_an_impossible_account(prepaid):
    for changes, rule in IMPOSSIBLE:
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            Account.objects.filter(pk=prepaid.pk).update(**changes)


def test_workspace_has_one_account_an_environment(prepaid):
    with pytest.raises(IntegrityError, match="one_account_an_environment"):
        Account.objects.create(
            workspace=prepaid.workspace, environment="production", billing="POSTPAID"
        )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workspaces_ledgerentry SET note = 'changed'",
        "DELETE FROM workspaces_ledgerentry",
        "TRUNCATE workspaces_ledgerentry",
        "TRUNCATE workspaces_account CASCADE",
    ],
)
def test_database_refuses_changes_of_entries(prepaid, statement):
    top_up(prepaid, "10.00")

    with pytest.raises(DatabaseError, match="ledgerentry is append-only"):
        execute(statement)

    assert LedgerEntry.objects.get().note == ""


@transaction.atomic
def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        # The rows that the test itself has made would be in the way of TRUNCATE.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statement)
