"""The number of SQL statements of a request does not grow with its size.

The tests count Django's log of statements, with BEGIN, COMMIT and each COPY.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.world.clients import ATTESTED, HOSTED, Api, person
from tests.world.orders import create_report_with_status, two_checks
from tests.world.packages import by_package, create_package
from verification.checks.models import CheckDefinition

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def warm(api: Api) -> Api:
    """Return a client in a process whose caches are warm."""
    api.post("/reports/quote", {"reports": [person()]})
    return api


@contextmanager
def statements() -> Iterator[list[str]]:
    seen: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield seen
    seen += [query["sql"] for query in captured.captured_queries]


def order(api: Api, *items: dict[str, Any]) -> None:
    assert api.post("/reports", {"reports": items}).status_code == 201


def read(api: Api, report_id: str) -> None:
    assert api.get(f"/reports/{report_id}").status_code == 200


def cost(do: Callable[[], object]) -> int:
    with statements() as seen:
        do()
    return len(seen)


@pytest.mark.parametrize(
    ("headers", "consent"),
    [({}, ATTESTED), ({}, HOSTED), ({"Idempotency_Key": "k-1"}, HOSTED)],
)
def test_report_costs_few_statements(warm: Api, headers, consent):
    body = {"reports": [{**person(), "consent": consent}]}

    with statements() as seen:
        assert warm.post("/reports", body, **headers).status_code == 201

    most = 14 if headers else 6 + (consent == HOSTED)
    assert len(seen) <= most, "\n".join(sql[:100] for sql in seen)
    assert seen.count("BEGIN") == seen.count("COMMIT") == bool(headers)


def test_report_without_key_is_written_by_one_statement(warm: Api):
    with statements() as seen:
        order(warm, person())

    writes = [sql for sql in seen if "INSERT" in sql or "UPDATE" in sql]
    counted, written = writes
    assert "workspaces_ratecount" in counted
    assert "reports_report" in written
    assert "workspaces_account" in written
    # A notification calls the workers after the commit.
    assert seen.index(written) < len(seen) - 1
    assert "pg_notify" in seen[-1]


def test_billing_adds_no_statement(warm: Api):
    def create() -> int:
        # Checks without reuse have their full price.
        return cost(lambda: order(warm, {**person(), "reuse": False}))

    create()
    billed = create()
    charged = warm.account.balance
    CheckDefinition.objects.update(price=0)
    create()
    unbilled = create()

    assert warm.account.balance == charged < 0
    assert billed == unbilled


def test_package_costs_one_statement_however_many_name_it(warm: Api):
    create_package()

    def create(*items: dict) -> int:
        return cost(lambda: order(warm, *items))

    by_checks = [{**person(), "reuse": False}] * 2
    by_name = [{**by_package(), "reuse": False}] * 2
    create(*by_checks)

    # The statement finds the packages; there is none if no item names one.
    assert create(*by_checks) + 1 == create(*by_name)
    assert create(by_checks[0]) + 1 == create(by_name[0])


def test_batch_of_500_costs_no_more_than_one_of_40(warm: Api):
    costs = [
        cost(lambda n=n: order(warm, *[person(idNumber=str(i)) for i in range(n)]))
        for n in (40, 500)
    ]

    # The further statement counts the checks above 100 as further requests.
    assert costs[0] == costs[1] <= 20


def test_refused_batch_costs_one_statement_more_than_a_refused_report(warm: Api):
    wrong = {**person(), "purpose": ""}

    one = cost(lambda: warm.refused("/reports", {"reports": [wrong]}))
    many = cost(lambda: warm.refused("/reports", {"reports": [wrong] * 500}))

    # The further statement counts the checks above 100 as further requests.
    assert one + 1 == many <= 6


def test_quote_of_500_costs_one_statement_more_than_of_one(warm: Api):
    def quote(count: int) -> int:
        body = {"reports": [person(idNumber=str(n)) for n in range(count)]}
        return cost(lambda: warm.post("/reports/quote", body))

    # The further statement counts the checks above 100 as further requests.
    assert quote(1) + 1 == quote(500) <= 6


def test_list_of_59_costs_the_same_as_of_one(warm: Api):
    def listed(size: int) -> int:
        return cost(lambda: warm.get("/reports", size=size))

    warm.create(*[person()] * 60)
    # The first page of a day counts the reports of past days, for the whole day.
    listed(1)

    assert listed(1) == listed(59) <= 6


@pytest.mark.parametrize("status", ["READY", "DRAFT", "PENDING_PAYMENT"])
def test_report_is_read_in_few_statements(warm: Api, status: str):
    report_id = create_report_with_status(warm, status)
    # The first read is recorded as a disclosure.
    read(warm, report_id)

    assert cost(lambda: read(warm, report_id)) <= 6


def test_report_with_many_checks_is_read_as_cheaply(warm: Api):
    few = warm.create({**person(), "checksRequested": ["IDENTITY"]})
    six = ["IDENTITY", "KRA_PIN", "CRB_SCORE", "CRB_FULL", "CRB_STANDARD"]
    many = warm.create({**person(), "checksRequested": six})
    warm.work()

    costs = [cost(lambda made=made: read(warm, made["id"])) for made in (few, many)]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("verb", "status"),
    [("launch", "DRAFT"), ("cancel", "RUNNING"), ("retry", "FAILED")],
)
def test_verb_costs_few_statements(warm: Api, verb: str, status: str):
    report_id = create_report_with_status(warm, status)

    with statements() as seen:
        assert warm.post(f"/reports/{report_id}/{verb}").status_code == 200

    assert len(seen) <= 20, "\n".join(sql[:100] for sql in seen)


def test_edit_costs_few_statements(warm: Api):
    made = warm.create({**two_checks(), "consent": HOSTED}, draft=True)
    body = {"subject": person(idNumber="7")["subject"], "paymentMode": "CANDIDATE"}

    with statements() as seen:
        answer = warm.post(f"/reports/{made['id']}/draft", body)
        assert answer.status_code == 200

    assert len(seen) <= 30, "\n".join(sql[:100] for sql in seen)
