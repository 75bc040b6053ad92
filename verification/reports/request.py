"""Turn a request for reports into orders, or raise InvalidRequest with its faults.

The shapes are pydantic models, from which the OpenAPI document is made. The rules read
the JSON body, with null for each member whose shape is wrong, so that one answer lists
every fault of a request.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import ConfigDict, Field, StrictBool, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ErrorType

from verification.checks.catalogue import CATALOGUE, CheckName
from verification.checks.models import MAX_CHECKS, CheckDefinition, CheckPackage
from verification.checks.packages import Packages, find_packages
from verification.consents.models import Consent, challenge_for_subject, is_under_age
from verification.consents.notices import consented_route
from verification.db.base import run_sql
from verification.payments.registry import accepts_payments
from verification.providers.registry import has_source
from verification.providers.sandbox import reserved_members
from verification.reports.models import (
    NAME_PARTS,
    PaymentMode,
    Report,
    Subject,
    SubjectType,
)
from verification.settings.providers import HOME_COUNTRY
from verification.values import formats
from verification.values.clock import now
from verification.values.identifiers import SHAPES, shape_of
from verification.values.shapes import Shape
from workspaces.brands import AddressRefused, read_address, return_hosts_of
from workspaces.models import MAX_RETURN_URL, Environment

Json = Mapping[str, Any]
MemberPath = tuple[str | int, ...]
Catalogue = Mapping[str, CheckDefinition]
_cached_catalogue: tuple[str, Catalogue] | None = None

# An answer lists no more: to find every fault of a large body takes longer than to
# create its reports.
MAX_FAULTS = 100
MAX_REPORTS = 500
TEXT_LIMIT = 200
# The largest integer that every JSON reader keeps exact
MAX_NUMBER = 2**53 - 1

# pydantic's error type -> the API's fault code, and its words
SHAPE_FAULTS = {
    "missing": ("required", "This is missing."),
    "string_too_short": ("required", "This must not be empty."),
    "extra_forbidden": (
        "unknown-member",
        "There is no such member here; check its spelling and place.",
    ),
    "string_too_long": ("too-long", "This must have at most {max_length} characters."),
    "too_long": ("too-many", "This must have at most {max_length} entries."),
    "too_short": ("too-few", "This must have an entry."),
    "enum": ("invalid-choice", "This must be {expected}."),
    "literal_error": ("invalid-choice", "This must be {expected}."),
    "greater_than_equal": ("out-of-range", "This must be at least {ge}."),
    "less_than_equal": ("out-of-range", "This must be at most {le}."),
    "int_parsing_size": ("out-of-range", "This has too many digits."),
    "uuid_parsing": ("invalid-format", "This must be a UUID."),
    "uuid_type": ("invalid-type", "This must be a UUID."),
    "string_type": ("invalid-type", "This must be a string."),
    "list_type": ("invalid-type", "This must be an array."),
    "bool_type": ("invalid-type", "This must be true or false."),
    "int_type": ("invalid-type", "This must be an integer."),
    "int_from_float": ("invalid-type", "This must be an integer."),
    "model_attributes_type": ("invalid-type", "This must be an object."),
}
# For errors that no shape of ours makes
UNEXPECTED_FAULT = ("invalid-type", "This is not what the API document asks for here.")
LIBRARY_ERRORS = frozenset(get_args(ErrorType))
PERSON_MEMBERS = ("idNumber", "dateOfBirth", "firstName", "middleName", "lastName")
COMPANY_MEMBERS = ("registrationNumber",)
# The hosted page asks the person who decides for a company for one of these.
COMPANY_NUMBERS = ("registrationNumber", "kraPin")
ATTESTED_MEMBERS = (
    "obtained",
    "obtainedAt",
    "method",
    "policyVersion",
    "evidenceReference",
)
# The type of a check's input -> the function that raises if a text has another format
INPUT_FORMATS: dict[str, Callable[[str], str]] = {
    "TEXT": str,
    "EMAIL": formats.email,
    "PHONE": formats.phone,
    "DATE": formats.real_date,
    "COUNTRY": formats.country,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule; `path` leads from the top of the body to the member."""

    path: MemberPath
    code: str
    detail: str
    # The limit of a text or an array that is too long
    most: int | None = None


