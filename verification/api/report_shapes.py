"""The shapes of reports. The OpenAPI document is made from them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import ConfigDict, Field

from verification import links
from verification.api.content import PageQuery
from verification.api.operations import PageEnvelope
from verification.checks.catalogue import CheckName
from verification.checks.events import (
    CheckFailure,
    Details,
    Failure,
    FlagBody,
    PaymentState,
    Score,
    consent_status_of,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import (
    DECIDED_STATUSES,
    Consent,
    ConsentStatus,
    reason_of,
)
from verification.consents.subject_messages import access_link
from verification.decisions.decide import (
    NewDecision,
    names_of,
    present_of,
    proposal_of,
    waiting_of,
)
from verification.decisions.models import (
    MAX_CODES,
    MAX_NOTE_LENGTH,
    Decision,
    DecisionState,
    DecisionStatus,
    MakerKind,
    NoticeState,
)
from verification.notifications.models import (
    Channel,
    Notification,
    NotificationError,
    NotificationStatus,
)
from verification.privacy.models import Correction
from verification.privacy.rights_events import CorrectionBody
from verification.providers.name_comparison import Likeness, Reason
from verification.reports.create import NewReport
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    StatusChange,
    SubjectType,
)
from verification.reports.pricing import OrderQuote, total
from verification.reports.queries import Filters
from verification.reports.request import RequestShape, declare_inputs
from verification.values import formats
from verification.values.clock import now
from verification.values.masking import hide_staff
from verification.values.shapes import CURRENCY, Money, Shape, Timestamp, enumeration


class ReportQuery(PageQuery):
    """Days are in UTC and both ends count."""

    search: formats.text(200) | None = None  # type: ignore[valid-type]
    """Any part of the subject's name, or exactly its ID number, registration number,
    e-mail, phone number, the report's reference or the report's id, or the number on a
    paper about the report, such as a receipt, a notice, a correction or a certificate.
    """
    status: ReportStatus | None = None
    """Only reports with this status."""
    subject_type: SubjectType | None = None
    """Only reports about people, or about companies."""
    from_: Annotated[formats.Date | None, Field(alias="from")] = None
    """First day, in UTC."""
    to: formats.Date | None = None
    """Last day, in UTC. If it is before `from`, the page is empty."""

    def filters(self) -> Filters:
        return Filters(
            search=self.search,
            status=self.status,
            subject_type=self.subject_type,
            first_day=date.fromisoformat(self.from_) if self.from_ else None,
            last_day=date.fromisoformat(self.to) if self.to else None,
        )


class SubjectBody(Shape):
    """The subject, with the inputs that its checks asked for besides these members."""

    model_config = ConfigDict(extra="allow", json_schema_extra=declare_inputs)

    subject_type: SubjectType
    full_name: str | None = None
    first_name: str | None = None
    middle_name: str | None = None
    last_name: str | None = None
    id_number: str | None = None
    registration_number: str | None = None
    email: str | None = None
    phone: str | None = None
    date_of_birth: str | None = None
    country: str


class NameComparison(Shape):
    """The likeness of two names, by the rules of one version of the matcher
    (docs/engineer/matching.md)."""

    matcher_version: str
    likeness: Annotated[Likeness, enumeration("NameLikeness", get_args(Likeness))]
    reason: Reason
    strength: Annotated[int, Field(ge=0, le=100)]
    """0 to 100; 100 is the same name."""


class ListEdition(Shape):
    """A list that was searched, and how old its edition was."""

    list: str
    version: str
    as_of: str
    """The day on which it was made; of a list loaded here, the last day on which it was
    found to be the newest."""
    age_days: int


class Evidence(Shape):
    """The origin of a result."""

    provider: str
    provider_reference: str | None
    retrieved_at: str
    environment: str
    reused_from_result_id: UUID | None
    response_digest: str | None
    """SHA-256 of the source's answer as it came, in hex."""
    name_comparison: NameComparison | None = None
    """The comparison of the stated name with the source's; null without one."""
    editions: list[ListEdition] | None = None
    """The lists that were searched; null for checks that search no lists."""
    fields_not_told: list[str] = []
    """Members of `details` that this source never answers: their null says nothing."""


