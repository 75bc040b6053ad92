"""The problem that answers each exception of the domain."""

from __future__ import annotations

from typing import Any

from monitoring.models import Alert, Rule
from monitoring.pauses import NotResumable
from verification.api.problems import (
    MAX_ERRORS,
    MemberError,
    Problem,
    pointer,
    register_problem,
    validation_failed,
)
from verification.consents.links import ConsentNotRenewable
from verification.payments.links import PaymentNotRenewable
from verification.reports.idempotency import (
    IdempotencyKeyReused,
    InvalidIdempotencyKey,
    RequestInProgress,
)
from verification.reports.links import ResendTooSoon
from verification.reports.models import InvalidTransition, Report
from verification.reports.request import InvalidRequest
from verification.reports.status import (
    NotCancellable,
    NotEditable,
    NotLaunchable,
    NotRetryable,
)
from webhooks.configuration import NotConfigured, SecretRequired
from webhooks.models import Configuration, Delivery
from webhooks.redelivery import ConfigurationDisabled, EventPurged, TooManyTests

LAUNCH_REMEDIES = {
    "CONSENT_OUTSTANDING": "Consent has not been given yet: send the subject the "
    "consentUrl, or edit the draft to attest it.",
    "PAYMENT_OUTSTANDING": "The payment has not arrived yet: send the payer the "
    "paymentUrl. A draft that was free when it was made gets one by an edit.",
    "NOT_A_DRAFT": "Only a draft can be launched, and this report is one no more.",
}


def register_refusals() -> None:
    register_problem(InvalidRequest, _invalid_request)
    register_problem(InvalidIdempotencyKey, _invalid_key)
    register_problem(
        RequestInProgress,
        lambda e: Problem("idempotency-in-progress", headers={"Retry-After": "1"}),
    )
    register_problem(IdempotencyKeyReused, lambda e: Problem("idempotency-key-reused"))
    register_problem(Report.DoesNotExist, lambda e: Problem("not-found"))
    register_problem(NotLaunchable, _not_launchable)
    register_problem(NotEditable, lambda e: _conflict("report-not-editable", e))
    register_problem(NotCancellable, lambda e: _conflict("report-not-cancellable", e))
    register_problem(NotRetryable, lambda e: _conflict("report-not-retryable", e))
    register_problem(
        ConsentNotRenewable,
        lambda e: Problem("consent-not-resendable", str(e), consentStatus=e.status),
    )
    register_problem(
        PaymentNotRenewable,
        lambda e: Problem("payment-not-resendable", str(e), paymentStatus=e.status),
    )
    register_problem(
        ResendTooSoon,
        lambda e: Problem(
            "rate-limited", str(e), headers={"Retry-After": str(e.seconds)}
        ),
    )
    # Another request changed the status between the read and the write.
    register_problem(
        InvalidTransition,
        lambda e: Problem(
            "report-not-editable",
            "The report changed at the same moment; read it and try again.",
            reportStatus=e.source,
        ),
    )
    _register_webhooks()
    _register_monitoring()


def _register_webhooks() -> None:
    register_problem(Configuration.DoesNotExist, lambda e: Problem("not-found"))
    register_problem(Delivery.DoesNotExist, lambda e: Problem("not-found"))
    register_problem(NotConfigured, lambda e: Problem("webhook-not-configured"))
    register_problem(ConfigurationDisabled, lambda e: Problem("webhook-disabled"))
    register_problem(EventPurged, lambda e: Problem("event-purged"))
    register_problem(SecretRequired, _secret_needed)
    register_problem(TooManyTests, _too_many_tests)


def _register_monitoring() -> None:
    register_problem(Rule.DoesNotExist, lambda e: Problem("not-found"))
    register_problem(Alert.DoesNotExist, lambda e: Problem("not-found"))
    register_problem(
        NotResumable,
        lambda e: Problem("rule-not-resumable", str(e), pauseReason=e.reason),
    )


def _invalid_request(e: InvalidRequest) -> Problem:
    # One more than the problem lists: its detail then states that there are more.
    found = e.faults[: MAX_ERRORS + 1]
    return validation_failed(
        [MemberError(f.code, f.detail, pointer=pointer(*f.path)) for f in found]
    )


def _invalid_key(e: InvalidIdempotencyKey) -> Problem:
    detail = "1 to 120 printable ASCII characters are needed."
    return validation_failed(
        [MemberError("invalid-format", detail, header="Idempotency-Key")]
    )


def _secret_needed(e: SecretRequired) -> Problem:
    detail = "The first configuration needs its secret."
    return validation_failed(
        [MemberError("required", detail, pointer=pointer("secret"))]
    )


def _too_many_tests(e: TooManyTests) -> Problem:
    return Problem(
        "rate-limited",
        f"More than {e.rate.limit} test events were asked for in a minute.",
        headers={"Retry-After": str(e.rate.resets_in)},
    )


def _not_launchable(e: NotLaunchable) -> Problem:
    detail = " ".join(LAUNCH_REMEDIES[reason] for reason in e.reasons)
    return Problem("report-not-launchable", detail, reasons=e.reasons)


def _conflict(code: str, e: Any) -> Problem:
    return Problem(code, str(e), reportStatus=e.status)
