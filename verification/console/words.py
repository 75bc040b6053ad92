"""Words of codes: what members read where the API has a code such as PENDING_CONSENT.

Staff read the same words on the pages of a report and of an application. The API,
exports and result files keep the codes.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from monitoring.models import Cadence, PauseReason, RuleStatus, Severity
from verification.checks.models import ResultStatus
from verification.consents.models import Consent, ConsentStatus
from verification.decisions.case_list import Standing
from verification.decisions.models import DecisionStatus
from verification.golive.models import Status as GoLive
from verification.notifications.models import (
    Channel,
    NotificationError,
    NotificationStatus,
)
from verification.payments.models import PaymentStatus
from verification.privacy.models import Correction, CorrectionStatus
from verification.reports.models import (
    PaymentMode,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from webhooks.models import Attempt, Configuration, DeliveryStatus
from workspaces.models import LedgerEntry, Role, Scope


class State(NamedTuple):
    """A state on pages; by default it has the quiet ground and the icon of a clock."""

    words: Promise | str
    ground: str = ""
    icon: str = "clock"


# The states that have a badge, by topic and code: their words, ground and icon. The
# icon's shape tells states apart without colour.
STATES: dict[str, Mapping[str, State]] = {
    "report": {
        ReportStatus.DRAFT: State(_("Draft"), "", "file-pen-line"),
        ReportStatus.PENDING_CONSENT: State(
            _("Waiting for consent"), "is-wait", "user-round-check"
        ),
        ReportStatus.PENDING_PAYMENT: State(
            _("Waiting for payment"), "is-wait", "hand-coins"
        ),
        ReportStatus.RUNNING: State(_("Running"), "is-info", "loader"),
        ReportStatus.PARTIAL: State(_("Partly ready"), "is-wait", "contrast"),
        ReportStatus.READY: State(_("Ready"), "is-ok", "circle-check"),
        ReportStatus.FAILED: State(_("Failed"), "is-bad", "circle-x"),
        ReportStatus.CANCELLED: State(_("Cancelled"), "", "ban"),
    },
    "risk": {
        RiskLevel.LOW: State(_("Low"), "is-ok", "circle-check"),
        RiskLevel.MEDIUM: State(_("Medium"), "is-wait", "triangle-alert"),
        RiskLevel.HIGH: State(_("High"), "is-bad", "octagon-alert"),
        RiskLevel.UNKNOWN: State(_("Not scored"), "", "circle-dashed"),
    },
    "check": {
        ResultStatus.PENDING: State(_("Waiting")),
        ResultStatus.RUNNING: State(_("Under way"), "is-info", "loader"),
        ResultStatus.COMPLETED: State(
            pgettext_lazy("check", "Completed"), "is-ok", "circle-check"
        ),
        ResultStatus.FAILED: State(_("Failed"), "is-bad", "circle-x"),
        ResultStatus.CANCELLED: State(_("Not done"), "", "ban"),
    },
    "decision": {
        DecisionStatus.APPROVED: State(_("Approved"), "is-ok", "thumbs-up"),
        DecisionStatus.DECLINED: State(_("Declined"), "is-bad", "thumbs-down"),
        DecisionStatus.REVIEW: State(_("In review"), "is-info", "eye"),
    },
    "standing": {
        Standing.APPROVED: State(_("Approved"), "is-ok", "thumbs-up"),
        Standing.DECLINED: State(_("Declined"), "is-bad", "thumbs-down"),
        Standing.REVIEW: State(_("In review"), "is-info", "eye"),
        Standing.WAITING: State(_("Decline not final"), "is-wait", "hourglass"),
        Standing.PROPOSED: State(_("Needs a second member"), "is-wait", "users"),
        Standing.NEEDED: State(_("Needs a decision"), "is-wait", "gavel"),
    },
    "consent": {
        ConsentStatus.NOT_REQUIRED: State(_("Not needed"), "", "circle-minus"),
        ConsentStatus.PENDING: State(
            _("Not answered yet"), "is-wait", "user-round-check"
        ),
        ConsentStatus.GRANTED: State(_("Given"), "is-ok", "circle-check"),
        ConsentStatus.ATTESTED: State(_("Given"), "is-ok", "circle-check"),
        ConsentStatus.DECLINED: State(_("Declined"), "is-bad", "circle-x"),
        ConsentStatus.EXPIRED: State(
            pgettext_lazy("consent", "Not answered in time"), "is-bad", "alarm-clock"
        ),
        ConsentStatus.WITHDRAWN: State(
            pgettext_lazy("consent", "Withdrawn"), "is-bad", "undo-2"
        ),
    },
    "payment": {
        PaymentStatus.NOT_REQUIRED: State(_("nothing to pay"), "", "circle-minus"),
        PaymentStatus.PENDING: State(_("not paid yet"), "is-wait", "hand-coins"),
        PaymentStatus.PAID: State(_("paid"), "is-ok", "circle-check"),
        PaymentStatus.FAILED: State(_("the last attempt failed"), "is-bad", "circle-x"),
        PaymentStatus.EXPIRED: State(_("not paid in time"), "is-bad", "alarm-clock"),
        PaymentStatus.REFUNDED: State(_("paid back"), "is-info", "undo-2"),
        PaymentStatus.CANCELLED: State(_("cancelled"), "", "ban"),
    },
    "correction": {
        CorrectionStatus.OPEN: State(
            _("Not looked into yet"), "is-wait", "message-square-warning"
        ),
        CorrectionStatus.IN_REVIEW: State(_("Being looked into"), "is-info", "eye"),
        CorrectionStatus.CORRECTED: State(_("Corrected"), "is-ok", "circle-check"),
        CorrectionStatus.CONFIRMED: State(_("Stays as it is"), "", "circle-minus"),
        CorrectionStatus.WITHDRAWN: State(_("Taken back by the person"), "", "undo-2"),
        Correction.ERASED: State(_("Ended by the erasure"), "", "trash-2"),
    },
    "go-live": {
        "": State(_("Not begun")),
        GoLive.DRAFT: State(_("Being filled in"), "", "file-pen-line"),
        GoLive.SUBMITTED: State(_("Waiting for a review"), "is-info", "hourglass"),
        GoLive.IN_REVIEW: State(_("In review"), "is-info", "eye"),
        GoLive.APPROVED: State(
            pgettext_lazy("application", "Approved"), "is-ok", "circle-check"
        ),
        GoLive.REJECTED: State(_("Rejected"), "is-bad", "circle-x"),
    },
    "rule": {
        RuleStatus.ACTIVE: State(
            pgettext_lazy("rule", "Active"), "is-ok", "circle-check"
        ),
        RuleStatus.PAUSED: State(
            pgettext_lazy("rule", "Paused"), "is-wait", "circle-pause"
        ),
    },
    "alert": {
        Severity.INFO: State(pgettext_lazy("alert", "Note"), "is-info", "info"),
        Severity.WARNING: State(
            pgettext_lazy("alert", "Warning"), "is-wait", "triangle-alert"
        ),
        Severity.CRITICAL: State(
            pgettext_lazy("alert", "Critical"), "is-bad", "octagon-alert"
        ),
    },
    "delivery": {
        DeliveryStatus.PENDING: State(_("Waiting")),
        DeliveryStatus.RETRYING: State(_("Retrying"), "is-wait", "rotate-cw"),
        DeliveryStatus.DELIVERED: State(_("Delivered"), "is-ok", "circle-check"),
        DeliveryStatus.FAILED: State(_("Failed"), "is-bad", "circle-x"),
    },
    "message": {
        NotificationStatus.PENDING: State(_("Waiting to be sent")),
        NotificationStatus.SENT: State(_("Sent"), "is-ok", "circle-check"),
        NotificationStatus.FAILED: State(_("Could not be sent"), "is-bad", "circle-x"),
        NotificationStatus.CANCELLED: State(_("Not needed any more"), "", "ban"),
        NotificationStatus.WITHHELD: State(_("Not sent"), "", "circle-minus"),
    },
}
# The words of all topics, as in a template: `{{ report.status|words:"report" }}`
WORDS: dict[str, Mapping[str, Promise | str]] = {
    **{
        topic: {code: state.words for code, state in states.items()}
        for topic, states in STATES.items()
    },
    "subject": {
        SubjectType.INDIVIDUAL: _("A person"),
        SubjectType.COMPANY: _("A company"),
    },
    "consent-mode": {
        Consent.Mode.SERVICE_HOSTED: _("asked for by us"),
        Consent.Mode.CUSTOMER_ATTESTED: _("attested by your workspace"),
    },
    "payer": {
        PaymentMode.SELF: _("Your workspace"),
        PaymentMode.CANDIDATE: _("The subject"),
        PaymentMode.THIRD_PARTY: _("Somebody else"),
    },
    "cadence": {
        Cadence.DAILY: _("Every day"),
        Cadence.WEEKLY: _("Every week"),
        Cadence.MONTHLY: _("Every month"),
        Cadence.QUARTERLY: _("Every three months"),
        Cadence.SEMI_ANNUALLY: _("Every six months"),
        Cadence.ANNUALLY: _("Every year"),
    },
    "pause": {
        PauseReason.CONSENT_WITHDRAWN: _("The subject withdrew consent."),
        PauseReason.INSUFFICIENT_BALANCE: _("The balance did not cover a run."),
        PauseReason.CHECK_INACTIVE: _("A check is not offered any more."),
        PauseReason.BY_STAFF: _("Our staff paused it."),
        PauseReason.BY_CLIENT: _("Your workspace paused it."),
        PauseReason.OBJECTION: _("The subject objected."),
    },
    "ledger": {
        LedgerEntry.Kind.CHARGE: _("Charge"),
        LedgerEntry.Kind.REVERSAL: _("Refund"),
        LedgerEntry.Kind.TOP_UP: _("Top-up"),
        LedgerEntry.Kind.ADJUSTMENT: _("Adjustment"),
    },
    "role": {
        Role.OWNER: _("Owner"),
        Role.ADMIN: _("Administrator"),
        Role.OFFICER: _("Officer"),
        Role.VIEWER: _("Viewer"),
    },
    "channel": {
        Channel.EMAIL: _("by e-mail"),
        Channel.SMS: _("by SMS"),
    },
    "failure": {
        NotificationError.REFUSED: _("the address or number was refused"),
        NotificationError.NOT_TAKEN: _("the mail server or gateway did not take it"),
        NotificationError.UNREACHABLE: _(
            "the mail server or gateway could not be reached"
        ),
        NotificationError.LATE: _("it would have come too late"),
        NotificationError.NOT_WRITTEN: _("the message could not be written"),
        NotificationError.INTERRUPTED: _("its outcome is not known"),
        NotificationError.BLOCKED: _("the recipient has blocked you"),
        NotificationError.SANDBOX: _("this is the sandbox"),
        NotificationError.RECIPIENT_LIMIT: _(
            "the recipient got as many requests today as a day allows"
        ),
        NotificationError.WORKSPACE_LIMIT: _(
            "you sent as many requests today as a day allows"
        ),
        NotificationError.OPERATOR_LIMIT: _(
            "workspaces that are not live sent as many messages today as a day allows"
        ),
    },
    "attempt": {
        Attempt.Error.NAME_UNKNOWN: _("The host name is not known"),
        Attempt.Error.TARGET_BLOCKED: _("The address may not be called"),
        Attempt.Error.NOT_CONNECTED: _("No connection could be made"),
        Attempt.Error.NOT_TRUSTED: _("The certificate was not accepted"),
        Attempt.Error.TIMED_OUT: _("No answer in time"),
        Attempt.Error.BROKEN: _("The connection broke off"),
        Attempt.Error.UNREADABLE: _("The stored event could not be read"),
    },
    "disabled": {
        Configuration.DisabledReason.GONE: _("Your server answered 410 Gone."),
        Configuration.DisabledReason.FAILING: _("It accepted no event for five days."),
    },
    "scope": {
        Scope.REPORTS_CREATE: _("Order reports"),
        Scope.REPORTS_READ: _("Read reports"),
        Scope.MONITORING_WRITE: _("Change monitoring rules"),
        Scope.MONITORING_READ: _("Read monitoring rules and alerts"),
        Scope.WEBHOOKS_MANAGE: _("Manage webhooks"),
        Scope.SUBJECTS_ERASE: _("Erase people's details"),
        Scope.DECISIONS_WRITE: _("Decide about reports"),
        Scope.AUDIT_READ: _("Read the audit trail"),
    },
}


def choices_of(topic: str) -> Iterable[tuple[str, Promise | str]]:
    """Return (code, words) for a filter of a list."""
    return [(str(code), text) for code, text in WORDS[topic].items()]