class InvalidRequest(Exception):
    """The request breaks rules, and nothing was changed."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__(f"{len(self.faults)} members break a rule")


class RequestShape(Shape):
    """A shape that accepts each member only by its name in the API.

    The rules look members up by these names alone.
    """

    model_config = ConfigDict(populate_by_name=False)


INPUT_SCHEMAS: dict[str, Json] = {
    "EMAIL": {"type": "string", "format": "email", "maxLength": TEXT_LIMIT},
    "PHONE": {"type": "string", "maxLength": TEXT_LIMIT},
    "DATE": {"type": "string", "format": "date"},
    "NUMBER": {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER},
}
TEXT_SCHEMA = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}


def declare_inputs(schema: dict[str, Any]) -> None:
    """Add the inputs of all checks to the schema of a subject, and close it.

    A request can have the inputs of its own checks alone.
    """
    for check in CATALOGUE:
        for entry in check.required_inputs:
            described = INPUT_SCHEMAS.get(entry["type"], TEXT_SCHEMA)
            schema["properties"].setdefault(
                entry["key"],
                {
                    "anyOf": [described, {"type": "null"}],
                    "description": f"{check.name}: {entry['description']}",
                },
            )
    schema["additionalProperties"] = False


def needs_checks(checks: str) -> dict[str, Any]:
    """Say in a schema that a request without a package names its checks."""
    return {"if": {"required": ["package"]}, "else": {"required": [checks]}}


class SubjectInput(RequestShape):
    """The person or company. The inputs of checks (`requiredInputs` of a definition)
    are accepted where one of the requested checks names them."""

    model_config = ConfigDict(extra="allow", json_schema_extra=declare_inputs)

    subject_type: SubjectType
    full_name: formats.Name | None = None
    first_name: formats.Name | None = None
    middle_name: formats.Name | None = None
    last_name: formats.Name | None = None
    id_number: formats.Identifier | None = None
    """National ID number of a person, in the form of the country: of Kenya 1 to 9
    digits. A number in another form is `invalid-format`."""
    registration_number: formats.Identifier | None = None
    """Registration number of a company, without commas and invisible characters."""
    email: formats.Email | None = None
    phone: formats.Phone | None = None
    date_of_birth: formats.BirthDate | None = None
    country: formats.Country = "KE"


SUBJECT_MEMBERS = frozenset(
    field.alias for field in SubjectInput.model_fields.values() if field.alias
)


class ConsentInput(RequestShape):
    """The consent. SERVICE_HOSTED needs only `mode`; the client attests the rest."""

    mode: Consent.Mode
    obtained: StrictBool | None = None
    obtained_at: formats.PastMoment | None = None
    method: Consent.Method | None = None
    policy_version: formats.text(100) | None = None  # type: ignore[valid-type]
    evidence_reference: formats.text(200) | None = None  # type: ignore[valid-type]


class PayerInput(RequestShape):
    """The payer with paymentMode THIRD_PARTY: a name, and an e-mail or a phone."""

    name: formats.Name
    email: formats.Email | None = None
    phone: formats.Phone | None = None


CheckNames = Annotated[
    list[CheckName],
    Field(min_length=1, max_length=MAX_CHECKS, json_schema_extra={"uniqueItems": True}),
]
PackageName = Annotated[str, Field(min_length=1, max_length=40)]


class DraftEdit(RequestShape):
    """Members left out stay; `subject` and `checksRequested` are replaced whole."""

    subject: SubjectInput | None = None
    checks_requested: CheckNames | None = None
    """Replaces the checks; the draft is then no order of a package."""
    package: PackageName | None = None
    """Replaces the checks by those of the package."""
    purpose: formats.text(500) | None = None  # type: ignore[valid-type]
    consent: ConsentInput | None = None
    payment_mode: PaymentMode | None = None
    payer: PayerInput | None = None
    reuse: StrictBool | None = None
    return_url: formats.text(MAX_RETURN_URL) | None = None  # type: ignore[valid-type]


class ReportItem(RequestShape):
    """One report to create."""

    model_config = ConfigDict(json_schema_extra=needs_checks("checksRequested"))

    subject: SubjectInput
    checks_requested: CheckNames | None = None
    """Check names, each once. Needed unless `package` names the checks."""
    package: PackageName | None = None
    """The name of a package. Never together with `checksRequested`."""
    purpose: formats.text(500)  # type: ignore[valid-type]
    """Why the check is run, as the subject will read it."""
    consent: ConsentInput | None = None
    """May be left out when no requested check requires consent."""
    payment_mode: PaymentMode = PaymentMode.SELF
    payer: PayerInput | None = None
    """Needed with paymentMode THIRD_PARTY, refused with the others."""
    draft: StrictBool | None = None
    """Wins over the flag at the top of the body."""
    reuse: StrictBool | None = None
    """False: run every check, even where an earlier result is still fresh. Left
    out: reuse fresh results, but never those of the sandbox's reserved numbers, so that
    a test behaves the same each time. True: reuse those, too."""
    reference: formats.text(100) | None = None  # type: ignore[valid-type]
    """The client's own id of this report; it can be searched for."""
    return_url: formats.text(MAX_RETURN_URL) | None = None  # type: ignore[valid-type]
    """Where the pages of the subject and the payer lead back to: https, on a host that
    the workspace lists. The address gets `report`, the id of the report, as a
    parameter. Without it the workspace's own return address counts."""