class CheckResultBody(Shape):
    id: UUID
    check_name: CheckName
    status: ResultStatus
    summary: str | None = None
    """One-line outcome."""
    risk_level: RiskLevel
    score: Score | None = None
    flags: list[FlagBody] = []
    details: Details | None = None
    """The fields that the check definition's outputFields name."""
    evidence: Evidence | None = None
    failure: CheckFailure | None = None
    reused: bool
    outdated_details: list[str] = []
    """Names of details, such as `idNumber`, that the source was asked with and that a
    correction has changed in the report since."""
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    duration_ms: int | None = None
    """From `startedAt`, when the source was first asked, to its answer."""

    @classmethod
    def of(cls, result: CheckResult, report: Report, **more: Any) -> Self:
        found = result.finding or {}
        return cls.from_row(
            result,
            check_name=result.name,
            summary=found.get("summary"),
            flags=[FlagBody(**flag) for flag in found.get("flags", ())],
            details=found.get("details"),
            evidence=Evidence(
                **found["evidence"],
                environment=report.environment,
                reused_from_result_id=result.reused_from_id,
            )
            if found
            else None,
            outdated_details=result.outdated_details(report.subject),
            failure=CheckFailure(
                code=result.failure_code,
                message=result.failure_message,
                retryable=result.failure_retryable,
            )
            if result.failure_code
            else None,
            **more,
        )


class ConsentState(Shape):
    """The state of the subject's consent."""

    status: ConsentStatus
    consent_url: str | None = None
    """The link for the subject, while hosted consent can be given; null for a draft
    that names no consent yet, or one that is not obtained."""
    expires_at: Timestamp | None = None
    reason: str | None = None
    """Why the subject declined or withdrew, in their own words, or a code: `NOT_ME`
    (the link reached another person) or `UNDER_AGE` (the subject is under 18, and a
    parent or guardian has to consent). Null if they did not say."""

    @classmethod
    def of(cls, report: Report, consent: Consent | None, status: str) -> Self:
        if consent is None:
            return cls(status=ConsentStatus(status))
        hosted = consent.mode == Consent.Mode.SERVICE_HOSTED
        pending = consent.status == ConsentStatus.PENDING
        return cls(
            status=ConsentStatus(status),
            consent_url=links.consent_url(consent.pk, consent.generation)
            if hosted and pending and not report.is_ended
            else None,
            expires_at=_end_of_request(consent),
            reason=reason_of(consent),
        )

    @classmethod
    def of_report(cls, report: Report) -> Self:
        consent = getattr(report, "consent", None)
        return cls.of(report, consent, consent_status_of(report))


def _end_of_request(consent: Consent) -> datetime | None:
    """Return until when the subject can or could answer.

    An attested or expired consent may have a link to the subject's data alone.
    """
    is_hosted = consent.mode == Consent.Mode.SERVICE_HOSTED
    is_expired = consent.status == ConsentStatus.EXPIRED
    ends = consent.expires_at
    is_of_request = is_hosted and not (is_expired and ends and ends > now())
    return ends if is_of_request else None


class SubjectLink(Shape):
    """The link to their own data that the subject was sent."""

    sent_to: list[Channel]
    """The channels of the subject's own addresses. `GET /reports/{id}/events` says
    whether the messages went out."""
    expires_at: Timestamp | None
    """Null if it works as long as the report exists."""

    @classmethod
    def of(cls, consent: Consent) -> Self:
        is_decided = consent.status in DECIDED_STATUSES
        sent = access_link(consent.report, consent)
        return cls(
            sent_to=[message.channel for message in sent],
            expires_at=None if is_decided else consent.expires_at,
        )


