"""Checks, packages of checks, and the sandbox's reserved subjects, over HTTP."""

from enum import StrEnum
from typing import Annotated, Any, Self, get_args
from uuid import UUID

from django.http import Http404
from pydantic import ConfigDict
from rest_framework.request import Request

from verification.api.content import PageQuery, PageSize
from verification.api.operations import OperationViewSet, PageEnvelope, operation
from verification.checks.catalogue import CheckName
from verification.checks.models import CheckDefinition, CheckPackage
from verification.providers.registry import recipient, sources_of
from verification.reports.models import SubjectType
from verification.reports.pricing import price_of_package
from verification.reports.request import Catalogue, catalogue, no_source_reason
from verification.settings.providers import HOME_COUNTRY
from verification.sources.health import Health, Status, availability
from verification.values import formats
from verification.values.shapes import CURRENCY, Money, Shape, enumeration


class RequiredInput(Shape):
    """A member of the subject that the check uses."""

    model_config = ConfigDict(extra="ignore")

    key: str
    label: str
    type: str
    """TEXT, EMAIL, PHONE, DATE, NUMBER or COUNTRY."""
    required: bool
    """Whether every subject needs it."""
    required_for: list[SubjectType]
    """The subject types that need it."""
    required_unless: str | None
    """Another member that does in its place, where these subject types need one."""
    description: str

    @classmethod
    def of(cls, entry: dict[str, Any], definition: CheckDefinition) -> Self:
        always = definition.subject_types if entry["required"] else ()
        return cls(
            **entry,
            required_for=entry.get("requiredFor", always),
            required_unless=entry.get("unless"),
        )


class RetryPolicy(Shape):
    """The schedule of calls to a source that is down: exponential, with full jitter."""

    max_attempts: int
    initial_delay_seconds: float
    backoff_multiplier: float
    max_delay_seconds: float


class AvailabilityBody(Shape):
    """The present state of the check's source, with its figures of the last hour.

    Sandbox checks are always AVAILABLE.
    """

    status: Annotated[Status, enumeration("AvailabilityStatus", get_args(Status))]
    """DEGRADED: the source often gives no answer, has not answered since a rest, or
    another source stands in for it. UNAVAILABLE: the service calls no source at
    present. Checks wait, and fail if that lasts."""
    success_rate: float | None
    """The share of calls that were answered, 0 to 1; null without calls."""
    median_ms: int | None
    """The time within which half of the answers came."""
    p95_ms: int | None
    """The time within which 95 of 100 answers came."""

    @classmethod
    def of(cls, status: Status, health: Health) -> Self:
        return cls(
            status=status,
            success_rate=health.success_rate,
            median_ms=health.median_ms,
            p95_ms=health.slow_ms,
        )


class RecipientBody(Shape):
    """A company that receives the subject's details in production."""

    name: str
    country: str | None
    """ISO 3166-1 alpha-2."""


class CheckDefinitionQuery(Shape):
    country: formats.Country = HOME_COUNTRY
    """The subject's country, on which `available` and `availability` depend."""


class CheckListQuery(CheckDefinitionQuery, PageQuery):
    pass


class PackageQuery(CheckDefinitionQuery, PageQuery):
    size: PageSize = 200
    """The most items on a page."""


def unavailable_reason(
    definition: CheckDefinition | None, name: str, environment: str, country: str
) -> str | None:
    """Return why a check cannot be ordered, or None if it can."""
    if definition is None or not definition.active:
        return f"{name} is not offered at present."
    return no_source_reason(name, environment, country) or None


class CheckDefinitionBody(Shape):
    id: UUID
    name: CheckName
    display_name: str
    category: str
    description: str
    subject_types: list[SubjectType]
    active: bool
    available: bool
    """Whether it can be ordered. Otherwise orders are refused with `inactive-check`, or
    with `check-not-available` if this installation has no source for it in the key's
    environment and for subjects of `country`."""
    unavailable_reason: str | None
    requires_consent: bool
    price: Money
    required_inputs: list[RequiredInput]
    output_fields: list[str]
    flag_codes: list[str]
    """The codes that flags of this check can have."""
    freshness_days: int
    retry_policy: RetryPolicy
    availability: AvailabilityBody
    recipients: list[RecipientBody]
    """Every source that the service may call, for subjects of any country. A notice of
    your own, on which you attest consent, must name them, and the referee, if any."""

    @classmethod
    def of(cls, definition: CheckDefinition, environment: str, country: str) -> Self:
        why = unavailable_reason(definition, definition.name, environment, country)
        return cls.from_row(
            definition,
            available=why is None,
            unavailable_reason=why,
            price=Money(amount=definition.price, currency=definition.currency),
            required_inputs=[
                RequiredInput.of(entry, definition)
                for entry in definition.required_inputs
            ],
            retry_policy=RetryPolicy(**definition.retry_policy),
            availability=AvailabilityBody.of(
                *availability(definition.name, environment, country)
            ),
            recipients=[
                RecipientBody(name=one.name, country=one.country_code or None)
                for source in sources_of(definition.name)
                if (one := recipient(source.name, definition.name, "en"))
            ],
        )


