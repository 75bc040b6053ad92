"""Orders of the lender, their refusals, and reports in every status."""

import copy
import re
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from psycopg import ClientCursor

from tests.world.clients import HOSTED, Api, error_codes, person
from verification.db.ids import first_id_at
from verification.payments.audit import BEGINNING, END, LAST_ID, MAX_SHOWN
from verification.payments.audit_rules import ACCOUNTS, DIFFERENCES, TOUCHED
from verification.payments.models import OperatorAlert, OperatorAlertKind
from verification.reports.ends import cancel
from verification.reports.models import Report

EMPLOYMENT = {
    "employerName": "Baraka Logistics Ltd",
    "refereeName": "Amina Said",
    "refereeEmail": "amina@baraka.test",
}
PAYER = {"name": "Kilele Insurance", "email": "accounts@kilele.test"}


def with_value(item: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the item with a value at a path such as "subject/idNumber"."""
    changed = copy.deepcopy(item)
    *way, last = path.split("/")
    place: Any = changed
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return changed


def fault_codes(api: Api, *items: Any, **top: Any) -> dict[str, str]:
    """Return the error codes of a refused order by path in the item or pointer."""
    problem = api.refused("/reports", {"reports": list(items), **top})
    assert problem["code"] == "validation-failed", problem
    only = "#/reports/0/" if len(items) == 1 else "#/"
    return {at.removeprefix(only): code for at, code in error_codes(problem).items()}


def faults_of_each(api: Api, *items: Any, **top: Any) -> list[dict[str, str]]:
    """Return the error codes of every item of one refused order, by path in it."""
    problem = api.refused("/reports", {"reports": list(items), **top})
    assert problem["code"] == "validation-failed", problem
    found: list[dict[str, str]] = [{} for _ in items]
    for pointer, code in error_codes(problem).items():
        number, _, path = pointer.removeprefix("#/reports/").partition("/")
        found[int(number)][path] = code
    return found


def count_rows() -> dict[str, int]:
    """Count the rows of our tables, without counts of requests and refusals."""
    tables = {
        model._meta.label: model._meta.db_table
        for model in apps.get_models()
        if model.__module__.split(".")[0] in OURS and not model._meta.proxy
    }
    del tables["workspaces.RateCount"]
    refused = f"kind = '{OperatorAlertKind.ACCESS}'"
    conditions = {OperatorAlert._meta.label: f"WHERE NOT {refused}"}
    counts = [
        f"(SELECT count(*) FROM {table} {conditions.get(label, '')})"  # noqa: S608
        for label, table in tables.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}")
        return dict(zip(tables, cursor.fetchone(), strict=True))


OURS = {"verification", "workspaces", "webhooks", "monitoring"}


@pytest.fixture(autouse=True)
def _the_ledger_adds_up(request: pytest.FixtureRequest):
    # The rows of the test are rolled back after this.
    rows = {"workspace": "workspace", "module_transaction": "db"}
    names = [name for made, name in rows.items() if made in request.fixturenames]
    if not names:
        yield
        return
    request.getfixturevalue(names[0])
    yield
    assert find_ledger_differences() == []


def find_ledger_differences() -> list[tuple[Any, ...]]:
    """Return what the audit of the ledger finds, without its records of the walk."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM find_ledger_differences()")
        return cursor.fetchall()


def create_ledger_check() -> None:
    """Create the function of this database that compares the whole ledger.

    Planning takes ten times longer than the few rows of a test. A function keeps its
    plans, while those of a statement end with the transaction of the test.
    """
    window = {"start": BEGINNING, "stop": END, "known": [], "limit": MAX_SHOWN}
    ids = {"first": first_id_at(BEGINNING), "last": LAST_ID}
    differences = re.sub(r"%\((reports|checkouts|entries)\)s", r"\1", DIFFERENCES)
    with connection.cursor() as cursor:
        texts = ClientCursor(connection.connection)
        body = LEDGER_CHECK.format(
            touched=texts.mogrify(TOUCHED, {**window, **ids}),
            differences=texts.mogrify(differences, window),
            accounts=texts.mogrify(ACCOUNTS, {**window, "accounts": None}),
        )
        cursor.execute(body)


LEDGER_CHECK = """
CREATE FUNCTION find_ledger_differences() RETURNS TABLE (kind text, id uuid, fault text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET join_collapse_limit = 1 SET from_collapse_limit = 1
AS $$
#variable_conflict use_column
DECLARE
    reports uuid[];
    checkouts uuid[];
    entries uuid[];
BEGIN
    SELECT touched.* INTO reports, checkouts, entries FROM ({touched}) touched;
    -- Without these rows there is nothing to compare.
    IF reports || checkouts || entries <> ARRAY[]::uuid[] THEN
        RETURN QUERY {differences};
    END IF;
    RETURN QUERY {accounts};
END $$
"""


REFUSED, SLOW, CLEAR_PIN = "90000008", "90000006", "A900000000Z"
TWO = ["IDENTITY", "KRA_PIN"]
STATUSES = [
    "DRAFT",
    "PENDING_CONSENT",
    "PENDING_PAYMENT",
    "RUNNING",
    "PARTIAL on the way",
    "PARTIAL ended",
    "READY",
    "FAILED",
    "CANCELLED",
]


def two_checks(**subject: Any) -> dict[str, Any]:
    """Return an item of IDENTITY and KRA_PIN of a person, each for 50."""
    return {**person(**subject), "checksRequested": TWO}


def create_report_with_status(api: Api, status: str) -> str:
    """Lead a report to one of STATUSES by the verbs; return its id."""
    items = {
        "DRAFT": {**two_checks(), "draft": True},
        "PENDING_CONSENT": {**two_checks(), "consent": HOSTED},
        "PENDING_PAYMENT": {**two_checks(), "paymentMode": "CANDIDATE"},
        "PARTIAL on the way": two_checks(idNumber=SLOW, kraPin=CLEAR_PIN),
        "PARTIAL ended": two_checks(idNumber=REFUSED, kraPin=CLEAR_PIN),
        "FAILED": two_checks(idNumber=REFUSED),
    }
    made = api.create(items.get(status, two_checks()))
    if status == "CANCELLED":
        api.act(cancel, made["id"])
    elif status != "RUNNING":
        api.work()
    assert Report.objects.get(pk=made["id"]).status == status.split()[0]
    return made["id"]


def movements(api: Api) -> list[tuple[str, int, int]]:
    """Return (kind, amount, attempt) of the client's ledger entries, in order."""
    entries = api.account.entries.order_by("created_at", "id")
    return [(e.kind, int(e.amount), e.attempt) for e in entries]