class DecisionRequest(RequestShape):
    """A decision about a report."""

    status: DecisionStatus
    reason_codes: Annotated[list[str], Field(max_length=MAX_CODES)] = []
    """Active reason codes of the workspace, each once. A decline needs one."""
    note: formats.text(MAX_NOTE_LENGTH) | None = None  # type: ignore[valid-type]
    """For your own people. The subject's page does not show it."""
    replaces: UUID | None = None
    """The id of the decision that counts now, or of the decline that waits. Leave it
    out for the first one."""
    not_on_bureau: formats.text(MAX_NOTE_LENGTH) | None = None  # type: ignore[valid-type]
    """Why a decline does not rest on a credit bureau's result although the report has
    one. Such a decline needs no notice. Leave it out if it does."""

    def as_new_decision(self) -> NewDecision:
        return NewDecision(
            self.status,
            self.reason_codes,
            self.note or "",
            self.replaces,
            self.not_on_bureau or "",
        )


class NoticeBody(Shape):
    """The notice of a decline, and how far its service is."""

    id: UUID
    number: str
    """The number that the person reads on it."""
    state: NoticeState
    """SENDING until the messages have an outcome, then SERVED, or UNDELIVERED: hand
    over its PDF. ENDED if the decision was taken back or the report erased."""
    bureaus: list[str]
    """The sources of the bureau's results on which the decline rests."""
    is_automated: bool
    """Whether no person has looked at the decline."""
    served_at: Timestamp | None
    review_asked_at: Timestamp | None
    """When the person asked that a person looks at it."""
    reviewed_at: Timestamp | None
    """When a person decided after that."""


class DecisionBody(Shape):
    """A decision of the client about a report, or the proposal of one."""

    id: UUID
    report_id: UUID
    status: DecisionStatus
    state: DecisionState
    """PENDING waits for a second member, WAITING until `finalAt`, FINAL counts or has
    counted, REFUSED never did, and WITHDRAWN was taken back while it waited."""
    reason_codes: list[str]
    """Empty once the report is erased."""
    note: str | None
    """Null once the report is erased."""
    made_by: MakerKind
    made_by_name: str | None
    """The member, the first and last characters of the API key, or the version of your
    policy, such as "version 3"."""
    made_at: Timestamp
    second_name: str | None
    """The member who confirmed or refused the proposal."""
    second_at: Timestamp | None
    decided_at: Timestamp | None
    """When it began to count; null unless the state is FINAL."""
    final_at: Timestamp | None = None
    """When a decline that waits counts; null before its notice is served, while a
    correction or a review is open, and if it does not wait."""
    withdrawn_at: Timestamp | None = None
    """When a decline that waited was taken back, replaced or ended."""
    not_on_bureau: str | None = None
    """Why it does not rest on a credit bureau's result, as its maker said."""
    notice: NoticeBody | None = None
    """The notice to the person; null if the decision needs none."""

    @classmethod
    def of(cls, decision: Decision, names: Mapping[int, str]) -> Self:
        notice = getattr(decision, "notice", None)
        waits = notice and decision.state == DecisionState.WAITING
        maker, second = decision.made_by_user, decision.second_by_user
        return cls.from_row(
            decision,
            reason_codes=decision.codes or [],
            made_by=decision.made_by_kind,
            made_by_name=decision.made_by.partition(" ")[2]
            if maker is None
            else names.get(maker) or None,
            made_at=decision.created_at,
            second_name=None if second is None else names.get(second) or None,
            decided_at=decision.final_at,
            final_at=notice.waits_until
            if notice and waits and notice.stopped_at is None
            else None,
            notice=NoticeBody.from_row(notice) if notice else None,
        )


class DecisionPage(PageEnvelope):
    """One page of decisions, newest first."""

    content: list[DecisionBody]


