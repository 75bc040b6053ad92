"""Actions of the sandbox over HTTP, with test keys only."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BeforeValidator, Field, StrictBool, StrictInt
from rest_framework.decorators import action
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from verification.api.authentication import HasScope, count_request, key_of
from verification.api.content import PageQuery
from verification.api.me import Balance
from verification.api.operations import (
    OperationViewSet,
    PageEnvelope,
    operation,
    read_shape,
)
from verification.api.problems import (
    MemberError,
    Problem,
    pointer,
    validation_failed,
    wrong_member,
)
from verification.api.report_shapes import ConsentState, CreatedReport
from verification.api.webhooks import one_of
from verification.checks.catalogue import CATALOGUE, CheckName
from verification.checks.events import PaymentState
from verification.checks.models import ordered_results
from verification.checks.next_results import set_next_results
from verification.payments.models import Payment
from verification.providers.sandbox import CHECKS, OUTCOMES, list_reserved_numbers
from verification.reports.launch import present_price
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.request import RequestShape
from verification.sandbox.consents import ConsentAction, act_as_subject
from verification.sandbox.payments import PaymentAction, act_as_payer
from verification.sandbox.references import (
    ABOUT_EMPLOYMENT,
    ImpossibleDates,
    ReferenceAction,
    act_as_referee,
)
from verification.values import formats
from verification.values.clock import now
from verification.values.shapes import Shape, enumeration
from webhooks.configuration import simulate_answers
from webhooks.models import SimulatedAnswer
from workspaces.ledger import limit_play_money
from workspaces.models import Client, Environment, Scope

REASON_LENGTH = 500
# A year of monthly runs, twice
MAX_TIMES = 24
# Subjects that have the number; all have a KRA PIN.
OWNERS = {"idNumber": SubjectType.INDIVIDUAL, "registrationNumber": SubjectType.COMPANY}
# For a JSON schema 1.0 is an integer, too.
TAKES_WHOLE_FLOATS = BeforeValidator(
    lambda n: int(n) if isinstance(n, float) and n.is_integer() else n
)
SimulatedAnswerName = one_of("SimulatedAnswer", SimulatedAnswer.values)
Outcome = one_of("SandboxOutcome", list(OUTCOMES))


class IsTestKey(BasePermission):
    """Refuses live keys, whatever their scopes."""

    def has_permission(self, request: Request, view: Any) -> bool:
        key = key_of(request)
        if view.is_method_allowed and key.environment != Environment.SANDBOX:
            count_request(request, view, key)
            raise Problem("sandbox-only")
        return True


class SandboxViewSet(OperationViewSet):
    """Operations that act on the sandbox of the key's workspace."""

    permission_classes = [IsTestKey, HasScope]
    common_problems = {"sandbox-only": "SandboxForbidden"}


class ReservedSubject(Shape):
    """Numbers that decide the outcome of a sandbox check."""

    id_number: str
    kra_pin: str
    registration_number: str
    outcome: str
    description: str


class ReservedSubjectPage(PageEnvelope):
    """One page of the sandbox's reserved numbers."""

    content: list[ReservedSubject]


class NextResultRequest(RequestShape):
    """The outcome of a check in the next runs about a subject, named by one number."""

    check: CheckName
    id_number: formats.Identifier | None = None
    kra_pin: formats.Identifier | None = None
    registration_number: formats.Identifier | None = None
    outcome: Outcome  # type: ignore[valid-type]
    """The check ends like that of the reserved subject with this outcome."""
    times: Annotated[StrictInt, Field(ge=0, le=MAX_TIMES), TAKES_WHOLE_FLOATS] = 1
    """How many runs get it. 0 removes what was set."""


class NextResult(Shape):
    """The outcome that is set for the next runs, without the subject's number."""

    check: CheckName
    outcome: Outcome  # type: ignore[valid-type]
    times: int


class ReceiverRequest(RequestShape):
    """An answer that the sandbox gives in place of your receiver."""

    answer: SimulatedAnswerName  # type: ignore[valid-type]
    """`410` disables the configuration, as a receiver's 410 does."""
    times: Annotated[StrictInt, Field(ge=0, le=MAX_TIMES), TAKES_WHOLE_FLOATS] = 1
    """How many of the next attempts get it. 0 removes what was set."""