class ReportsRequest(RequestShape):
    """Up to 500 reports: all of them are created, or none."""

    reports: Annotated[list[ReportItem], Field(min_length=1, max_length=MAX_REPORTS)]
    draft: StrictBool = False
    """Applies to every report that does not say it itself."""


class ReportsEnvelope(RequestShape):
    """The request with its reports unread; each is validated on its own."""

    reports: Annotated[list[Any], Field(min_length=1, max_length=MAX_REPORTS)]
    draft: StrictBool = False


@dataclass(frozen=True, slots=True)
class Order:
    """The validated request for one report."""

    subject: Subject
    definitions: list[CheckDefinition]
    purpose: str
    consent: ConsentInput | None
    payment_mode: str
    payer: PayerInput | None
    draft: bool
    # The request's value, if it has one
    reuse: bool | None
    reference: str | None
    # The monitoring rule, if the report is one of its runs
    monitoring_id: UUID | None = None
    # The package that named the definitions
    package: CheckPackage | None = None
    # All checks of the rule, which share the package's price; a run may leave one out
    sharing: Sequence[CheckDefinition] = ()
    # Well-formed, on a host that the workspace lists
    return_url: str | None = None

    @property
    def attests_consent(self) -> bool:
        """Return whether the client says that the subject has consented already.

        That of a rule does not count: the rule pauses when its subject objects.
        """
        consent = self.consent
        is_attested = consent and consent.obtained and consent.obtained_at
        return bool(is_attested) and self.monitoring_id is None


def as_sent(subject: Json) -> dict[str, Any]:
    """Return a stored subject as a request can have it.

    A full name that was made of its parts may be too long for one.
    """
    is_made = len(subject.get("fullName", "")) > TEXT_LIMIT
    return {k: v for k, v in subject.items() if not (is_made and k == "fullName")}