class ReportBody(Shape):
    """A report with its subject, states and results."""

    id: UUID
    status: ReportStatus
    reference: str | None
    """The client's own id of this report."""
    monitoring_id: UUID | None
    """The monitoring rule that ran this report; null for a report that was ordered.
    The rule may have been deleted since."""
    subject: SubjectBody | None
    """Null after the subject's data was erased."""
    checks_requested: list[CheckName]
    package: str | None = None
    """The package that it was ordered by; its checks may have changed since."""
    purpose: str | None
    """Null after the subject's data was erased."""
    payment_mode: PaymentMode
    return_url: str | None = None
    """Where the pages of the subject and the payer lead back to; null for the
    workspace's own address, or after the subject's data was erased."""
    check_results: list[CheckResultBody]
    risk_score: Score | None
    """The worst score of the completed checks; null until a check has a score."""
    risk_level: RiskLevel
    consent_state: ConsentState
    payment_state: PaymentState
    failure: Failure | None
    created_at: Timestamp
    updated_at: Timestamp
    completed_at: Timestamp | None
    restricted_at: Timestamp | None = None
    """When the subject objected: since then the results are not reused and no
    monitoring runs. Null again once the subject of a draft, or of a report that waits
    for consent, has consented after that."""
    erased_at: Timestamp | None = None
    """When the personal data was erased; the skeleton of the report stays."""
    erasure_id: UUID | None = None
    """The erasure of the subject, with its certificate; null if the report expired."""
    corrections: list[CorrectionBody] = []
    """Findings that the subject called wrong, oldest first. While the status of one is
    OPEN or IN_REVIEW, do not rely on its finding."""
    decision: DecisionBody | None = None
    """The decision that counts; null if there is none."""
    proposed_decision: DecisionBody | None = None
    """The proposal that waits for a second member, or the decline that waits until the
    person has had time to answer; null if there is neither."""

    @classmethod
    def of(
        cls,
        report: Report,
        results: Iterable[CheckResult],
        total: Decimal,
        corrections: Iterable[Correction] = (),
        erasure_id: UUID | None = None,
        decisions: Sequence[Decision] = (),
    ) -> Self:
        """The body; the report comes with its consent and payment."""
        names = names_of(decisions) if decisions else {}
        present = present_of(decisions)
        proposed = proposal_of(decisions) or waiting_of(decisions)
        payment = getattr(report, "payment", None)
        return cls.from_row(
            report,
            subject=SubjectBody(**report.subject) if report.subject else None,
            purpose=report.purpose or None,
            check_results=[CheckResultBody.of(r, report) for r in results],
            consent_state=ConsentState.of_report(report),
            payment_state=PaymentState.of(payment, report, total),
            failure=Failure(code=report.failure_code, message=report.failure_message)
            if report.failure_code
            else None,
            corrections=[CorrectionBody.of(one) for one in corrections],
            erasure_id=erasure_id,
            decision=DecisionBody.of(present, names) if present else None,
            proposed_decision=DecisionBody.of(proposed, names) if proposed else None,
        )


class CreatedReport(Shape):
    id: UUID
    status: ReportStatus
    payment_state: PaymentState
    consent_state: ConsentState

    @classmethod
    def of(cls, made: NewReport) -> Self:
        return cls(
            id=made.report.pk,
            status=ReportStatus(made.report.status),
            payment_state=PaymentState.of(made.payment, made.report, made.total),
            consent_state=ConsentState.of(
                made.report, made.consent, made.consent_status
            ),
        )


class CreatedReports(Shape):
    """The created reports, in the order of the request."""

    count: int
    reports: list[CreatedReport]


class ReportSummary(Shape):
    id: UUID
    subject_name: str | None
    """Null after the subject's data was erased."""
    subject_type: SubjectType
    status: ReportStatus
    reference: str | None
    risk_score: Score | None
    risk_level: RiskLevel
    package: str | None = None
    """The package that it was ordered by."""
    checks_count: int
    completed_checks_count: int
    created_at: Timestamp
    completed_at: Timestamp | None

    @classmethod
    def of(cls, report: Report, completed: int) -> Self:
        return cls.from_row(
            report,
            subject_name=report.subject_name or None,
            checks_count=len(report.checks_requested),
            completed_checks_count=completed,
        )


