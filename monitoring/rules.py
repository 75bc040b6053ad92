"""Make a rule from a request, and the order of each run from its rule."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import F
from pydantic import ConfigDict, ValidationError

from monitoring.models import Cadence, Rule
from verification.checks.models import CheckPackage, CheckResult
from verification.checks.packages import NO_PACKAGES, Packages
from verification.consents.models import Consent
from verification.providers.registry import REFEREE_CHECK
from verification.references.models import Reference, ReferenceStatus
from verification.reports.models import PaymentMode, Subject
from verification.reports.objections import objections_of
from verification.reports.pricing import check_prices
from verification.reports.queries import Terms
from verification.reports.request import (
    Catalogue,
    CheckNames,
    ConsentInput,
    Fault,
    InvalidRequest,
    Order,
    PackageName,
    RequestShape,
    RuleContext,
    SubjectInput,
    find_faults,
    needs_checks,
    read_order,
    shape_faults,
)
from verification.values import formats
from verification.values.clock import now
from verification.values.local_time import utc_text

PURPOSE = "Monitoring"
# A member of the rule's request -> the member of a report's request.
ITEM_MEMBERS = {
    "subject": "subject",
    "checkNames": "checksRequested",
    "package": "package",
    "consent": "consent",
    "reference": "reference",
}
# Codes of the faults that keep a rule from running.
BLOCKING_FAULTS = {
    "unknown-check",
    "inactive-check",
    "check-not-available",
    "subject-type-not-accepted",
    "missing-input",
}


class RuleRequest(RequestShape):
    """A rule to create. Its first run is made at once, and billed as every run."""

    model_config = ConfigDict(json_schema_extra=needs_checks("checkNames"))

    subject: SubjectInput
    check_names: CheckNames | None = None
    """Check names, each once. Needed unless `package` names the checks."""
    package: PackageName | None = None
    """The name of a package. The rule keeps the checks that it has now."""
    cadence: Cadence
    consent: ConsentInput | None = None
    """CUSTOMER_ATTESTED alone. Left out, creating the rule is the client's attestation
    that it has the subject's consent, and is recorded as that."""
    reference: formats.text(100) | None = None  # type: ignore[valid-type]
    """The client's own id of this rule; it can be searched for."""


def read_rule(
    body: Mapping[str, Any],
    environment: str,
    definitions: Catalogue,
    packages: Packages = NO_PACKAGES,
) -> tuple[RuleRequest, Order]:
    """Return the request and the order of its first run, or raise InvalidRequest."""
    request, faults = None, []
    try:
        request = RuleRequest.model_validate(body)
    except ValidationError as e:
        faults = shape_faults(e)
    paths = {fault.path for fault in faults}
    item = _report_item(body, definitions, packages)
    order = read_order(item, RuleContext(definitions, environment, packages))
    if not isinstance(order, Order):
        renamed = (_rename_path(fault) for fault in order)
        faults += [fault for fault in renamed if fault.path not in paths]
    if isinstance(consent := body.get("consent"), dict):
        faults += _hosted_consent_faults(consent)
    if request is None or not isinstance(order, Order) or faults:
        raise InvalidRequest(faults)
    return request, order


def order_of(rule: Rule, definitions: Catalogue, package: CheckPackage | None) -> Order:
    """Return the order of the rule's next run, at today's price.

    `package` is the present one of the rule, whose price holds while it has the same
    checks as the rule.
    """
    checks = [definitions[name] for name in rule.check_names]
    return Order(
        subject=Subject(rule.subject),
        definitions=[check for check in checks if check.name != rule.left_out],
        sharing=checks,
        purpose=PURPOSE,
        consent=_consent_of(rule, definitions),
        payment_mode=PaymentMode.SELF.value,
        payer=None,
        draft=False,
        # No reuse of earlier findings, because a run is compared with them.
        reuse=False,
        reference=rule.reference,
        monitoring_id=rule.pk,
        package=package,
    )


def price_of(
    rule: Rule, definitions: Catalogue, package: CheckPackage | None
) -> Decimal:
    """Return today's price of a run. The rule must be able to run."""
    checks = [definitions[name] for name in rule.check_names]
    prices = zip(rule.check_names, check_prices(checks, package), strict=True)
    return sum((price for name, price in prices if name != rule.left_out), Decimal(0))


def leave_out_referees(rules: Iterable[Rule]) -> set[UUID]:
    """Leave the check of a referee who has not answered out of the rules' next runs.

    A referee may answer weeks later, and gets one question at a time. Returns the ids
    of the rules whose last run waits for other checks.
    """
    rule_id, by_id = "report__monitoring_run__rule", {rule.pk: rule for rule in rules}
    asked = Reference.objects.filter(
        report__monitoring_run__rule__in=list(by_id), status=ReferenceStatus.PENDING
    )
    waiting = dict(asked.values_list("result_id", rule_id))
    for asking in waiting.values():
        by_id[asking].left_out = REFEREE_CHECK
    last = CheckResult.objects.filter(
        report__monitoring_run__rule__in=list(by_id),
        report__monitoring_run__number=F("report__monitoring_run__rule__runs_made"),
        report__completed_at=None,
        completed_at=None,
    )
    return {*last.exclude(pk__in=waiting).values_list(rule_id, flat=True)}


