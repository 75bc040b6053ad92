"""When a report has ended, and when only a person can move it on."""

from __future__ import annotations

from .errors import ActionRequired
from .models import Report, Timeline

ENDED = {"READY", "FAILED", "CANCELLED"}
REFEREE_CHECK = "EMPLOYER_VERIFICATION"
# A policy decides by itself, soon after the end of a report.
POLICY_SECONDS = 10.0


def has_ended(report: Report) -> bool:
    """Return whether all checks have ended. Those of a `PARTIAL` report may run on."""
    return report.status in ENDED or report.completed_at is not None


def raise_if_person_must_act(report: Report) -> None:
    """Raise `ActionRequired` if the report waits for a client, subject or payer."""
    if report.status == "DRAFT":
        message = "launch the draft by client.reports.launch"
        raise ActionRequired("launch", message, report)
    if report.status == "PENDING_CONSENT":
        url = report.consent_state.consent_url
        message = f"the subject must consent at {url}"
        raise ActionRequired("consent", message, report, url)
    if report.status == "PENDING_PAYMENT":
        url = report.payment_state.payment_url
        raise ActionRequired("payment", f"the payer must pay at {url}", report, url)


def may_wait_for_referee(report: Report) -> bool:
    """Return whether only the check that a referee answers has not ended."""
    names = {
        result.check_name
        for result in report.check_results
        if result.status in {"PENDING", "RUNNING"}
    }
    return names == {REFEREE_CHECK}


def raise_if_referee_must_answer(report: Report, timeline: Timeline) -> None:
    """Raise `ActionRequired` if the service has sent the referee a link."""
    if any(message.kind.startswith("REFERENCE_") for message in timeline.messages):
        message = "the referee must answer the questions that the service has sent"
        raise ActionRequired("reference", message, report)


def is_decided(report: Report, seconds_since_end: float) -> bool:
    """Return whether a decision counts; raise `ActionRequired` if a person must act."""
    if report.decision is not None:
        return True
    if report.proposed_decision is not None:
        what = "another member must confirm the proposed decision in the console"
    elif seconds_since_end > POLICY_SECONDS:
        what = "decide by client.reports.decide or in the console"
    else:
        return False
    raise ActionRequired("decision", what, report)