class PackageOwner(StrEnum):
    OPERATOR = "OPERATOR"
    WORKSPACE = "WORKSPACE"


class PackageBody(Shape):
    """A named set of checks, which a report can order in place of single checks."""

    id: UUID
    name: str
    """The value of `package` in an order. It never changes."""
    display_name: str
    owner: PackageOwner
    """OPERATOR: everybody's. WORKSPACE: your own, which your members edit."""
    checks: list[CheckName]
    """The checks that an order has today, in this order."""
    subject_types: list[SubjectType]
    """The subject types that all its checks accept."""
    requires_consent: bool
    price: Money
    """The price of a report, if no earlier result is reused."""
    available: bool
    """Whether it can be ordered. Otherwise a check is withdrawn, or this installation
    has no source for one in the key's environment and for subjects of `country`."""
    unavailable_reason: str | None

    @classmethod
    def of(
        cls,
        package: CheckPackage,
        definitions: Catalogue,
        environment: str,
        country: str,
    ) -> Self:
        known = [definitions[name] for name in package.checks if name in definitions]
        reasons = (
            unavailable_reason(definitions.get(name), name, environment, country)
            for name in package.checks
        )
        why = next(filter(None, reasons), None)
        is_of_operator = package.is_of_operator
        return cls.from_row(
            package,
            owner=PackageOwner.OPERATOR if is_of_operator else PackageOwner.WORKSPACE,
            subject_types=[
                kind
                for kind in SubjectType
                if all(kind in definition.subject_types for definition in known)
            ],
            requires_consent=any(definition.requires_consent for definition in known),
            price=Money(
                amount=price_of_package(package, definitions), currency=CURRENCY
            ),
            available=why is None,
            unavailable_reason=why,
        )


class CheckDefinitionPage(PageEnvelope):
    """One page of the checks on offer."""

    content: list[CheckDefinitionBody]


class PackagePage(PageEnvelope):
    """One page of the packages on offer."""

    content: list[PackageBody]


class CheckDefinitionViewSet(OperationViewSet):
    """The checks that can be requested."""

    lookup_url_kwarg = "checkName"
    lookup_value_converter = "str"
    lookup_description = "The name of the check, such as KRA_PIN."

    @operation(
        "listCheckDefinitions",
        "List the checks on offer",
        scope=None,
        query=CheckListQuery,
        answer=CheckDefinitionPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List the checks that are offered, with their prices and inputs."""
        offered = CheckDefinition.objects.filter(active=True)
        return self.page_of([self._definition_body(each) for each in offered])

    @operation(
        "getCheckDefinition",
        "Get a check definition",
        scope=None,
        query=CheckDefinitionQuery,
    )
    def retrieve(self, request: Request, checkName: str) -> CheckDefinitionBody:
        """Get one check: its subjects, inputs, price and answers."""
        definition = CheckDefinition.objects.filter(name=checkName).first()
        if definition is None:
            raise Http404
        return self._definition_body(definition)

    def _definition_body(self, definition: CheckDefinition) -> CheckDefinitionBody:
        return CheckDefinitionBody.of(
            definition, self.client.environment, self.query.country
        )


class PackageViewSet(OperationViewSet):
    """The packages that can be ordered."""

    @operation(
        "listPackages",
        "List the packages on offer",
        scope=None,
        query=PackageQuery,
        answer=PackagePage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List the operator's and your own packages that are active, by name."""
        offered = CheckPackage.objects.known_to(self.client.workspace.pk)
        definitions, where = catalogue(), self.client.environment
        content = [
            PackageBody.of(package, definitions, where, self.query.country)
            for package in offered.filter(active=True)
        ]
        return self.page_of(content)