def find_run_obstacle(rule: Rule, definitions: Catalogue) -> str:
    """Return why the rule's checks cannot be ordered today, or "" if they can.

    Definitions change: a check may be withdrawn, or need an input that the rule lacks.
    """
    item = {"subject": rule.subject, "checksRequested": rule.check_names}
    context = RuleContext(definitions, rule.environment, draft=True)
    faults = find_faults(item, context)
    return next((f.detail for f in faults if f.code in BLOCKING_FAULTS), "")


def _consent_of(rule: Rule, definitions: Catalogue) -> ConsentInput | None:
    if rule.consent:
        return ConsentInput.model_validate(rule.consent)
    if any(definitions[name].requires_consent for name in rule.check_names):
        # No check needed consent when the rule was made, but the request attested it.
        return ConsentInput.model_validate(_implied_attestation(rule.created_at))
    return None


def set_subject(rule: Rule, subject: Subject) -> None:
    """Write the subject on the rule, with its search terms."""
    known = subject.in_workspace(rule.workspace_id, rule.environment, rule.pk)
    rule.subject_id, rule.subject_type = known.id, subject.type
    rule.subject_name, rule.search_name = subject.name, subject.search_name
    rule.subject = subject.members
    set_terms(rule, subject)


def set_terms(rule: Rule, subject: Subject) -> None:
    """Write the search terms of the rule: of its subject and reference."""
    terms = Terms(rule.workspace_id, rule.environment)
    rule.terms = terms.of(rule.pk, subject, rule.reference)


def read_new_attestation(
    rule: Rule, consent: ConsentInput, definitions: Catalogue
) -> dict[str, Any]:
    """Return the consent for resuming a locked rule, or raise InvalidRequest.

    The subject must have withdrawn, and given this consent later.
    """
    withdrawn_at = rule.consent_withdrawn_at
    if withdrawn_at is None:
        detail = "The consent of this rule holds."
        raise InvalidRequest([Fault(("consent",), "not-allowed-here", detail)])
    given = attestation(consent) or {}
    item = {
        "subject": rule.subject,
        "checksRequested": rule.check_names,
        "purpose": PURPOSE,
        "consent": given,
    }
    order = read_order(item, RuleContext(definitions, rule.environment))
    faults = (
        [] if isinstance(order, Order) else [f for f in order if "consent" in f.path]
    )
    faults += _hosted_consent_faults(given)
    if not faults and datetime.fromisoformat(given["obtainedAt"]) <= withdrawn_at:
        detail = "The subject withdrew or objected after that: ask again."
        faults = [Fault(("consent", "obtainedAt"), "out-of-range", detail)]
    if faults:
        raise InvalidRequest(faults)
    return given


def require_newer_consent(
    rule: Rule, consent: ConsentInput | None, *, is_stated: bool
) -> None:
    """Raise InvalidRequest if the rule's subject objected after this consent.

    The caller holds `lock_person`. `is_stated` is True if the client attested it, and
    not the creation of the rule.
    """
    (objected_at,) = objections_of([rule])
    if objected_at is None:
        return
    given = attestation(consent) or {}
    obtained_at = given.get("obtainedAt") if is_stated else None
    if not obtained_at or datetime.fromisoformat(obtained_at) <= objected_at:
        detail = "attest a consent that was obtained after that."
        detail = f"The subject objected at {utc_text(objected_at)}: {detail}"
        raise InvalidRequest([Fault(("consent",), "consent-required", detail)])


def attestation(consent: ConsentInput | None) -> dict[str, Any] | None:
    """Return the attestation as a rule stores it: as in a report's request."""
    if consent is None:
        return None
    return consent.model_dump(mode="json", by_alias=True, exclude_none=True)


def _report_item(
    body: Mapping[str, Any], definitions: Catalogue, packages: Packages
) -> dict[str, Any]:
    """Return the request item that would order the first run."""
    item: dict[str, Any] = {"purpose": PURPOSE}
    item |= {ITEM_MEMBERS[name]: body[name] for name in ITEM_MEMBERS if name in body}
    if item.get("consent") is None and _needs_consent(body, definitions, packages):
        item["consent"] = _implied_attestation(now())
    return item


def _implied_attestation(at: datetime) -> dict[str, Any]:
    """Return the attestation of a client that creates a rule without `consent`."""
    return {
        "mode": Consent.Mode.CUSTOMER_ATTESTED.value,
        "obtained": True,
        "obtainedAt": utc_text(at),
        "method": Consent.Method.OTHER.value,
        "policyVersion": "monitoring rule",
    }


def _needs_consent(
    body: Mapping[str, Any], definitions: Catalogue, packages: Packages
) -> bool:
    names, package_name = body.get("checkNames"), body.get("package")
    if isinstance(package_name, str) and package_name in packages:
        names = packages[package_name].checks
    if not isinstance(names, list):
        return False
    chosen = (definitions.get(name) for name in names if isinstance(name, str))
    return any(definition and definition.requires_consent for definition in chosen)


def _rename_path(fault: Fault) -> Fault:
    first, *rest = fault.path or ("",)
    names = {member: name for name, member in ITEM_MEMBERS.items()}
    return Fault((names.get(str(first), first), *rest), fault.code, fault.detail)


def _hosted_consent_faults(consent: Mapping[str, Any]) -> list[Fault]:
    if consent.get("mode") != Consent.Mode.SERVICE_HOSTED:
        return []
    detail = "The subject is not asked before each run: attest that you have consent."
    return [Fault(("consent", "mode"), "not-allowed-here", detail)]
