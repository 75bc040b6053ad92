"""The catalogue and the sandbox's subjects as the API shows them."""

from __future__ import annotations

from typing import Literal, Self
from uuid import UUID

from pydantic import ConfigDict

from verification.api.query import PageEnvelope
from verification.checks.models import CheckDefinition
from verification.providers.registry import recipient, sources_of
from verification.reports.models import SubjectType
from verification.reports.request import no_source_reason
from verification.settings.providers import HOME_COUNTRY
from verification.sources.health import Availability, availability
from verification.values import formats
from verification.values.wire import Money, Shape


class RequiredInput(Shape):
    """A member of the subject that the check uses."""

    model_config = ConfigDict(extra="ignore")

    key: str
    label: str
    type: str
    """TEXT, EMAIL, PHONE, DATE, NUMBER or COUNTRY."""
    required: bool
    description: str


class RetryPolicy(Shape):
    """Exponential with full jitter: how often a source that is down is asked again."""

    max_attempts: int
    initial_delay_seconds: float
    backoff_multiplier: float
    max_delay_seconds: float


class AvailabilityBody(Shape):
    """The present state of the check's source, with its figures of the last hour.

    Sandbox checks are always AVAILABLE.
    """

    status: Literal["AVAILABLE", "DEGRADED", "UNAVAILABLE"]
    """DEGRADED: the source often gives no answer, or another source stands in for it.
    UNAVAILABLE: the service asks no source at present. Checks wait, and fail if that
    lasts."""
    success_rate: float | None
    """The share of calls that were answered, 0 to 1; null without any."""
    median_ms: int | None
    """Half of the answers came within this time."""
    p95_ms: int | None
    """95 of 100 answers came within this time."""

    @classmethod
    def of(cls, found: Availability) -> Self:
        return cls(
            status=found.status,
            success_rate=found.success_rate,
            median_ms=found.median_ms,
            p95_ms=found.slow_ms,
        )


class RecipientBody(Shape):
    """Who receives a subject's details when the check is made in production."""

    name: str
    country: str | None
    """ISO 3166-1 alpha-2."""


class CheckDefinitionQuery(Shape):
    country: formats.Country = HOME_COUNTRY
    """The country of the subjects that `available` and `availability` are told for."""


class CheckDefinitionBody(Shape):
    id: UUID
    name: str
    display_name: str
    category: str
    description: str
    subject_types: list[SubjectType]
    active: bool
    available: bool
    """Whether it can be ordered. Orders of one that cannot are refused with
    `inactive-check`, or `check-not-available` where this installation has no source for
    it in the key's environment, about subjects of `country`."""
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
    """Every source that may be asked, whatever the subject's country. A notice of your
    own, on which you attest consent, has to name them; a referee is asked besides."""

    @classmethod
    def of(cls, definition: CheckDefinition, environment: str, country: str) -> Self:
        why = (
            no_source_reason(definition.name, environment, country)
            if definition.active
            else f"{definition.name} is not offered at present."
        )
        return cls(
            id=definition.pk,
            name=definition.name,
            display_name=definition.display_name,
            category=definition.category,
            description=definition.description,
            subject_types=[SubjectType(kind) for kind in definition.subject_types],
            active=definition.active,
            available=not why,
            unavailable_reason=why or None,
            requires_consent=definition.requires_consent,
            price=Money(amount=definition.price, currency=definition.currency),
            required_inputs=[RequiredInput(**i) for i in definition.required_inputs],
            output_fields=definition.output_fields,
            flag_codes=definition.flag_codes,
            freshness_days=definition.freshness_days,
            retry_policy=RetryPolicy(**definition.retry_policy),
            availability=AvailabilityBody.of(
                availability(definition.name, environment, country)
            ),
            recipients=[
                RecipientBody(name=one.name, country=one.country_code or None)
                for source in sources_of(definition.name)
                if (one := recipient(source, definition.name, "en"))
            ],
        )


class ReservedSubject(Shape):
    """Numbers that decide how a sandbox check ends."""

    id_number: str
    kra_pin: str
    registration_number: str
    outcome: str
    description: str


class CheckDefinitionPage(PageEnvelope):
    """The checks that are offered, on one page."""

    content: list[CheckDefinitionBody]


class ReservedSubjectPage(PageEnvelope):
    """The reserved numbers of the sandbox, on one page."""

    content: list[ReservedSubject]