class Receiver(Shape):
    """The answer that the next attempts get in place of your receiver's."""

    answer: SimulatedAnswerName  # type: ignore[valid-type]
    times: int


class PlayMoneyRequest(RequestShape):
    """The play money that is left in the sandbox."""

    available: (
        Annotated[StrictInt, Field(ge=0, le=1_000_000), TAKES_WHOLE_FLOATS] | None
    )
    """What orders can spend, in whole units of the currency. null removes the limit, as
    in a new sandbox."""


class ConsentActionRequest(RequestShape):
    """An action of the subject, or the end of their time."""

    action: ConsentAction
    """`expire` ends the time to answer."""
    reason: formats.text(REASON_LENGTH) | None = None  # type: ignore[valid-type]
    """The subject's reason to decline or withdraw. `NOT_ME` is the reason of a stranger
    who got the link, `UNDER_AGE` that of a subject under 18."""


class PaymentActionRequest(RequestShape):
    """An action of the payer or their bank, or the end of the time to pay."""

    action: PaymentAction
    """`more` and `less` pay another amount, `twice` pays two checkouts. `refund` gives
    all of the money back, within seconds. After `dispute` the payer's bank holds it.
    `expire` ends the time to pay."""


WouldRehire = Literal["YES", "NO", "UNKNOWN"]
REHIRE = enumeration("WouldRehire", get_args(WouldRehire))


class ReferenceAnswers(RequestShape):
    """The referee's answers. A missing member confirms what the subject stated."""

    employed: StrictBool = True
    employer: formats.Name | None = None
    job_title: formats.Name | None = None
    employed_from: formats.Date | None = None
    employed_to: formats.Date | None = None
    still_employed: StrictBool | None = None
    would_rehire: Annotated[WouldRehire, REHIRE] | None = None
    remarks: formats.text(1000) | None = None  # type: ignore[valid-type]
    referee_name: formats.Name | None = None
    referee_title: formats.Name | None = None


class ReferenceActionRequest(RequestShape):
    """An action of the referee, or the end of their time."""

    action: ReferenceAction
    """`expire` ends the time to answer."""
    answers: ReferenceAnswers | None = None
    """Only with `answer`."""
    reason: formats.text(REASON_LENGTH) | None = None  # type: ignore[valid-type]
    """The referee's reason to decline."""


def _action_on_report(name: str, summary: str, path: str, **declared: Any) -> Any:
    """Declare an action whose answer is like that to the report's creation."""
    return operation(
        name,
        summary,
        scope=Scope.REPORTS_CREATE,
        validates_body=False,
        idempotent_as=f"POST /sandbox/reports/{{reportId}}/{path}",
        answer=CreatedReport,
        problems=("answer-erased",),
        **declared,
    )