def catalogue() -> Catalogue:
    """Return the check definitions by name, cached until one of them changes.

    The cache saves more time than the validation of a request takes.
    """
    global _cached_catalogue
    # Every update gives a row another xmin or ctid.
    version = run_sql(
        "SELECT string_agg(xmin::text || ctid::text, ',' ORDER BY id) "
        "FROM checks_checkdefinition"
    )[0][0]
    if _cached_catalogue is None or _cached_catalogue[0] != version:
        definitions = {d.name: d for d in CheckDefinition.objects.all()}
        _cached_catalogue = version, definitions
    return _cached_catalogue[1]


def named_packages(workspace_id: UUID, reports: object) -> Packages:
    """Return the packages that items of a request name and that the workspace knows."""
    items = reports[:MAX_REPORTS] if isinstance(reports, list) else []
    named = (item.get("package") for item in items if isinstance(item, dict))
    return find_packages(workspace_id, {n for n in named if isinstance(n, str)})


def named_return_hosts(workspace_id: UUID, reports: object) -> Collection[str]:
    """Return the workspace's return hosts, without a query if no item needs them."""
    items = reports[:MAX_REPORTS] if isinstance(reports, list) else []
    is_needed = any(isinstance(item, dict) and item.get("returnUrl") for item in items)
    return return_hosts_of(workspace_id) if is_needed else ()


@dataclass(frozen=True, slots=True)
class RuleContext:
    """The facts that the rules need besides the body."""

    definitions: Catalogue
    environment: str
    # Those of `named_packages` and of `named_return_hosts`
    packages: Packages = field(default_factory=dict)
    return_hosts: Collection[str] = ()
    # The default of items that leave it out
    draft: bool = False
    # Accept checks that no source answers; for the operator's own reports only.
    unanswered: bool = False
    # Numbers that are accepted in whatever form, as a report has them already
    known_numbers: Collection[str] = ()


def read_orders(body: Mapping[str, Any], context: RuleContext) -> list[Order]:
    """Return the orders of a create request, or raise InvalidRequest.

    The search stops at more than MAX_FAULTS faults.
    """
    faults = validate_shape(ReportsEnvelope, body)
    context = replace(context, draft=body.get("draft") is True)
    orders: list[Order] = []
    is_readable = not any(fault.path[:1] == ("reports",) for fault in faults)
    for number, item in enumerate(body["reports"] if is_readable else ()):
        if len(faults) > MAX_FAULTS:
            break
        order = read_order(item, context, at=("reports", number))
        if isinstance(order, Order):
            orders.append(order)
        else:
            faults += order
    if faults:
        raise InvalidRequest(faults)
    return orders


def read_order(
    item: Any, context: RuleContext, at: MemberPath = ()
) -> Order | list[Fault]:
    """Return the item's order or its faults, whose paths start with `at`."""
    if isinstance(item, dict) and isinstance(item.get("draft"), bool):
        context = replace(context, draft=item["draft"])
    try:
        request = ReportItem.model_validate(item)
    except ValidationError as e:
        faults = shape_faults(e, at)
        wrong = {fault.path for fault in faults}
        readable = _null_faulty_members(item, [path[len(at) :] for path in wrong])
        if isinstance(readable, dict):
            further = _find_item_faults(readable, context, at)
            faults += [fault for fault in further if fault.path not in wrong]
        return faults
    if faults := _find_item_faults(item, context, at):
        return faults
    return _order(request, context)


def _find_item_faults(
    item: Mapping[str, Any], context: RuleContext, at: MemberPath
) -> list[Fault]:
    faults = islice(find_faults(item, context), MAX_FAULTS + 1)
    return [replace(fault, path=(*at, *fault.path)) for fault in faults]


def _null_faulty_members(value: Any, wrong: Collection[MemberPath]) -> Any:
    """Return a copy of the value with null at these paths.

    It walks along these paths only, as the client decides how deep its body is.
    """
    if () in wrong:
        return None
    if not (wrong and isinstance(value, dict | list)):
        return value
    below: dict[Any, list[MemberPath]] = defaultdict(list)
    for step, *rest in wrong:
        below[step].append(tuple(rest))
    rewritten = copy(value)
    for step, paths in below.items():
        # The path of a missing member leads nowhere.
        if isinstance(value, list) or step in value:
            rewritten[step] = _null_faulty_members(value[step], paths)
    return rewritten


