"""From a request to a rule, and from a rule to the report of each of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, cast

from django.utils.timezone import now
from pydantic import Field, ValidationError

from monitoring.cadences import Cadence
from monitoring.models import PauseReason, Rule
from verification.consents.models import Consent
from verification.ordering import formats
from verification.ordering.faults import Fault, InvalidRequest, shape_faults
from verification.ordering.intake import Catalogue, Order, read_order
from verification.ordering.requests import (
    MAX_CHECKS,
    ConsentInput,
    Received,
    SubjectInput,
)
from verification.reports.models import PaymentMode
from verification.reports.search import Terms
from verification.reports.subjects import Subject
from verification.wire import utc_text

PURPOSE = "Monitoring"


class RuleRequest(Received):
    """A rule to create. Its first run is made at once, and billed as every run."""

    subject: SubjectInput
    check_names: Annotated[list[str], Field(min_length=1, max_length=MAX_CHECKS)]
    """Check names, each once."""
    cadence: Cadence
    consent: ConsentInput | None = None
    """CUSTOMER_ATTESTED alone. Left out, creating the rule is the client's attestation
    that it has the subject's consent, and is recorded as that."""
    reference: formats.text(100) | None = None  # type: ignore[valid-type]
    """The client's own id of this rule; it can be searched for."""


def read_rule(
    body: Mapping[str, Any], environment: str, definitions: Catalogue
) -> tuple[RuleRequest, Order]:
    """The request and the order of its first run, or InvalidRequest."""
    request, faults = None, []
    try:
        request = RuleRequest.model_validate(body)
    except ValidationError as e:
        faults = shape_faults(e)
    told = {fault.path for fault in faults}
    order = read_order(
        _as_item(body, definitions), environment, definitions, draft=False
    )
    if not isinstance(order, Order):
        renamed = (_renamed(fault) for fault in order)
        faults += [fault for fault in renamed if fault.path not in told]
    if isinstance(consent := body.get("consent"), dict):
        faults += _hosted(consent)
    if request is None or not isinstance(order, Order) or faults:
        raise InvalidRequest(faults)
    return request, order


def order_of(rule: Rule, definitions: Catalogue) -> Order:
    """The report of the rule's next run, for today's price."""
    return Order(
        subject=Subject(rule.subject),
        definitions=[definitions[name] for name in rule.check_names],
        purpose=PURPOSE,
        consent=ConsentInput.model_validate(rule.consent) if rule.consent else None,
        payment_mode=PaymentMode.SELF.value,
        payer=None,
        draft=False,
        # What was found before is what a run is compared with.
        reuse=False,
        reference=rule.reference,
        monitoring_id=rule.pk,
    )


def describe(rule: Rule, order: Order) -> None:
    """Write the subject of the order on the rule, with what it is found by."""
    subject = order.subject
    known = subject.in_workspace(rule.workspace_id, rule.environment)
    rule.subject_id, rule.subject_type = known.id, subject.type
    rule.subject_name, rule.search_name = subject.name, subject.search_name
    rule.subject = subject.members
    terms = Terms(rule.workspace_id, rule.environment)
    rule.terms = terms.of(rule.pk, subject, rule.reference)


def attested_anew(
    rule: Rule, consent: ConsentInput | None, definitions: Catalogue
) -> dict[str, Any] | None:
    """The consent that a rule is resumed with, or InvalidRequest.

    Where the subject withdrew it must have been given after that.
    """
    if consent is None:
        return None
    if rule.pause_reason != PauseReason.CONSENT_WITHDRAWN:
        told = "The consent of this rule holds."
        raise InvalidRequest([Fault(("consent",), "not-allowed-here", told)])
    given = attestation(consent) or {}
    item = {
        "subject": rule.subject,
        "checksRequested": rule.check_names,
        "purpose": PURPOSE,
        "consent": given,
    }
    order = read_order(item, rule.environment, definitions, draft=False)
    faults = (
        [] if isinstance(order, Order) else [f for f in order if "consent" in f.path]
    )
    faults += _hosted(given)
    if not faults and _moment(given["obtainedAt"]) <= cast(datetime, rule.paused_at):
        told = "The subject withdrew after that; a later consent is needed."
        faults = [Fault(("consent", "obtainedAt"), "out-of-range", told)]
    if faults:
        raise InvalidRequest(faults)
    return given


def attestation(consent: ConsentInput | None) -> dict[str, Any] | None:
    """As it is kept: what a report's request would have."""
    if consent is None:
        return None
    return consent.model_dump(mode="json", by_alias=True, exclude_none=True)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _as_item(body: Mapping[str, Any], definitions: Catalogue) -> dict[str, Any]:
    """The request item that would order the first run."""
    item: dict[str, Any] = {"purpose": PURPOSE}
    for name, called in ITEM_MEMBERS.items():
        if name in body:
            item[called] = body[name]
    if item.get("consent") is None and _needs_consent(body, definitions):
        item["consent"] = {
            "mode": Consent.Mode.CUSTOMER_ATTESTED.value,
            "obtained": True,
            "obtainedAt": utc_text(now()),
            "method": Consent.Method.OTHER.value,
            "policyVersion": "monitoring rule",
        }
    return item


ITEM_MEMBERS = {
    "subject": "subject",
    "checkNames": "checksRequested",
    "consent": "consent",
    "reference": "reference",
}


def _needs_consent(body: Mapping[str, Any], definitions: Catalogue) -> bool:
    names = body.get("checkNames")
    if not isinstance(names, list):
        return False
    asked = (definitions.get(name) for name in names if isinstance(name, str))
    return any(definition and definition.requires_consent for definition in asked)


def _renamed(fault: Fault) -> Fault:
    first, *rest = fault.path or ("",)
    back = {called: name for name, called in ITEM_MEMBERS.items()}
    return Fault((back.get(str(first), first), *rest), fault.code, fault.detail)


def _hosted(consent: Mapping[str, Any]) -> list[Fault]:
    if consent.get("mode") != Consent.Mode.SERVICE_HOSTED:
        return []
    told = "Nobody can be asked before each run: attest that you have consent."
    return [Fault(("consent", "mode"), "not-allowed-here", told)]
