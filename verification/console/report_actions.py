"""Members launch, retry and cancel a report, and send its links again.

Each is a verb of the API. Before money moves, a page shows how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import consent_links
from verification.consents.subject_messages import reaches_subject
from verification.console.base import (
    Place,
    Refusals,
    Text,
    member_required,
    post_required,
)
from verification.console.orders import (
    CancellationChanged,
    QuoteChanged,
    actions_of,
    cancel_as_quoted,
    fault_text,
    launch_as_quoted,
    links_of,
    quote_cancellations,
    quote_launch,
    quote_retry,
    retry_as_quoted,
)
from verification.payments.links import payment_links
from verification.payments.payer_messages import reaches_payer
from verification.reports.hosted_links import NotRenewable, ResendTooSoon
from verification.reports.launch import owes_unasked
from verification.reports.models import PaymentMode, Report, ReportStatus
from verification.reports.request import Fault, InvalidRequest
from verification.reports.status import (
    ConsentGap,
    InvalidTransition,
    LaunchObstacle,
    NotCancellable,
    NotLaunchable,
    NotRetryable,
)
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_present

ENDED = _("The report has ended and stays as it is.")
NOT_RETRYABLE = _("No failed check can run again.")
CONSENT_GAPS = {
    ConsentGap.NOT_NAMED: _("The draft names no consent yet. Edit it to add one."),
    ConsentGap.NOT_ATTESTED: _(
        "Its consent is not attested yet. Edit it once you have the consent."
    ),
    ConsentGap.UNANSWERED: _("The subject has not agreed yet."),
    ConsentGap.EXPIRED: _("The subject did not answer in time. Send the link again."),
    ConsentGap.REFUSED: _("The subject did not agree. Edit it to ask anew."),
    ConsentGap.OBJECTED: _("The subject has objected. Edit it with a newer consent."),
}
# The texts of CONSENT_OUTSTANDING are those of the gap, above.
LAUNCH_BLOCKERS = {
    LaunchObstacle.PAYMENT_OUTSTANDING: _(
        "It is not paid. If the payer got money back or has no link, edit the draft."
    ),
    LaunchObstacle.NOT_A_DRAFT: _("The report is launched already."),
}


def blocker_texts(
    reasons: Sequence[LaunchObstacle], gap: ConsentGap | None
) -> list[str]:
    """Return why a draft cannot be launched, in words for members."""
    texts = [CONSENT_GAPS[gap]] if gap else []
    texts += [LAUNCH_BLOCKERS[one] for one in reasons if one in LAUNCH_BLOCKERS]
    return [str(text) for text in texts]


# Several drafts are launched together or not at all.
NONE_LAUNCHED = _(
    "The balance does not cover it. Nothing was launched: top it up first."
)


def launch_refusal_texts(
    reasons: Sequence[LaunchObstacle], gap: ConsentGap | None, faults: Iterable[Fault]
) -> list[str]:
    """Return why a draft is left out of a launch of several."""
    return [*blocker_texts(reasons, gap), *(fault_text(one, {}) for one in faults)]


REFUSALS: Refusals = {
    InvalidRequest: lambda e: " ".join(fault_text(one, {}) for one in e.faults),
    NotLaunchable: lambda e: " ".join(blocker_texts(e.reasons, e.consent_gap)),
    InsufficientBalance: _("The balance does not cover it. Top it up first."),
    InvalidTransition: _("It changed at the same moment. Look again."),
    NotCancellable: ENDED,
    NotRenewable: _("No link can be sent now."),
    NotRetryable: NOT_RETRYABLE,
    QuoteChanged: _("The price has changed, so nothing was done. Look again."),
    CancellationChanged: _("It has changed since you looked. Look again."),
    ResendTooSoon: _("A link was made less than a minute ago. Try again in a minute."),
}


NEW_CONSENT_LINK = {
    True: _("Send the subject a new link"),
    False: _("Make a new link for the subject"),
}
NEW_PAYMENT_LINK = {
    True: _("Send the payer a new link"),
    False: _("Make a new link for the payer"),
}
HAND_OVER = _("Hand over the new link below. The old one stops working.")


def action_context(
    place: Place, report: Report, results: list[CheckResult]
) -> dict[str, Any]:
    """Return what the member can do now, and the links that a person waits for.

    The results are those of the report, with their definitions.
    """
    if Permission.ORDER not in place.offered:
        return {}
    actions = actions_of(report, results)
    return {
        "actions": actions,
        "blockers": blocker_texts(actions["blockers"], actions["consent_gap"]),
        "new_consent_link": NEW_CONSENT_LINK[reaches_subject(report)],
        "new_payment_link": NEW_PAYMENT_LINK[reaches_payer(report)],
        **links_of(report),
    }


@member_required(Permission.ORDER)
def launch(place: Place, report: UUID) -> HttpResponse:
    """Show what the launch of a draft costs; a POST launches it for that."""
    found = place.get_report(report)
    place.require_live()
    actions = actions_of(found)
    if place.posted is not None:
        digest = place.posted.get("digest", "")
        verb = partial(launch_as_quoted, place.client, [found.pk], digest)
        return _carry_out(
            place, found, verb, "launched", _("Launched: the checks run now.")
        )
    if not actions["launch"]:
        blockers = blocker_texts(actions["blockers"], actions["consent_gap"])
        return _refuse(place, found, " ".join(blockers))
    (lines,), digest = quote_launch(place.client, [found])
    if owes_unasked(found, (line.price for line in lines)):
        unpaid = [LaunchObstacle.PAYMENT_OUTSTANDING]
        return _refuse(place, found, " ".join(blocker_texts(unpaid, None)))
    total = sum((line.price for line in lines), Decimal(0))
    shown = {
        "report": found,
        "lines": lines,
        "total": total,
        "digest": digest,
        "is_paid": found.payment_mode != PaymentMode.SELF,
    }
    return place.render("reports/launch", shown)


@member_required(Permission.ORDER)
def retry(place: Place, report: UUID) -> HttpResponse:
    """Show the failed checks and their prices; a POST runs them again."""
    found = place.get_report(report)
    place.require_live()
    if place.posted is not None:
        digest = place.posted.get("digest", "")
        verb = partial(retry_as_quoted, place.client, found.pk, digest)
        return _carry_out(
            place, found, verb, "retried", _("The failed checks run again.")
        )
    if not actions_of(found)["retry"]:
        return _refuse(place, found, NOT_RETRYABLE)
    lines, digest = quote_retry(found)
    shown = {
        "report": found,
        "lines": lines,
        "total": sum((line.price for line in lines), Decimal(0)),
        "digest": digest,
        "is_paid": found.payment_mode != PaymentMode.SELF,
    }
    return place.render("reports/retry", shown)


@member_required(Permission.ORDER)
def cancel(place: Place, report: UUID) -> HttpResponse:
    """Show what a cancellation gives back; a POST cancels the report."""
    found = place.get_report(report)
    if place.posted is not None:
        digest = place.posted.get("digest", "")
        verb = partial(cancel_as_quoted, place.client, found.pk, digest)
        return _carry_out(
            place, found, verb, "cancelled", _("The report is cancelled.")
        )
    if found.is_ended:
        return _refuse(place, found, ENDED)
    quoted = quote_cancellations([found])[found.pk]
    # The price of a failed check is credited already.
    billed = found.results.exclude(status=ResultStatus.FAILED)
    results = billed.select_related("definition").order_by("position")
    shown = {
        "report": found,
        "is_draft": found.status == ReportStatus.DRAFT,
        "uncalled": quoted.uncalled,
        "others": list(results.exclude(pk__in=[one.pk for one in quoted.uncalled])),
        "credit": quoted.credit,
        "digest": quoted.digest,
        "is_paid": found.payment_mode != PaymentMode.SELF,
    }
    return place.render("reports/cancel", shown)


@post_required(Permission.ORDER)
def resend_consent(place: Place, report: UUID) -> HttpResponse:
    """Send the subject another link to the consent page; the old one stops working."""
    found = place.get_report(report)
    verb = partial(consent_links.resend, place.client, found.pk)
    done = _("The subject gets a new link. The old one stops working.")
    if not reaches_subject(found):
        done = HAND_OVER
    return _carry_out(place, found, verb, "consent-resent", done)


@post_required(Permission.ORDER)
def resend_payment(place: Place, report: UUID) -> HttpResponse:
    """Send the payer another link to the payment page; the old one stops working."""
    found = place.get_report(report)
    verb = partial(payment_links.resend, place.client, found.pk)
    done = _("The payer gets a new link. The old one stops working.")
    if not reaches_payer(found):
        done = HAND_OVER
    return _carry_out(place, found, verb, "payment-resent", done)


def _carry_out(
    place: Place, report: Report, verb: Callable[[], Any], done: str, success: Text
) -> HttpResponse:
    """Call a verb of the API and record it, or say why it is refused."""
    refusing = place.refusing(REFUSALS, "reports-detail", report=report.pk)
    with refusing, transaction.atomic():
        require_present(place.member, Permission.ORDER)
        verb()
        place.record(f"report.{done}", report)
    return place.to("reports-detail", success=success, report=report.pk)


def _refuse(place: Place, report: Report, why: Text) -> HttpResponse:
    return place.to("reports-detail", error=why, report=report.pk)
