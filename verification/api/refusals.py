"""Which problem each refusal of the domain is."""

from __future__ import annotations

from typing import Any

from monitoring.models import Alert, Rule
from monitoring.pauses import NotResumable
from verification.api.problems import (
    MAX_ERRORS,
    MemberError,
    Problem,
    invalid,
    pointer,
    register,
)
from verification.consents.links import NotResendable, TooSoon
from verification.payments.links import NotPayable
from verification.reports.idempotency import InProgress, InvalidKey, KeyReused
from verification.reports.models import InvalidTransition, Report
from verification.reports.request import InvalidRequest
from verification.reports.status import (
    NotCancellable,
    NotEditable,
    NotLaunchable,
    NotRetryable,
)
from webhooks.configuration import NotConfigured, SecretNeeded
from webhooks.models import Configuration, Delivery
from webhooks.redelivery import ConfigurationDisabled, EventPurged, TooManyTests

WAYS_OUT = {
    "CONSENT_OUTSTANDING": "Consent has not been given yet: send the subject the "
    "consentUrl, or edit the draft to attest it.",
    "PAYMENT_OUTSTANDING": "The payment has not arrived yet: send the payer the "
    "paymentUrl. A draft that was free when it was made gets one by an edit.",
    "NOT_A_DRAFT": "Only a draft can be launched, and this report is one no more.",
}


def register_refusals() -> None:
    register(InvalidRequest, _invalid_request)
    register(InvalidKey, _invalid_key)
    register(
        InProgress,
        lambda e: Problem("idempotency-in-progress", headers={"Retry-After": "1"}),
    )
    register(KeyReused, lambda e: Problem("idempotency-key-reused"))
    register(Report.DoesNotExist, lambda e: Problem("not-found"))
    register(NotLaunchable, _not_launchable)
    register(NotEditable, lambda e: _conflict("report-not-editable", e))
    register(NotCancellable, lambda e: _conflict("report-not-cancellable", e))
    register(NotRetryable, lambda e: _conflict("report-not-retryable", e))
    register(
        NotResendable,
        lambda e: Problem("consent-not-resendable", str(e), consentStatus=e.status),
    )
    register(
        NotPayable,
        lambda e: Problem("payment-not-resendable", str(e), paymentStatus=e.status),
    )
    register(
        TooSoon,
        lambda e: Problem(
            "rate-limited", str(e), headers={"Retry-After": str(e.seconds)}
        ),
    )
    # Another request moved the report between our look and our move.
    register(
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
    register(Configuration.DoesNotExist, lambda e: Problem("not-found"))
    register(Delivery.DoesNotExist, lambda e: Problem("not-found"))
    register(NotConfigured, lambda e: Problem("webhook-not-configured"))
    register(ConfigurationDisabled, lambda e: Problem("webhook-disabled"))
    register(EventPurged, lambda e: Problem("event-purged"))
    register(SecretNeeded, _secret_needed)
    register(TooManyTests, _too_many_tests)


def _register_monitoring() -> None:
    register(Rule.DoesNotExist, lambda e: Problem("not-found"))
    register(Alert.DoesNotExist, lambda e: Problem("not-found"))
    register(
        NotResumable,
        lambda e: Problem("rule-not-resumable", str(e), pauseReason=e.reason),
    )


def _invalid_request(e: InvalidRequest) -> Problem:
    # One more than are told, which says that there are more.
    found = e.faults[: MAX_ERRORS + 1]
    return invalid(
        [MemberError(f.code, f.detail, pointer=pointer(*f.path)) for f in found]
    )


def _invalid_key(e: InvalidKey) -> Problem:
    told = "1 to 120 printable ASCII characters are needed."
    return invalid([MemberError("invalid-format", told, header="Idempotency-Key")])


def _secret_needed(e: SecretNeeded) -> Problem:
    told = "The first configuration needs its secret."
    return invalid([MemberError("required", told, pointer=pointer("secret"))])


def _too_many_tests(e: TooManyTests) -> Problem:
    return Problem(
        "rate-limited",
        f"More than {e.rate.limit} test events were asked for in a minute.",
        headers={"Retry-After": str(e.rate.resets_in)},
    )


def _not_launchable(e: NotLaunchable) -> Problem:
    told = " ".join(WAYS_OUT[reason] for reason in e.reasons)
    return Problem("report-not-launchable", told, reasons=e.reasons)


def _conflict(code: str, e: Any) -> Problem:
    return Problem(code, str(e), reportStatus=e.status)