class SandboxSettingViewSet(SandboxViewSet):
    """The reserved numbers of the sandbox, and what a client sets there."""

    @action(detail=False, methods=["get"])
    @operation(
        "listSandboxSubjects",
        "List the sandbox's reserved subjects",
        scope=None,
        query=PageQuery,
        answer=ReservedSubjectPage,
    )
    def subjects(self, request: Request) -> PageEnvelope:
        """List the reserved numbers and their outcomes. Test keys only."""
        return self.page_of(
            [ReservedSubject.model_validate(row) for row in list_reserved_numbers()]
        )

    @action(detail=False, methods=["post"])
    @operation(
        "setNextResult",
        "Set the next result of a check",
        scope=Scope.REPORTS_CREATE,
        body=NextResultRequest,
    )
    def results(self, request: Request) -> NextResult:
        """Set how a check of an ordinary subject ends in its next runs.

        Later runs have the subject's own result. The request replaces an earlier one
        for this check and subject, and expires after 7 days. Name the subject by one
        number of the order. An order that reuses an earlier result runs no check: send
        `reuse: false`.
        """
        asked = self.body
        numbers = {
            "idNumber": asked.id_number,
            "kraPin": asked.kra_pin,
            "registrationNumber": asked.registration_number,
        }
        given = {member: number for member, number in numbers.items() if number}
        if asked.check not in CHECKS:
            detail = "The sandbox has no check of this name."
            raise wrong_member("unknown-check", detail, pointer=pointer("check"))
        if not given:
            detail = "One of idNumber, kraPin and registrationNumber is needed."
            raise wrong_member("required", detail, pointer=pointer("idNumber"))
        if len(given) > 1:
            detail = "Name the subject by one number only."
            last = list(given)[-1]
            raise wrong_member("not-allowed-here", detail, pointer=pointer(last))
        _refuse_foreign_number(asked.check, next(iter(given)))
        set_next_results(self.client, asked.check, given, asked.outcome, asked.times)
        return NextResult(check=asked.check, outcome=asked.outcome, times=asked.times)

    @action(detail=False, methods=["post"])
    @operation(
        "simulateReceiver",
        "Let your receiver fail",
        scope=Scope.WEBHOOKS_MANAGE,
        body=ReceiverRequest,
        problems=("webhook-not-configured",),
    )
    def receiver(self, request: Request) -> Receiver:
        """Let the next attempts of deliveries fail without a request to your receiver.

        Retries, messages to members and the disabling follow as after a real failure.
        The attempt's `answer` says that it was simulated.
        """
        asked, workspace = self.body, self.client.workspace
        answer = SimulatedAnswer(asked.answer)
        simulate_answers(workspace.pk, answer, asked.times)
        return Receiver(answer=asked.answer, times=asked.times)

    @action(detail=False, methods=["post"])
    @operation(
        "setPlayMoney",
        "Set the play money",
        scope=Scope.REPORTS_CREATE,
        body=PlayMoneyRequest,
    )
    def balance(self, request: Request) -> Balance:
        """Set what the sandbox can spend; orders beyond it get 402.

        An adjustment in the ledger sets the balance. A top-up raises it as in
        production. `null` removes the limit.
        """
        left, client = self.body.available, self.client
        available = None if left is None else Decimal(left)
        account = limit_play_money(client.workspace, available, actor=client.actor)
        return Balance.of(account)


def _refuse_foreign_number(check: str, member: str) -> None:
    """Refuse a number that no order of the check has."""
    (types,) = (set(entry.subject_types) for entry in CATALOGUE if entry.name == check)
    owner = OWNERS.get(member)
    if owner and owner not in types:
        detail = f"An order of {check} has no {member}."
        raise wrong_member("not-allowed-here", detail, pointer=pointer(member))