def _order(request: ReportItem, context: RuleContext) -> Order:
    members = request.subject.model_dump(by_alias=True, exclude_none=True)
    members["subjectType"] = request.subject.subject_type.value
    package = context.packages[request.package] if request.package else None
    names = package.checks if package else request.checks_requested or ()
    return Order(
        subject=Subject.of(members),
        definitions=[context.definitions[name] for name in names],
        purpose=request.purpose,
        consent=request.consent,
        payment_mode=request.payment_mode.value,
        payer=request.payer,
        draft=context.draft,
        reuse=request.reuse,
        reference=request.reference,
        package=package,
        return_url=read_address(request.return_url, context.return_hosts)
        if request.return_url
        else None,
    )


def validate_shape(shape: type[Shape], body: Mapping[str, Any]) -> list[Fault]:
    try:
        shape.model_validate(body)
    except ValidationError as e:
        return shape_faults(e)
    return []


def shape_faults(error: ValidationError, at: MemberPath = ()) -> list[Fault]:
    """Return the faults in a pydantic error about the value at this path."""
    return [
        _shape_fault(problem, at)
        for problem in error.errors(include_url=False, include_context=True)
    ]


def _shape_fault(problem: Mapping[str, Any], at: MemberPath) -> Fault:
    kind = problem["type"]
    # pydantic adds "[key]" to the path of a mapping's key; our path names the member.
    path = (*at, *(part for part in problem["loc"] if part != "[key]"))
    is_null = problem.get("input", ...) is None
    if is_null and kind not in {"missing", "extra_forbidden"}:
        return Fault(path, "required", "This must not be null.")
    if kind not in LIBRARY_ERRORS:
        return Fault(path, kind, f"{problem['msg']}.")
    code, words = SHAPE_FAULTS.get(kind, UNEXPECTED_FAULT)
    facts = problem.get("ctx", {})
    detail = words.format_map(facts).replace("'", "")
    return Fault(path, code, detail, facts.get("max_length"))


def find_faults(item: Json, context: RuleContext) -> Iterator[Fault]:
    """Yield a fault for every rule that the item breaks; paths start at the item."""
    yield from _check_faults(item, context)
    requested = _requested_definitions(item, context)
    if (subject := item.get("subject")) is not None:
        yield from _subject_faults(subject, requested, context)
    yield from _consent_faults(item, requested, context)
    yield from _payment_mode_faults(item, context)
    yield from _payer_faults(item)
    yield from _return_faults(item, context)


def _requested_definitions(item: Json, context: RuleContext) -> list[CheckDefinition]:
    package = context.packages.get(item.get("package") or "")
    names = package.checks if package else item.get("checksRequested") or ()
    known = context.definitions
    return [known[name] for name in dict.fromkeys(names) if name in known]


def _check_faults(item: Json, context: RuleContext) -> Iterator[Fault]:
    names, package_name = item.get("checksRequested"), item.get("package")
    if package_name is not None:
        yield from _package_faults(item, package_name, context)
    elif names is None:
        member = "package" if "package" in item else "checksRequested"
        yield Fault((member,), "required", "Name the checks, or a package.")
    else:
        for number, code, detail in _refused_checks(item, names, context):
            yield Fault(("checksRequested", number), code, detail)


def _package_faults(item: Json, name: str, context: RuleContext) -> Iterator[Fault]:
    path: MemberPath = ("package",)
    package = context.packages.get(name)
    if item.get("checksRequested") is not None:
        detail = "Name the checks or a package, not both."
        yield Fault(path, "not-allowed-here", detail)
    elif package is None:
        detail = "There is no such package; GET /api/v1/packages lists yours."
        yield Fault(path, "unknown-package", detail)
    elif not package.active:
        detail = f"The package {name} is not offered at present."
        yield Fault(path, "inactive-package", detail)
    else:
        for _, code, detail in _refused_checks(item, package.checks, context):
            yield Fault(path, code, f"The package {name} cannot be ordered. {detail}")


