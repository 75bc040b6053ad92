"""Words of codes: what members read where the API has a code such as PENDING_CONSENT.

Staff read the same words on the pages of a report and of an application. The API,
exports and result files keep the codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

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
from verification.privacy.models import CorrectionStatus
from verification.reports.models import (
    PaymentMode,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from webhooks.models import Attempt, Configuration, DeliveryStatus
from workspaces.models import LedgerEntry, Role, Scope


class Topic(StrEnum):
    """What a code is about, as in a template: `{{ report.status|words:"report" }}`."""

    REPORT = "report"
    SUBJECT = "subject"
    RISK = "risk"
    CHECK = "check"
    DECISION = "decision"
    STANDING = "standing"
    CONSENT = "consent"
    CONSENT_MODE = "consent-mode"
    PAYER = "payer"
    PAYMENT = "payment"
    CORRECTION = "correction"
    GO_LIVE = "go-live"
    CADENCE = "cadence"
    RULE = "rule"
    PAUSE = "pause"
    ALERT = "alert"
    LEDGER = "ledger"
    ROLE = "role"
    CHANNEL = "channel"
    FAILURE = "failure"
    DELIVERY = "delivery"
    ATTEMPT = "attempt"
    DISABLED = "disabled"
    MESSAGE = "message"
    SCOPE = "scope"


WORDS: dict[Topic, Mapping[str, Promise]] = {
    Topic.REPORT: {
        ReportStatus.DRAFT: _("Draft"),
        ReportStatus.PENDING_CONSENT: _("Waiting for consent"),
        ReportStatus.PENDING_PAYMENT: _("Waiting for payment"),
        ReportStatus.RUNNING: _("Running"),
        ReportStatus.PARTIAL: _("Partly ready"),
        ReportStatus.READY: _("Ready"),
        ReportStatus.FAILED: _("Failed"),
        ReportStatus.CANCELLED: _("Cancelled"),
    },
    Topic.SUBJECT: {
        SubjectType.INDIVIDUAL: _("A person"),
        SubjectType.COMPANY: _("A company"),
    },
    Topic.RISK: {
        RiskLevel.LOW: _("Low"),
        RiskLevel.MEDIUM: _("Medium"),
        RiskLevel.HIGH: _("High"),
        RiskLevel.UNKNOWN: _("Not scored"),
    },
    Topic.CHECK: {
        ResultStatus.PENDING: _("Waiting"),
        ResultStatus.RUNNING: _("Under way"),
        ResultStatus.COMPLETED: pgettext_lazy("check", "Completed"),
        ResultStatus.FAILED: _("Failed"),
        ResultStatus.CANCELLED: _("Not done"),
    },
    Topic.DECISION: {
        DecisionStatus.APPROVED: _("Approved"),
        DecisionStatus.DECLINED: _("Declined"),
        DecisionStatus.REVIEW: _("In review"),
    },
    Topic.STANDING: {
        Standing.APPROVED: _("Approved"),
        Standing.DECLINED: _("Declined"),
        Standing.REVIEW: _("In review"),
        Standing.WAITING: _("Decline not final"),
        Standing.PROPOSED: _("Needs a second member"),
        Standing.NEEDED: _("Needs a decision"),
    },
    Topic.CONSENT: {
        ConsentStatus.NOT_REQUIRED: _("Not needed"),
        ConsentStatus.PENDING: _("Not answered yet"),
        ConsentStatus.GRANTED: _("Given"),
        ConsentStatus.ATTESTED: _("Given"),
        ConsentStatus.DECLINED: _("Declined"),
        ConsentStatus.EXPIRED: pgettext_lazy("consent", "Not answered in time"),
        ConsentStatus.WITHDRAWN: pgettext_lazy("consent", "Withdrawn"),
    },
    Topic.CONSENT_MODE: {
        Consent.Mode.SERVICE_HOSTED: _("asked for by us"),
        Consent.Mode.CUSTOMER_ATTESTED: _("attested by you"),
    },
    Topic.PAYER: {
        PaymentMode.SELF: _("Your workspace"),
        PaymentMode.CANDIDATE: _("The subject"),
        PaymentMode.THIRD_PARTY: _("Somebody else"),
    },
    Topic.PAYMENT: {
        PaymentStatus.NOT_REQUIRED: _("nothing to pay"),
        PaymentStatus.PENDING: _("not paid yet"),
        PaymentStatus.PAID: _("paid"),
        PaymentStatus.FAILED: _("the last attempt failed"),
        PaymentStatus.EXPIRED: _("not paid in time"),
        PaymentStatus.REFUNDED: _("paid back"),
        PaymentStatus.CANCELLED: _("cancelled"),
    },
    Topic.CORRECTION: {
        CorrectionStatus.OPEN: _("Not looked into yet"),
        CorrectionStatus.IN_REVIEW: _("Being looked into"),
        CorrectionStatus.CORRECTED: _("Corrected"),
        CorrectionStatus.CONFIRMED: _("Stays as it is"),
        CorrectionStatus.WITHDRAWN: _("Taken back by the person"),
    },
    Topic.GO_LIVE: {
        "": _("Not begun"),
        GoLive.DRAFT: _("Being filled in"),
        GoLive.SUBMITTED: _("Waiting for a review"),
        GoLive.IN_REVIEW: _("In review"),
        GoLive.APPROVED: pgettext_lazy("application", "Approved"),
        GoLive.REJECTED: _("Rejected"),
    },
    Topic.CADENCE: {
        Cadence.DAILY: _("Every day"),
        Cadence.WEEKLY: _("Every week"),
        Cadence.MONTHLY: _("Every month"),
        Cadence.QUARTERLY: _("Every three months"),
        Cadence.SEMI_ANNUALLY: _("Every six months"),
        Cadence.ANNUALLY: _("Every year"),
    },
    Topic.RULE: {
        RuleStatus.ACTIVE: pgettext_lazy("rule", "Active"),
        RuleStatus.PAUSED: pgettext_lazy("rule", "Paused"),
    },
    Topic.PAUSE: {
        PauseReason.CONSENT_WITHDRAWN: _("The subject withdrew consent."),
        PauseReason.INSUFFICIENT_BALANCE: _("The balance did not cover a run."),
        PauseReason.CHECK_INACTIVE: _("A check is not offered any more."),
        PauseReason.BY_STAFF: _("Our staff paused it."),
        PauseReason.BY_CLIENT: _("Your workspace paused it."),
        PauseReason.OBJECTION: _("The subject objected."),
    },
    Topic.ALERT: {
        Severity.INFO: pgettext_lazy("alert", "Note"),
        Severity.WARNING: pgettext_lazy("alert", "Warning"),
        Severity.CRITICAL: pgettext_lazy("alert", "Critical"),
    },
    Topic.LEDGER: {
        LedgerEntry.Kind.CHARGE: _("Charge"),
        LedgerEntry.Kind.REVERSAL: _("Refund"),
        LedgerEntry.Kind.TOP_UP: _("Top-up"),
        LedgerEntry.Kind.ADJUSTMENT: _("Adjustment"),
    },
    Topic.ROLE: {
        Role.OWNER: _("Owner"),
        Role.ADMIN: _("Administrator"),
        Role.OFFICER: _("Officer"),
        Role.VIEWER: _("Viewer"),
    },
    Topic.CHANNEL: {
        Channel.EMAIL: _("by e-mail"),
        Channel.SMS: _("by SMS"),
    },
    Topic.FAILURE: {
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
    Topic.DELIVERY: {
        DeliveryStatus.PENDING: _("Waiting"),
        DeliveryStatus.RETRYING: _("Retrying"),
        DeliveryStatus.DELIVERED: _("Delivered"),
        DeliveryStatus.FAILED: _("Failed"),
    },
    Topic.ATTEMPT: {
        Attempt.Error.NAME_UNKNOWN: _("The host name is not known"),
        Attempt.Error.TARGET_BLOCKED: _("The address may not be called"),
        Attempt.Error.NOT_CONNECTED: _("No connection could be made"),
        Attempt.Error.NOT_TRUSTED: _("The certificate was not accepted"),
        Attempt.Error.TIMED_OUT: _("No answer in time"),
        Attempt.Error.BROKEN: _("The connection broke off"),
        Attempt.Error.UNREADABLE: _("The stored event could not be read"),
    },
    Topic.DISABLED: {
        Configuration.DisabledReason.GONE: _("Your server answered 410 Gone."),
        Configuration.DisabledReason.FAILING: _("It took no event for five days."),
    },
    Topic.MESSAGE: {
        NotificationStatus.PENDING: _("Waiting to be sent"),
        NotificationStatus.SENT: _("Sent"),
        NotificationStatus.FAILED: _("Could not be sent"),
        NotificationStatus.CANCELLED: _("Not needed any more"),
        NotificationStatus.WITHHELD: _("Not sent"),
    },
    Topic.SCOPE: {
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

# Topic -> code -> (ground, icon) of a state's badge: the icon's shape tells states
# apart without colour. A state that is not here has the quiet ground and a clock.
MARKS: dict[Topic, Mapping[str, tuple[str, str]]] = {
    Topic.DELIVERY: {
        DeliveryStatus.PENDING: ("is-info", "clock"),
        DeliveryStatus.RETRYING: ("is-wait", "rotate-cw"),
        DeliveryStatus.DELIVERED: ("is-ok", "circle-check"),
        DeliveryStatus.FAILED: ("is-bad", "circle-x"),
    },
    Topic.MESSAGE: {
        NotificationStatus.PENDING: ("is-info", "clock"),
        NotificationStatus.SENT: ("is-ok", "circle-check"),
        NotificationStatus.FAILED: ("is-bad", "circle-x"),
        NotificationStatus.CANCELLED: ("", "ban"),
        NotificationStatus.WITHHELD: ("", "circle-minus"),
    },
    Topic.REPORT: {
        ReportStatus.DRAFT: ("", "file-pen-line"),
        ReportStatus.PENDING_CONSENT: ("is-wait", "user-round-check"),
        ReportStatus.PENDING_PAYMENT: ("is-wait", "hand-coins"),
        ReportStatus.RUNNING: ("is-info", "loader"),
        ReportStatus.PARTIAL: ("is-wait", "contrast"),
        ReportStatus.READY: ("is-ok", "circle-check"),
        ReportStatus.FAILED: ("is-bad", "circle-x"),
        ReportStatus.CANCELLED: ("", "ban"),
    },
    Topic.RISK: {
        RiskLevel.LOW: ("is-ok", "circle-check"),
        RiskLevel.MEDIUM: ("is-wait", "triangle-alert"),
        RiskLevel.HIGH: ("is-bad", "octagon-alert"),
        RiskLevel.UNKNOWN: ("", "circle-dashed"),
    },
    Topic.CHECK: {
        ResultStatus.RUNNING: ("is-info", "loader"),
        ResultStatus.COMPLETED: ("is-ok", "circle-check"),
        ResultStatus.FAILED: ("is-bad", "circle-x"),
        ResultStatus.CANCELLED: ("", "ban"),
    },
    Topic.DECISION: {
        DecisionStatus.APPROVED: ("is-ok", "thumbs-up"),
        DecisionStatus.DECLINED: ("is-bad", "thumbs-down"),
        DecisionStatus.REVIEW: ("is-info", "eye"),
    },
    Topic.STANDING: {
        Standing.APPROVED: ("is-ok", "thumbs-up"),
        Standing.DECLINED: ("is-bad", "thumbs-down"),
        Standing.REVIEW: ("is-info", "eye"),
        Standing.WAITING: ("is-wait", "hourglass"),
        Standing.PROPOSED: ("is-wait", "users"),
        Standing.NEEDED: ("is-wait", "gavel"),
    },
    Topic.CONSENT: {
        ConsentStatus.NOT_REQUIRED: ("", "circle-minus"),
        ConsentStatus.PENDING: ("is-wait", "user-round-check"),
        ConsentStatus.GRANTED: ("is-ok", "circle-check"),
        ConsentStatus.ATTESTED: ("is-ok", "circle-check"),
        ConsentStatus.DECLINED: ("is-bad", "circle-x"),
        ConsentStatus.EXPIRED: ("is-bad", "alarm-clock"),
        ConsentStatus.WITHDRAWN: ("is-bad", "undo-2"),
    },
    Topic.PAYMENT: {
        PaymentStatus.NOT_REQUIRED: ("", "circle-minus"),
        PaymentStatus.PENDING: ("is-wait", "hand-coins"),
        PaymentStatus.PAID: ("is-ok", "circle-check"),
        PaymentStatus.FAILED: ("is-bad", "circle-x"),
        PaymentStatus.EXPIRED: ("is-bad", "alarm-clock"),
        PaymentStatus.REFUNDED: ("is-info", "undo-2"),
        PaymentStatus.CANCELLED: ("", "ban"),
    },
    Topic.RULE: {
        RuleStatus.ACTIVE: ("is-ok", "circle-check"),
        RuleStatus.PAUSED: ("is-wait", "circle-pause"),
    },
    Topic.ALERT: {
        Severity.INFO: ("is-info", "info"),
        Severity.WARNING: ("is-wait", "triangle-alert"),
        Severity.CRITICAL: ("is-bad", "octagon-alert"),
    },
    Topic.CORRECTION: {
        CorrectionStatus.OPEN: ("is-wait", "message-square-warning"),
        CorrectionStatus.IN_REVIEW: ("is-info", "eye"),
        CorrectionStatus.CORRECTED: ("is-ok", "circle-check"),
        CorrectionStatus.CONFIRMED: ("", "circle-minus"),
        CorrectionStatus.WITHDRAWN: ("", "undo-2"),
    },
    Topic.GO_LIVE: {
        GoLive.DRAFT: ("", "file-pen-line"),
        GoLive.SUBMITTED: ("is-info", "hourglass"),
        GoLive.IN_REVIEW: ("is-info", "eye"),
        GoLive.APPROVED: ("is-ok", "circle-check"),
        GoLive.REJECTED: ("is-bad", "circle-x"),
    },
}


def choices_of(topic: Topic) -> Iterable[tuple[str, Promise]]:
    """Return (code, words) for a filter of a list."""
    return [(str(code), text) for code, text in WORDS[topic].items()]