class SandboxReportViewSet(SandboxViewSet):
    """Reports of the sandbox, on which a client acts as subject, payer and referee."""

    common_problems = {
        **SandboxViewSet.common_problems,
        "sandbox-action-not-possible": "SandboxConflict",
    }
    lookup_url_kwarg = "reportId"
    lookup_description = "The id of the report."

    @action(detail=True, methods=["post"])
    @_action_on_report(
        "actOnConsent", "Act as the subject", "consent", body=ConsentActionRequest
    )
    def consent(self, request: Request, reportId: UUID) -> Response:
        """Grant, decline or withdraw a hosted consent as its subject, or let it expire.

        An action does what the button of the consent page does, without the page's
        questions. The record of the decision has `SANDBOX_API` as `confirmedBy`.
        """
        return self.run_once(
            lambda: self._act_as_subject(reportId), lambda answer: reportId
        )

    def _act_as_subject(self, report_id: UUID) -> CreatedReport:
        asked = read_shape(ConsentActionRequest, self.body)
        refusing = {ConsentAction.DECLINE, ConsentAction.WITHDRAW}
        if asked.reason and asked.action not in refusing:
            raise wrong_member(
                "not-allowed-here",
                "Only decline and withdraw take a reason.",
                pointer=pointer("reason"),
            )
        act_as_subject(self.client, report_id, asked.action, asked.reason or "")
        return _report_state(self.client, report_id)

    @action(detail=True, methods=["post"])
    @_action_on_report(
        "actOnPayment", "Act as the payer", "payment", body=PaymentActionRequest
    )
    def payment(self, request: Request, reportId: UUID) -> Response:
        """Pay a report as its payer, let the payment fail, or refund or dispute it.

        An action does what the button of the sandbox's checkout does. It opens a
        checkout if the payer has none.
        """
        return self.run_once(
            lambda: self._act_as_payer(reportId), lambda answer: reportId
        )

    def _act_as_payer(self, report_id: UUID) -> CreatedReport:
        asked = read_shape(PaymentActionRequest, self.body)
        act_as_payer(self.client, report_id, asked.action)
        return _report_state(self.client, report_id)

    @action(detail=True, methods=["post"])
    @_action_on_report(
        "actOnReference", "Act as the referee", "reference", body=ReferenceActionRequest
    )
    def reference(self, request: Request, reportId: UUID) -> Response:
        """Answer as the referee of an employment, decline, or let the link expire.

        The sandbox asks a referee whose `refereeEmail` is `referee@sandbox.test`, when
        the check runs. The referee confirms what the subject stated if `answers` is
        missing.
        """
        return self.run_once(
            lambda: self._act_as_referee(reportId), lambda answer: reportId
        )

    def _act_as_referee(self, report_id: UUID) -> CreatedReport:
        asked = read_shape(ReferenceActionRequest, self.body)
        if asked.answers and asked.action != ReferenceAction.ANSWER:
            raise wrong_member(
                "not-allowed-here",
                "Only answer takes answers.",
                pointer=pointer("answers"),
            )
        if asked.reason and asked.action != ReferenceAction.DECLINE:
            raise wrong_member(
                "not-allowed-here",
                "Only decline takes a reason.",
                pointer=pointer("reason"),
            )
        told = asked.answers or ReferenceAnswers()
        answers = told.model_dump(by_alias=True, exclude_none=True)
        _refuse_contradictions(answers)
        _refuse_impossible_dates(told)
        reason = asked.reason or ""
        try:
            act_as_referee(self.client, report_id, asked.action, answers, reason)
        except ImpossibleDates as e:
            raise wrong_member(
                "out-of-range",
                "With what the subject stated, the last day would be before the first.",
                pointer=pointer("answers", e.args[0]),
            ) from None
        return _report_state(self.client, report_id)


def _refuse_contradictions(answers: Mapping[str, Any]) -> None:
    """Refuse answers that contradict `employed` or `stillEmployed`."""
    void: list[str] = []
    if not answers["employed"]:
        detail = "If employed is false, there are no answers about the employment."
        void = [member for member in ABOUT_EMPLOYMENT if member in answers]
    elif answers.get("stillEmployed") and "employedTo" in answers:
        detail = "If stillEmployed is true, the employment has no last day."
        void = ["employedTo"]
    if void:
        places = [pointer("answers", member) for member in void]
        raise validation_failed(
            [MemberError("not-allowed-here", detail, pointer=place) for place in places]
        )


def _refuse_impossible_dates(answers: ReferenceAnswers) -> None:
    """Refuse the dates that the referee's page refuses."""
    first, last = answers.employed_from, answers.employed_to
    today = now().date().isoformat()
    for member, day in {"employedFrom": first, "employedTo": last}.items():
        if day and day > today:
            detail = "This must not be in the future."
            place = pointer("answers", member)
            raise wrong_member("out-of-range", detail, pointer=place)
    if first and last and last < first:
        detail = "The last day must not be before the first."
        place = pointer("answers", "employedTo")
        raise wrong_member("out-of-range", detail, pointer=place)


def _report_state(client: Client, report_id: UUID) -> CreatedReport:
    rows = Report.objects.select_related("consent", "payment", "workspace")
    report = rows.get(pk=report_id, **client.lookups)
    payment: Payment | None = getattr(report, "payment", None)
    price = present_price(client, report, ordered_results(report))
    return CreatedReport(
        id=report.pk,
        status=ReportStatus(report.status),
        payment_state=PaymentState.of(payment, report, price),
        consent_state=ConsentState.of_report(report),
    )
