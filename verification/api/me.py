"""The API key of a request, and the balance of its workspace, over HTTP."""

from decimal import Decimal
from typing import Annotated, Self
from uuid import UUID

from django.conf import settings
from rest_framework.request import Request

from verification.api.authentication import EXPORTS_PER_MINUTE, key_of
from verification.api.operations import OperationViewSet, operation
from verification.checks.models import MAX_CHECKS
from verification.reports.request import MAX_REPORTS
from verification.values.shapes import Money, Shape, Timestamp, enumeration
from workspaces.models import Account, Environment, Scope


class MyWorkspace(Shape):
    id: UUID
    name: str


class MyKey(Shape):
    id: UUID
    name: str
    expires_at: Timestamp | None
    networks: list[str]
    """The networks in which it works. An empty list means everywhere."""


class Limits(Shape):
    """Limits of a request, and of the requests of a key in one minute."""

    requests_per_minute: int
    """Requests that create no reports."""
    creates_per_minute: int
    """Requests that create reports. One with many checks counts more than once."""
    exports_per_minute: int
    reports_per_request: int
    checks_per_report: int
    body_bytes: int
    """The largest body of a request."""


class Me(Shape):
    """The API key of the request, and the workspace that it belongs to."""

    workspace: MyWorkspace
    environment: Environment
    key: MyKey
    scopes: list[Annotated[str, enumeration("Scope", Scope.values)]]
    limits: Limits
    version: str
    """The version of the service, which is also `info.version` of this document."""


class Balance(Shape):
    """The money of the workspace in the key's environment."""

    mode: Annotated[str, enumeration("BillingMode", Account.Billing.values)]
    """PREPAID: orders are refused when balance and credit are used up. POSTPAID: the
    workspace pays afterwards. PLAY: the sandbox's play money."""
    balance: Money
    """Negative if the workspace owes."""
    limit: Money | None
    """How far below zero the balance may go. null means any amount."""
    available: Money | None
    """The highest price of another order. null means any amount."""

    @classmethod
    def of(cls, account: Account) -> Self:
        limit, available = account.limit, account.spendable

        def money(amount: Decimal) -> Money:
            return Money(amount=amount, currency=account.currency)

        return cls(
            mode=account.billing,
            balance=money(account.balance),
            limit=None if limit is None else money(limit),
            available=None if available is None else money(available),
        )


class MeViewSet(OperationViewSet):
    @operation("getMe", "Get the key", scope=None)
    def retrieve(self, request: Request) -> Me:
        """Get the workspace, environment, scopes and limits of the API key."""
        key, workspace = key_of(request), self.client.workspace
        exports = min(EXPORTS_PER_MINUTE, key.requests_per_minute)
        return Me(
            workspace=MyWorkspace(id=workspace.pk, name=workspace.name),
            environment=Environment(self.client.environment),
            key=MyKey.from_row(key),
            scopes=key.scopes,
            limits=Limits(
                requests_per_minute=key.requests_per_minute,
                creates_per_minute=key.creates_per_minute,
                exports_per_minute=exports,
                reports_per_request=MAX_REPORTS,
                checks_per_report=MAX_CHECKS,
                body_bytes=settings.MAX_BODY_BYTES,
            ),
            version=settings.VERSION,
        )


class BalanceViewSet(OperationViewSet):
    @operation("getBalance", "Get the balance", scope=Scope.REPORTS_READ)
    def retrieve(self, request: Request) -> Balance:
        """Get the balance of the workspace, and the amount that it can still spend."""
        return Balance.of(self.client.account)