def _refused_checks(
    item: Json, names: Sequence[str], context: RuleContext
) -> Iterator[tuple[int, str, str]]:
    """Yield the position, fault code and detail of each check that is refused."""
    subject = item.get("subject") or {}
    kind, country = subject.get("subjectType"), subject.get("country", HOME_COUNTRY)
    if context.unanswered or not subject:
        country = None
    earlier: set[str] = set()
    for number, name in enumerate(names):
        definition = context.definitions.get(name)
        if definition is None:
            known = ", ".join(context.definitions)
            yield number, "unknown-check", f"There is no such check; known: {known}."
        elif not definition.active:
            yield number, "inactive-check", f"{name} is not offered at present."
        elif name in earlier:
            yield number, "duplicate", f"{name} is requested twice."
        elif kind and kind not in definition.subject_types:
            accepted = " and ".join(definition.subject_types)
            detail = f"{name} accepts {accepted} only."
            yield number, "subject-type-not-accepted", detail
        elif country and (
            reason := no_source_reason(name, context.environment, country)
        ):
            yield number, "check-not-available", reason
        earlier.add(name)


def no_source_reason(check: str, environment: str, country: str) -> str:
    """Return why no source answers this check there; empty if one does."""
    if has_source(check, environment, country):
        return ""
    return (
        f"This installation has no source for {check} about subjects of {country} in "
        f"{environment}."
    )


def no_consent_reason(report: Report, check: str) -> str:
    """Return why the report's consent covers no source of this check; empty if it does.

    A pending consent covers every source, as its notice names the present ones.
    """
    consent = getattr(report, "consent", None)
    if consent is None or consent.status == Consent.Status.PENDING:
        return ""
    route = consented_route(consent, check, report.environment, report.country)
    return route.withheld(check)


def _subject_faults(
    subject: Json, requested: list[CheckDefinition], context: RuleContext
) -> Iterator[Fault]:
    kind = subject.get("subjectType")
    yield from _name_faults(subject, kind)
    yield from _foreign_member_faults(subject, kind)
    yield from _missing_input_faults(subject, kind, requested)
    yield from _further_input_faults(subject, requested)
    yield from find_number_faults(subject, context.known_numbers)
    if context.environment == Environment.PRODUCTION:
        yield from _reserved_number_faults(subject)


def _name_faults(subject: Json, kind: str | None) -> Iterator[Fault]:
    given = {m: subject[m] for m in ("fullName", *NAME_PARTS) if subject.get(m)}
    if kind == SubjectType.INDIVIDUAL:
        for member, name in given.items():
            # A comparison reads it as letters that the source hides.
            if "*" in name:
                detail = "Write the name of a person without asterisks."
                yield Fault(("subject", member), "invalid-format", detail)
        whole = subject.get("fullName") or "".join(given.values())
        if given and not any(map(str.isalpha, whole)):
            detail = "The name of a person has letters."
            yield Fault(("subject", next(iter(given))), "invalid-format", detail)
    if subject.get("fullName"):
        return
    if kind == SubjectType.COMPANY and not subject.get("registrationNumber"):
        detail = "A company needs fullName (its registered name) or registrationNumber."
        yield Fault(("subject", "fullName"), "required", detail)
    if kind == SubjectType.INDIVIDUAL:
        first, last = subject.get("firstName"), subject.get("lastName")
        if not (first or last):
            detail = "A person needs fullName, or firstName and lastName."
            yield Fault(("subject", "fullName"), "required", detail)
        elif not (first and last):
            missing = "lastName" if first else "firstName"
            detail = "Without fullName both firstName and lastName are needed."
            yield Fault(("subject", missing), "required", detail)


