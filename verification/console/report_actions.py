"""Members launch, retry, cancel and assign reports, and send links again.

Each is a verb of the API, for one report, or for those chosen in a list: each of these
goes through the same verb. Before money moves, a page shows how much. A page says of
which reports a verb was refused, and why.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.encoding import iri_to_uri
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import consent_links
from verification.consents.subject_messages import reaches_subject
from verification.console import orders
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Refusals,
    Text,
    deciders_of,
    member_name,
    member_required,
    post_required,
    refusal_text,
)
from verification.console.case_pages import case_refusal, open_case_of
from verification.console.decision_pages import REFUSALS as NO_DECISION
from verification.console.order_faults import fault_text
from verification.console.order_pages import require_order_rate
from verification.console.order_quotes import (
    LaunchQuote,
    QuotedLine,
    covers,
    quote_cancellations,
    quote_launch,
    quote_launches,
    quote_retry,
)
from verification.decisions import cases
from verification.decisions.cases import CaseRefused
from verification.decisions.decide import ReportDecisionRefused, obstacle_of
from verification.decisions.models import Case
from verification.payments.links import payment_links
from verification.payments.payer_messages import reaches_payer
from verification.reports.hosted_links import (
    HostedLinks,
    NotRenewable,
    ResendTooSoon,
)
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
from verification.web.pages import read_id
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, require_permission, require_present

ENDED = _("The report has ended and stays as it is.")
NOT_RETRYABLE = _("No failed check can run again.")
CONSENT_GAPS = {
    ConsentGap.NOT_NAMED: _("The draft names no consent yet. Edit it to add one."),
    ConsentGap.NOT_ATTESTED: _(
        "Its consent is not attested yet. Edit it once you have the consent."
    ),
    ConsentGap.UNANSWERED: _("The subject has not agreed yet."),
    ConsentGap.EXPIRED: _("The subject did not answer in time. Send the link again."),
    ConsentGap.REFUSED: _("The subject did not agree. Edit it to ask again."),
    ConsentGap.OBJECTED: _("The subject has objected. Edit it with a newer consent."),
}
# The texts of CONSENT_OUTSTANDING are those of the gap, above.
LAUNCH_BLOCKERS = {
    LaunchObstacle.PAYMENT_OUTSTANDING: _(
        "It is not paid. If the payer got money back or has no link, edit the draft."
    ),
    LaunchObstacle.NOT_A_DRAFT: _("The report is launched already."),
}


# Several drafts are launched together or not at all.
NONE_LAUNCHED = _(
    "The balance does not cover it. Nothing was launched: top it up first."
)
NOT_A_DRAFT = _("It is not a draft.")
NOT_IN_QUEUE = _("This report needs no decision.")
NO_CHOICE = _("Choose reports in the list first.")
NO_LINK = _("No link can be sent now.")
NO_ADDRESS = _("Nothing can be sent to this person: hand over the link on its page.")
NO_MEMBER = _("Choose a member who may decide.")
CHANGED = _(
    "The price or the drafts have changed, so nothing was launched. Look again."
)
# What was done with several reports
CANCELLED = ngettext_lazy(
    "%(count)s report is cancelled.", "%(count)s reports are cancelled.", "count"
)
LAUNCHED = ngettext_lazy(
    "%(count)s report is launched.", "%(count)s reports are launched.", "count"
)
RETRIED = ngettext_lazy(
    "The failed checks of %(count)s report run again.",
    "The failed checks of %(count)s reports run again.",
    "count",
)
LINKS_SENT = ngettext_lazy(
    "%(count)s new link is being sent.", "%(count)s new links are being sent.", "count"
)
ASSIGNED = ngettext_lazy(
    "%(name)s has %(count)s report more.",
    "%(name)s has %(count)s reports more.",
    "count",
)


def blocker_texts(
    reasons: Sequence[LaunchObstacle], gap: ConsentGap | None
) -> list[str]:
    """Return why a draft cannot be launched, in words for members."""
    texts = [CONSENT_GAPS[gap]] if gap else []
    texts += [LAUNCH_BLOCKERS[one] for one in reasons if one in LAUNCH_BLOCKERS]
    return [str(text) for text in texts]


def launch_refusal_texts(
    reasons: Sequence[LaunchObstacle], gap: ConsentGap | None, faults: Iterable[Fault]
) -> list[str]:
    """Return why a draft is left out of a launch of several."""
    return [
        *blocker_texts(reasons, gap),
        *(fault_text(one, {}) for one in faults),
    ]


REFUSALS: Refusals = {
    InvalidRequest: lambda e: " ".join(fault_text(one, {}) for one in e.faults),
    NotLaunchable: lambda e: " ".join(blocker_texts(e.reasons, e.consent_gap)),
    InsufficientBalance: _("The balance does not cover it. Top it up first."),
    InvalidTransition: _("It changed at the same moment. Look again."),
    NotCancellable: ENDED,
    NotRenewable: NO_LINK,
    NotRetryable: NOT_RETRYABLE,
    orders.QuoteChanged: _("The price has changed, so nothing was done. Look again."),
    orders.CancellationChanged: _("It has changed since you looked. Look again."),
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
    actions = orders.actions_of(report, results)
    return {
        "actions": actions,
        "blockers": blocker_texts(actions["blockers"], actions["consent_gap"]),
        "new_consent_link": NEW_CONSENT_LINK[reaches_subject(report)],
        "new_payment_link": NEW_PAYMENT_LINK[reaches_payer(report)],
        **orders.links_of(report),
    }


@member_required(Permission.ORDER)
def launch(place: Place, report: UUID) -> HttpResponse:
    """Show what the launch of a draft costs; a POST launches it for that."""
    found = place.get_report(report)
    place.require_live()
    if place.posted is not None:
        verb = partial(
            orders.launch_as_quoted, place.client, [found.pk], _seen_digest(place)
        )
        done = _("Launched: the checks run now.")
        return _carry_out(place, found, verb, "launched", done)
    actions = orders.actions_of(found)
    if not actions["launch"]:
        blockers = blocker_texts(actions["blockers"], actions["consent_gap"])
        return place.to_report(found.pk, error=" ".join(blockers))
    (lines,), digest = quote_launch(place.client, [found])
    if owes_unasked(found, (line.price for line in lines)):
        unpaid = [LaunchObstacle.PAYMENT_OUTSTANDING]
        return place.to_report(found.pk, error=" ".join(blocker_texts(unpaid, None)))
    return _render_price(place, found, "launch", lines, digest)


@member_required(Permission.ORDER)
def retry(place: Place, report: UUID) -> HttpResponse:
    """Show the failed checks and their prices; a POST runs them again."""
    found = place.get_report(report)
    place.require_live()
    if place.posted is not None:
        verb = partial(
            orders.retry_as_quoted, place.client, found.pk, _seen_digest(place)
        )
        done = _("The failed checks run again.")
        return _carry_out(place, found, verb, "retried", done)
    if not orders.actions_of(found)["retry"]:
        return place.to_report(found.pk, error=NOT_RETRYABLE)
    lines, digest = quote_retry(found)
    return _render_price(place, found, "retry", lines, digest)


def _seen_digest(place: Place) -> str:
    return place.request.POST.get("digest", "")


def _render_price(
    place: Place,
    report: Report,
    name: str,
    lines: Sequence[QuotedLine],
    digest: str,
) -> HttpResponse:
    shown = {
        "report": report,
        "lines": lines,
        "total": sum(line.price for line in lines),
        "digest": digest,
        "is_paid": report.payment_mode != PaymentMode.SELF,
    }
    return place.render(f"reports/{name}", shown)


@member_required(Permission.ORDER)
def cancel(place: Place, report: UUID) -> HttpResponse:
    """Show what a cancellation gives back; a POST cancels the report."""
    found = place.get_report(report)
    if place.posted is not None:
        verb = partial(
            orders.cancel_as_quoted, place.client, found.pk, _seen_digest(place)
        )
        done = _("The report is cancelled.")
        return _carry_out(place, found, verb, "cancelled", done)
    if found.is_ended:
        return place.to_report(found.pk, error=ENDED)
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
    place: Place, report: Report, verb: Callable[[], Any], action: str, done: Text
) -> HttpResponse:
    """Call a verb of the API and record it, or say why it is refused."""
    refusing = place.refusing(REFUSALS, "reports-detail", report=report.pk)
    with refusing, transaction.atomic():
        require_present(place.member, Permission.ORDER)
        verb()
        place.record(f"report.{action}", report)
    return place.to_report(report.pk, success=done)


# Why a verb was refused for a report
RefusedReport = tuple[Report, Text]


@dataclass(frozen=True)
class Chosen:
    """The reports that were chosen on one page of the list."""

    place: Place
    reports: list[Report]
    # The query of the list, to which the member returns
    query: str

    def back(self, *, success: Text = "", error: Text = "") -> HttpResponse:
        query = iri_to_uri(self.query)
        return self.place.to("reports", success=success, error=error, query=query)

    def render(self, name: str, **shown: Any) -> HttpResponse:
        more = {"reports": self.reports, "query": self.query}
        return self.place.render(f"reports/{name}", {**more, **shown})

    def carry_out(
        self,
        verb: Callable[[Report], Text | None],
        refusals: Refusals,
        done: Any,
        **words: str,
    ) -> HttpResponse:
        """Call the verb for each report, and say for which it was refused.

        The verb raises one of `refusals`, or returns why it refuses.
        """
        refused: list[RefusedReport] = []
        for report in self.reports:
            try:
                with transaction.atomic():
                    why = verb(report)
            except tuple(refusals) as e:
                why = refusal_text(refusals, e)
            if why:
                refused.append((report, why))
        count = len(self.reports) - len(refused)
        success = done % {"count": count, **words} if count else ""
        if not refused:
            return self.back(success=success)
        return self.render("many_done", success=success, refused=refused)


@post_required(Permission.SEE)
def act(place: Place) -> HttpResponse:
    """Do what the pressed button says with the chosen reports."""
    typed = place.request.POST
    chosen = Chosen(place, _read_reports(place), typed.get("query", ""))
    name = typed.get("verb", "")
    if name not in VERBS or not chosen.reports:
        return chosen.back(error=NO_CHOICE)
    permission, verb = VERBS[name]
    require_permission(place.member, permission)
    return verb(chosen)


def _read_reports(place: Place) -> list[Report]:
    """Return the chosen reports of this place, a page of the list at most."""
    typed = place.request.POST.getlist("report")[:PAGE_SIZE]
    ids = [id for one in typed if (id := read_id(one))]
    joined = Report.objects.select_related("consent", "payment", "workspace")
    found = joined.filter(pk__in=ids, **place.lookups).in_bulk()
    return [found[id] for id in dict.fromkeys(ids) if id in found]


def _cancel(chosen: Chosen) -> HttpResponse:
    """Show what a cancellation gives back; cancel the reports once it is confirmed."""
    place, typed = chosen.place, chosen.place.request.POST
    if "confirmed" not in typed:
        open_ones = [report for report in chosen.reports if not report.is_ended]
        if not open_ones:
            return chosen.render(
                "many_done", refused=[(one, ENDED) for one in chosen.reports]
            )
        shown = quote_cancellations(open_ones)
        return chosen.render(
            "many_cancel",
            count=len(open_ones),
            ended=len(chosen.reports) - len(open_ones),
            credit=sum(one.credit for one in shown.values()),
            digests={pk: one.digest for pk, one in shown.items()},
        )

    def cancel(report: Report) -> None:
        require_present(place.member, Permission.ORDER)
        digest = typed.get(f"shown-{report.pk}", "")
        orders.cancel_as_quoted(place.client, report.pk, digest)
        place.record("report.cancelled", report)

    return chosen.carry_out(cancel, REFUSALS, CANCELLED)


def _launch(chosen: Chosen) -> HttpResponse:
    """Show what the drafts cost; launch them together for the price that was shown."""
    place, typed = chosen.place, chosen.place.request.POST
    place.require_live()
    if "digest" not in typed:
        return _show_launch(chosen)
    require_order_rate(place)
    drafts = [report.pk for report in _quote(chosen).drafts]
    if not drafts:
        return _show_launch(chosen)
    try:
        with transaction.atomic():
            require_present(place.member, Permission.ORDER)
            orders.launch_as_quoted(place.client, drafts, typed["digest"])
            for report in chosen.reports:
                if report.pk in drafts:
                    place.record("report.launched", report)
    except InsufficientBalance:
        return _show_launch(chosen, NONE_LAUNCHED)
    except tuple(REFUSALS):
        return _show_launch(chosen, CHANGED)
    return chosen.back(success=LAUNCHED % {"count": len(drafts)})


def _quote(chosen: Chosen) -> LaunchQuote:
    return quote_launches(chosen.place.client, [one.pk for one in chosen.reports])


def _show_launch(chosen: Chosen, error: Text = "") -> HttpResponse:
    quoted = _quote(chosen)
    refused: list[RefusedReport] = [
        (report, " ".join(launch_refusal_texts(blockers, gap, faults)))
        for report, blockers, gap, faults in quoted.refused
    ]
    drafts = {report.pk for report in quoted.drafts} | {one.pk for one, _ in refused}
    refused += [(one, NOT_A_DRAFT) for one in chosen.reports if one.pk not in drafts]
    if not quoted.drafts:
        return chosen.render("many_done", refused=refused)
    return chosen.render(
        "many_launch",
        error=error,
        quoted=quoted,
        refused=refused,
        is_covered=covers(chosen.place.client, quoted.charge),
    )


def _retry(chosen: Chosen) -> HttpResponse:
    """Show what the failed checks cost; run them again once it is confirmed."""
    place, typed = chosen.place, chosen.place.request.POST
    place.require_live()
    if "confirmed" not in typed:
        failed = [one for one in chosen.reports if orders.actions_of(one)["retry"]]
        refused = [(one, NOT_RETRYABLE) for one in chosen.reports if one not in failed]
        if not failed:
            return chosen.render("many_done", refused=refused)
        quoted = {report: quote_retry(report) for report in failed}
        charged = [
            line.price
            for report, (lines, _digest) in quoted.items()
            if report.payment_mode == PaymentMode.SELF
            for line in lines
        ]
        return chosen.render(
            "many_retry",
            refused=refused,
            total=sum(charged),
            digests={report.pk: digest for report, (_lines, digest) in quoted.items()},
        )

    def retry(report: Report) -> None:
        require_present(place.member, Permission.ORDER)
        digest = typed.get(f"shown-{report.pk}", "")
        orders.retry_as_quoted(place.client, report.pk, digest)
        place.record("report.retried", report)

    return chosen.carry_out(retry, REFUSALS, RETRIED)


def _resend(chosen: Chosen) -> HttpResponse:
    """Send each subject or payer another link to the page that waits for them."""
    place = chosen.place

    def resend(report: Report) -> Text | None:
        require_present(place.member, Permission.ORDER)
        actions = orders.actions_of(report)
        links: HostedLinks[Any]
        if actions["resend_consent"]:
            name, links, is_reached = "consent", consent_links, reaches_subject(report)
        elif actions["resend_payment"]:
            name, links, is_reached = "payment", payment_links, reaches_payer(report)
        else:
            return NO_LINK
        if not is_reached:
            return NO_ADDRESS
        links.resend(place.client, report.pk)
        place.record(f"report.{name}-resent", report)
        return None

    return chosen.carry_out(resend, REFUSALS, LINKS_SENT)


def _assign(chosen: Chosen) -> HttpResponse:
    """Give the cases that nobody has to a member."""
    place = chosen.place
    member = read_id(place.request.POST.get("member", ""))
    found = deciders_of(place.workspace)
    to = found.filter(pk=member).first() if member else None
    if to is None:
        return chosen.back(error=NO_MEMBER)

    def assign(report: Report) -> None:
        who = place.by.actor
        obstacle = obstacle_of(report)
        if obstacle and open_case_of(place, report.pk) is None:
            raise ReportDecisionRefused(obstacle, report.status)
        cases.assign(place.client, report.pk, place.member, who, to=to.pk, seen=None)

    refusals: Refusals = {
        Case.DoesNotExist: NOT_IN_QUEUE,
        CaseRefused: case_refusal,
        ReportDecisionRefused: lambda e: NO_DECISION[e.obstacle],
    }
    return chosen.carry_out(assign, refusals, ASSIGNED, name=member_name(to))


# The name of a button -> the permission that its verb needs, and the verb
VERBS: dict[str, tuple[Permission, Callable[[Chosen], HttpResponse]]] = {
    "launch": (Permission.ORDER, _launch),
    "cancel": (Permission.ORDER, _cancel),
    "resend": (Permission.ORDER, _resend),
    "retry": (Permission.ORDER, _retry),
    "assign": (Permission.DECIDE_REPORTS, _assign),
}
