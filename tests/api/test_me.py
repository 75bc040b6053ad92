"""`GET /me` and `GET /balance`."""

from decimal import Decimal

import pytest

from tests.reports.test_statement_counts import cost
from tests.world.clients import Api
from verification import __version__
from workspaces.models import Account

pytestmark = pytest.mark.django_db(transaction=True)


def test_me_tells_what_the_key_may_do(api: Api):
    scopes = ["reports:create", "reports:read"]
    key = Api(api.workspace, "sandbox", scopes=scopes)

    assert key.get("/me").json() == {
        "workspace": {"id": str(api.workspace.pk), "name": "Acacia Lenders"},
        "environment": "sandbox",
        "key": {
            "id": str(key.key.pk),
            "name": "tests",
            "expiresAt": None,
            "networks": [],
        },
        "scopes": scopes,
        "limits": {
            "requestsPerMinute": 3000,
            "createsPerMinute": 600,
            "exportsPerMinute": 10,
            "reportsPerRequest": 500,
            "checksPerReport": 10,
            "bodyBytes": 2 * 1024 * 1024,
        },
        "version": __version__,
    }


def test_me_needs_no_scope_and_tells_the_environment(live_api: Api):
    key = Api(live_api.workspace, "production", scopes=[])

    answer = key.get("/me")

    assert answer.status_code == 200
    assert answer.json()["environment"] == "production"


@pytest.mark.parametrize(
    ("account", "limit", "available"),
    [
        ({"billing": "PREPAID", "credit_limit": 500}, 500.0, 600.5),
        ({"billing": "POSTPAID", "ceiling": 1000}, 1000.0, 1100.5),
        ({"billing": "POSTPAID", "ceiling": None}, None, None),
    ],
)
def test_balance_tells_mode_limit_and_what_is_left(
    live_api: Api, account: dict, limit: float | None, available: float | None
):
    rows = Account.objects.filter(pk=live_api.account.pk)
    rows.update(balance=Decimal("100.50"), **account)

    def money(amount: float | None) -> dict | None:
        return None if amount is None else {"amount": amount, "currency": "KES"}

    assert live_api.get("/balance").json() == {
        "mode": account["billing"],
        "balance": money(100.5),
        "limit": money(limit),
        "available": money(available),
    }


def test_balance_needs_the_scope_to_read_reports(api: Api):
    key = Api(api.workspace, "sandbox", scopes=["reports:create"])

    assert key.get("/balance").json()["requiredScope"] == "reports:read"


@pytest.mark.parametrize("path", ["/me", "/balance"])
def test_key_and_balance_cost_two_statements(api: Api, path: str):
    api.get(path)

    assert cost(lambda: api.get(path)) == 2