def _foreign_member_faults(subject: Json, kind: str | None) -> Iterator[Fault]:
    members, owner = {
        SubjectType.INDIVIDUAL: (COMPANY_MEMBERS, "a company"),
        SubjectType.COMPANY: (PERSON_MEMBERS, "a person"),
    }.get(kind, ((), ""))  # type: ignore[call-overload]
    for member in members:
        if subject.get(member) is not None:
            yield Fault(
                ("subject", member), "not-allowed-here", f"This is for {owner} only."
            )


def _missing_input_faults(
    subject: Json, kind: str | None, requested: list[CheckDefinition]
) -> Iterator[Fault]:
    for definition in requested:
        if kind and kind not in definition.subject_types:
            continue  # This has its own fault, which no input repairs.
        for entry in definition.required_inputs:
            if subject.get(entry["key"]) is None and _is_required(entry, subject, kind):
                hint = f" (or {entry['unless']})" if entry.get("unless") else ""
                needed = f"{definition.name} needs {entry['key']}{hint}"
                detail = f"This is missing; {needed}."
                yield Fault(("subject", entry["key"]), "missing-input", detail)


def _is_required(entry: Json, subject: Json, kind: str | None) -> bool:
    if entry["required"]:
        return True
    if kind not in entry.get("requiredFor", ()):
        return False
    return subject.get(entry.get("unless", "")) is None


def _further_input_faults(
    subject: Json, requested: list[CheckDefinition]
) -> Iterator[Fault]:
    """Require the other members to be inputs of a requested check, of its type."""
    types = {
        entry["key"]: entry["type"]
        for definition in requested
        for entry in definition.required_inputs
    }
    for member, value in subject.items():
        if member in SUBJECT_MEMBERS:
            continue
        if member not in types:
            detail = "A subject has no such member, and no requested check asks for it."
            yield Fault(("subject", member), "unknown-member", detail)
        elif value is not None and (fault := _input_error(value, types[member])):
            yield Fault(("subject", member), *fault)


def _input_error(
    value: Any, kind: str
) -> tuple[str, str] | tuple[str, str, int] | None:
    """Return the code, detail and limit of a fault if the value is not of this type."""
    if kind == "NUMBER":
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "invalid-type", "A number is needed."
        exact = abs(value) <= MAX_NUMBER
        return None if exact else ("out-of-range", f"At most {MAX_NUMBER} is accepted.")
    if not isinstance(value, str):
        return "invalid-type", "A string is needed."
    if formats.is_blank(value):
        return "required", "This must not be empty."
    if len(value) > TEXT_LIMIT:
        detail = f"At most {TEXT_LIMIT} characters are accepted."
        return "too-long", detail, TEXT_LIMIT
    try:
        INPUT_FORMATS[kind](value)
    except PydanticCustomError as e:
        return e.type, f"{e.message()}."
    return None


def find_number_faults(subject: Json, known: Collection[str] = ()) -> Iterator[Fault]:
    """Yield a fault for each number that is not in the form of the subject's country.

    A source would answer that it has no such number, which is a finding about a person
    for a typing error. The sandbox knows its reserved numbers in every country.
    """
    country = subject.get("country", HOME_COUNTRY)
    reserved = reserved_members(subject)
    for member in SHAPES:
        value, shape = subject.get(member), shape_of(member, country)
        if not (isinstance(value, str) and value.strip() and shape) or value in known:
            continue
        home = shape_of(member, HOME_COUNTRY) or shape
        is_reserved_here = member in reserved and home.fits(value)
        if not (shape.fits(value) or is_reserved_here):
            detail = f"This must be in the form of country {country}: {shape.form}."
            yield Fault(("subject", member), "invalid-format", detail)


def _reserved_number_faults(subject: Json) -> Iterator[Fault]:
    detail = "This is reserved for the sandbox; use a test key."
    for member in reserved_members(subject):
        yield Fault(("subject", member), "not-allowed-here", detail)