class ReportPage(PageEnvelope):
    """One page of reports, newest first."""

    total_is_exact: bool
    """False if a search matches more than 10,000 reports: counting stops there, and
    `totalElements` and `totalPages` are lower bounds. Read on until `last` is true."""
    content: list[ReportSummary]


class StatusChangeBody(Shape):
    """One change of a report. `from` and `to` are the same if the status stayed, for
    example when the subject asked for another consent link."""

    id: UUID
    from_: Annotated[ReportStatus | None, Field(alias="from")]
    """Null for the creation of the report."""
    to: ReportStatus
    trigger: str
    actor: str
    created_at: Timestamp

    @classmethod
    def of(cls, change: StatusChange) -> Self:
        return cls.from_row(
            change,
            from_=change.source or None,
            to=change.target,
            actor=hide_staff(change.actor),
        )


RequestKind = Literal[
    "CONSENT_REQUEST",
    "CONSENT_REMINDER",
    "ACCESS_LINK",
    "PAYMENT_REQUEST",
    "PAYMENT_REMINDER",
    "REFERENCE_REQUEST",
    "REFERENCE_REMINDER",
]


class MessageBody(Shape):
    """A request or reminder to the subject, the payer or the referee of a report."""

    id: UUID
    kind: Annotated[RequestKind, enumeration("MessageKind", get_args(RequestKind))]
    channel: Channel
    status: NotificationStatus
    """`WITHHELD` and `FAILED` reach nobody: send the link yourself."""
    reason: NotificationError | None
    """Why the message has not been sent, or not at the last attempt."""
    detail: str | None
    """The reason in words."""
    created_at: Timestamp
    sent_at: Timestamp | None

    @classmethod
    def of(cls, message: Notification) -> Self:
        reason = NotificationError(message.error) if message.error else None
        detail = str(reason.label) if reason else None
        return cls.from_row(message, reason=reason, detail=detail)


class Timeline(Shape):
    """Every change of a report, and every message with its present links, oldest
    first."""

    events: list[StatusChangeBody]
    messages: list[MessageBody]


class QuotedCheck(Shape):
    check_name: CheckName
    price: Money
    reused: bool
    """True if an earlier result is still fresh and would be used again, free of
    charge."""
    reused_from_result_id: UUID | None


class QuotedReport(Shape):
    package: str | None
    """The package that named the checks."""
    price: Money
    checks: list[QuotedCheck]
    gates: list[str]
    """The steps that the report would wait for: CONSENT, PAYMENT."""
    status: ReportStatus
    """The first status of the report."""

    @classmethod
    def of(cls, quoted: OrderQuote) -> Self:
        package = quoted.order.package
        return cls(
            package=package.name if package else None,
            price=_money(total(quoted.lines)),
            checks=[
                QuotedCheck(
                    check_name=line.definition.name,
                    price=_money(line.price),
                    reused=line.reused_from_id is not None,
                    reused_from_result_id=line.reused_from_id,
                )
                for line in quoted.lines
            ],
            gates=quoted.gates,
            status=quoted.status,
        )


class Quote(Shape):
    """The price and the effect of the same request to create reports."""

    count: int
    total: Money
    payable_by_workspace: Money
    """The part that would be charged to the workspace's own balance."""
    reports: list[QuotedReport]

    @classmethod
    def of(cls, quoted: Sequence[OrderQuote]) -> Self:
        by_workspace = [q for q in quoted if q.order.payment_mode == PaymentMode.SELF]
        return cls(
            count=len(quoted),
            total=_money(sum(total(q.lines) for q in quoted)),
            payable_by_workspace=_money(sum(total(q.lines) for q in by_workspace)),
            reports=[QuotedReport.of(one) for one in quoted],
        )


def _money(amount: Decimal | int) -> Money:
    return Money(amount=Decimal(amount), currency=CURRENCY)
