"""The bodies that order reports, as they cross the wire.

These shapes are both what is checked and what the OpenAPI document says. Rules that
look at more than one member are in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool

from verification.consents.models import Consent
from verification.ordering import formats
from verification.reports.models import PaymentMode, SubjectType
from verification.wire import Shape

MAX_REPORTS = 500
MAX_CHECKS = 10


class Received(Shape):
    """Members go by their names on the wire alone: the rules look for no others."""

    model_config = ConfigDict(populate_by_name=False)


class SubjectInput(Received):
    """The person or company. Beyond these members, the inputs that the requested checks
    name (`requiredInputs` of a check definition) are accepted, and no others."""

    model_config = ConfigDict(extra="allow")

    subject_type: SubjectType
    full_name: formats.Name | None = None
    first_name: formats.Name | None = None
    middle_name: formats.Name | None = None
    last_name: formats.Name | None = None
    id_number: formats.Identifier | None = None
    """National ID number of a person."""
    registration_number: formats.Identifier | None = None
    """Registration number of a company."""
    email: formats.Email | None = None
    phone: formats.Phone | None = None
    date_of_birth: formats.BirthDate | None = None
    country: formats.Country = "KE"


SUBJECT_MEMBERS = frozenset(
    field.alias for field in SubjectInput.model_fields.values() if field.alias
)


class ConsentInput(Received):
    """With SERVICE_HOSTED only `mode` is sent; the rest is what a client attests."""

    mode: Consent.Mode
    obtained: StrictBool | None = None
    obtained_at: formats.PastMoment | None = None
    method: Consent.Method | None = None
    policy_version: formats.text(100) | None = None  # type: ignore[valid-type]
    evidence_reference: formats.text(200) | None = None  # type: ignore[valid-type]


class PayerInput(Received):
    """Who pays with paymentMode THIRD_PARTY: a name, and an e-mail or a phone."""

    name: formats.Name
    email: formats.Email | None = None
    phone: formats.Phone | None = None


class DraftEdit(Received):
    """Members left out stay; `subject` and `checksRequested` are replaced whole."""

    subject: SubjectInput | None = None
    checks_requested: (
        Annotated[list[str], Field(min_length=1, max_length=MAX_CHECKS)] | None
    ) = None
    purpose: formats.text(500) | None = None  # type: ignore[valid-type]
    consent: ConsentInput | None = None
    payment_mode: PaymentMode | None = None
    payer: PayerInput | None = None
    reuse: StrictBool | None = None


class ReportItem(Received):
    """One report to create."""

    subject: SubjectInput
    checks_requested: Annotated[list[str], Field(min_length=1, max_length=MAX_CHECKS)]
    """Check names, each once."""
    purpose: formats.text(500)  # type: ignore[valid-type]
    """Why the check is run, as the subject will read it."""
    consent: ConsentInput | None = None
    """May be left out when no requested check requires consent."""
    payment_mode: PaymentMode = PaymentMode.SELF
    payer: PayerInput | None = None
    """Needed with paymentMode THIRD_PARTY, refused with the others."""
    draft: StrictBool | None = None
    """Wins over the flag at the top of the body."""
    reuse: StrictBool = True
    """False: run every check anew, even where an earlier result is still fresh."""
    reference: formats.text(100) | None = None  # type: ignore[valid-type]
    """The client's own id of this report; it can be searched for."""


class ReportsRequest(Received):
    """Up to 500 reports: all of them are created, or none."""

    reports: Annotated[list[ReportItem], Field(min_length=1, max_length=MAX_REPORTS)]
    draft: StrictBool = False
    """Applies to every report that does not say it itself."""


class ReportsEnvelope(Received):
    """The request without a look into its reports, which are checked one by one."""

    reports: Annotated[list[Any], Field(min_length=1, max_length=MAX_REPORTS)]
    draft: StrictBool = False