def _consent_faults(
    item: Json, requested: list[CheckDefinition], context: RuleContext
) -> Iterator[Fault]:
    consent = item.get("consent")
    if consent is None:
        names = [d.name for d in requested if d.requires_consent]
        if names and not context.draft:
            detail = f"This is needed for {', '.join(names)}."
            yield Fault(("consent",), "consent-required", detail)
    elif consent.get("mode") == Consent.Mode.SERVICE_HOSTED:
        for member in ATTESTED_MEMBERS:
            if consent.get(member) is not None:
                detail = "With SERVICE_HOSTED only mode is sent."
                yield Fault(("consent", member), "not-allowed-here", detail)
        if is_under_age(item.get("subject"), now()):
            yield Fault(
                ("consent", "mode"),
                "not-allowed-here",
                "The subject is under 18 by dateOfBirth, and nobody under 18 can "
                "consent on our page; send CUSTOMER_ATTESTED with the consent of a "
                "parent or guardian.",
            )
        yield from _unconfirmable_company_faults(item.get("subject") or {}, requested)
    elif consent.get("mode") == Consent.Mode.CUSTOMER_ATTESTED:
        yield from _attestation_faults(consent, context)


def _unconfirmable_company_faults(
    subject: Json, requested: list[CheckDefinition]
) -> Iterator[Fault]:
    """Require a number that the hosted page can ask a company's representative for."""
    kind = subject.get("subjectType")
    if kind != SubjectType.COMPANY or challenge_for_subject(subject):
        return
    missing = {
        fault.path[-1] for fault in _missing_input_faults(subject, kind, requested)
    }
    if missing.isdisjoint(COMPANY_NUMBERS):
        yield Fault(
            ("subject", "registrationNumber"),
            "missing-input",
            "Our page asks the person who decides for a company for its "
            "registrationNumber, or for its kraPin, which KRA_PIN takes. Send one of "
            "them, or CUSTOMER_ATTESTED.",
        )


def _attestation_faults(consent: Json, context: RuleContext) -> Iterator[Fault]:
    if consent.get("obtained") is False:
        if context.draft:
            return
        detail = "Consent must have been obtained before the report is launched."
        yield Fault(("consent", "obtained"), "consent-required", detail)
    detail = "CUSTOMER_ATTESTED needs this member."
    for member in ("obtained", "obtainedAt", "method", "policyVersion"):
        if consent.get(member) is None:
            yield Fault(("consent", member), "required", detail)


def _payment_mode_faults(item: Json, context: RuleContext) -> Iterator[Fault]:
    paid_by_others = {PaymentMode.CANDIDATE, PaymentMode.THIRD_PARTY}
    is_paid_by_others = item.get("paymentMode") in paid_by_others
    if is_paid_by_others and not accepts_payments(context.environment):
        detail = (
            "This installation has no payment provider, so nobody could pay; use SELF."
        )
        yield Fault(("paymentMode",), "not-allowed-here", detail)


def _payer_faults(item: Json) -> Iterator[Fault]:
    payer, mode = item.get("payer"), item.get("paymentMode", PaymentMode.SELF)
    if mode is None:
        return  # A misspelt mode does not say whether the report has a payer.
    if mode != PaymentMode.THIRD_PARTY:
        if payer is not None:
            detail = "A payer is named with paymentMode THIRD_PARTY only."
            yield Fault(("payer",), "not-allowed-here", detail)
    elif payer is None:
        yield Fault(("payer",), "required", "THIRD_PARTY needs a payer.")
    elif payer.get("email") is None and payer.get("phone") is None:
        detail = "A payer needs an e-mail or a phone."
        yield Fault(("payer", "email"), "required", detail)


def _return_faults(item: Json, context: RuleContext) -> Iterator[Fault]:
    if (address := item.get("returnUrl")) is None:
        return
    try:
        read_address(address.strip(), context.return_hosts)
    except AddressRefused as e:
        code = "not-allowed-here" if e.is_unlisted else "invalid-format"
        yield Fault(("returnUrl",), code, str(e))
