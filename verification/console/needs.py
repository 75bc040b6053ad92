"""The tasks of a member on the home page: by role, the most urgent one first.

Each count stops soon, so that the page costs the same at a million reports.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from monitoring.models import NEWEST_FIRST, Severity, alerts_of
from verification.consents.models import Consent, ConsentStatus
from verification.console.alert_words import alert_sentences
from verification.console.base import Place, Text
from verification.console.case_pages import to_hand_over_here
from verification.console.navigation import MOST, Count
from verification.db.base import force_custom_plan
from verification.decisions import policies
from verification.decisions.case_list import open_cases_of
from verification.figures.summary import Figures
from verification.reports.models import Report, ReportStatus
from verification.reports.request import catalogue
from verification.values.clock import now
from verification.values.local_time import format_nairobi
from webhooks.models import Configuration
from workspaces.members import Permission
from workspaces.models import Workspace

BAD, WAIT, INFO = "is-bad", "is-wait", "is-info"
ENDS_SOON = timedelta(days=3)
# The page counts links that end soon among this number of longest-waiting reports.
LONGEST_WAITING = 1_000
# The number of days whose spend predicts how long the balance lasts
SPEND_DAYS = 7
GoLive = Workspace.GoLive


@dataclass(frozen=True, slots=True)
class Need:
    """A task: its title, details, and the page for it."""

    ground: str
    icon: str
    title: Text
    url: str
    action: Text
    # The button's address, if it differs from `url`
    action_url: str = ""
    words: Text = ""
    about: Report | None = None
    due_at: datetime | None = None


@force_custom_plan()
def needs_of(place: Place, figures: Figures) -> list[Need]:
    """Return what the member's role can do something about."""
    found = [
        need
        for needed, find in FINDERS
        if needed in place.offered
        for need in find(place, figures)
    ]
    urgency = [BAD, WAIT, INFO]
    return sorted(found, key=lambda need: urgency.index(need.ground))


def _shown(count: int) -> dict[str, str]:
    return {"count": Count.text(count)}


def _waiting(place: Place, section: str) -> Count:
    return place.waiting.get(section, Count(0))


def _cases(place: Place, figures: Figures) -> Iterator[Need]:
    waiting = _waiting(place, "queue")
    if not waiting.waiting:
        return
    queue = place.url("queue")
    cases = open_cases_of(*place.where).select_related("report")
    first = cases.order_by("due_at", "report_id").first()
    if waiting.late and first:
        yield Need(
            BAD,
            "alarm-clock",
            ngettext(
                "%(count)s decision is overdue",
                "%(count)s decisions are overdue",
                waiting.late,
            )
            % _shown(waiting.late),
            f"{queue}?overdue=on",
            _("Decide"),
            action_url=place.url("reports-detail", report=first.pk),
            about=first.report,
            due_at=first.due_at,
        )
    own = cases.filter(assignee=place.member)
    if waiting.waiting > MOST:
        # The count has stopped, so the rest may be more than the difference.
        rest = waiting.waiting
    else:
        rest, own = waiting.waiting - waiting.late, own.exclude(due_at__lt=now())
    if rest > 0:
        mine = own[: MOST + 1].count()
        yield Need(
            WAIT if mine else INFO,
            "gavel",
            ngettext(
                "%(count)s report needs a decision",
                "%(count)s reports need a decision",
                rest,
            )
            % _shown(rest),
            queue,
            _("Open the queue"),
            words=ngettext(
                "%(count)s is assigned to you", "%(count)s are assigned to you", mine
            )
            % _shown(mine)
            if mine
            else "",
        )


def _deliveries(place: Place, figures: Figures) -> Iterator[Need]:
    failed = _waiting(place, "webhooks").waiting
    if not failed:
        return
    receiver = Configuration.objects.filter(**place.lookups).first()
    host = urlsplit(receiver.url).hostname if receiver else ""
    action, words = _("See why"), _("Their receiver was removed")
    if receiver and receiver.failing_since:
        since = format_nairobi(receiver.failing_since, "j M, H:i")
        words = _("%(host)s has not accepted an event since %(time)s")
        words %= {"host": host, "time": since}
    elif receiver and not receiver.enabled:
        words = _("Sending to %(host)s is off") % {"host": host}
    elif receiver:
        words = _("%(host)s answers again") % {"host": host}
        action = _("Send them again")
    yield Need(
        BAD,
        "webhook",
        ngettext(
            "%(count)s webhook delivery failed",
            "%(count)s webhook deliveries failed",
            failed,
        )
        % _shown(failed),
        f"{place.url('webhooks')}?status=FAILED",
        action,
        words=words,
    )


def _balance(place: Place, figures: Figures) -> Iterator[Need]:
    account = place.account
    left, limit = account.spendable, account.low_balance_at
    if left is None or limit is None or left > limit or not place.may_run_reports:
        return
    currency = account.currency
    last = list(figures.steps.values())[-SPEND_DAYS:]
    daily = sum((sums.spend for sums in last), Decimal(0)) / SPEND_DAYS
    words = _("%(amount)s left") % {"amount": f"{currency} {left:,.2f}"}
    if daily > 0 and left > 0:
        days = max(int(left / daily), 1)
        spent = _("at %(amount)s a day") % {"amount": f"{currency} {daily:,.0f}"}
        lasts = ngettext("about %(days)s day", "about %(days)s days", days)
        words = f"{words}: {lasts % {'days': days}} {spent}"
    yield Need(
        WAIT if left > 0 else BAD,
        "wallet",
        _("The balance is below your limit of %(amount)s")
        % {"amount": f"{currency} {limit:,.2f}"},
        place.url("money"),
        _("Top up") if place.top_up_url else _("See the balance"),
        action_url=place.top_up_url,
        words=words,
    )


def _policy(place: Place, figures: Figures) -> Iterator[Need]:
    if policies.is_broken(place.client):
        yield Need(
            BAD,
            "git-branch",
            _("Your policy is broken"),
            place.url("policy"),
            _("See why"),
            words=_("A person reviews each report until the rules are fixed"),
        )


def _corrections(place: Place, figures: Figures) -> Iterator[Need]:
    waiting = _waiting(place, "corrections")
    if waiting.waiting:
        yield Need(
            BAD if waiting.late else WAIT,
            "message-square-warning",
            ngettext(
                "%(count)s correction or request is open",
                "%(count)s corrections or requests are open",
                waiting.waiting,
            )
            % _shown(waiting.waiting),
            place.url("corrections"),
            _("Look into it"),
            words=ngettext("%(count)s is late", "%(count)s are late", waiting.late)
            % _shown(waiting.late)
            if waiting.late
            else "",
        )


def _notices(place: Place, figures: Figures) -> Iterator[Need]:
    count = to_hand_over_here(place)[: MOST + 1].count()
    if count:
        yield Need(
            WAIT,
            "file-text",
            ngettext(
                "%(count)s notice of a decline to deliver",
                "%(count)s notices of declines to deliver",
                count,
            )
            % _shown(count),
            place.url("queue-notices"),
            _("Deliver"),
            words=_("No message has reached the person"),
        )


def _consents(place: Place, figures: Figures) -> Iterator[Need]:
    waiting = Report.objects.filter(
        **place.lookups, status=ReportStatus.PENDING_CONSENT
    )
    count = waiting[: MOST + 1].count()
    if not count:
        return
    longest = waiting.order_by("created_at", "id").values("pk")[:LONGEST_WAITING]
    at = now()
    soon = Consent.objects.filter(
        report__in=longest,
        mode=Consent.Mode.SERVICE_HOSTED,
        status=ConsentStatus.PENDING,
        expires_at__range=(at, at + ENDS_SOON),
    )
    ending = soon[: MOST + 1].count()
    yield Need(
        WAIT if ending else INFO,
        "user-round-check",
        ngettext(
            "%(count)s report waits for consent",
            "%(count)s reports wait for consent",
            count,
        )
        % _shown(count),
        f"{place.url('reports')}?status={ReportStatus.PENDING_CONSENT}",
        _("See who"),
        words=ngettext(
            "%(count)s of the links ends within 3 days",
            "%(count)s of the links end within 3 days",
            ending,
        )
        % _shown(ending)
        if ending
        else "",
    )


def _alerts(place: Place, figures: Figures) -> Iterator[Need]:
    unread = alerts_of(place.client).filter(read=False).order_by(*NEWEST_FIRST)
    newest = list(unread.values_list("pk", "severity")[: MOST + 1])
    if not newest:
        return
    # Severities in their order of weight; of the same one, the newest alert
    weight = list(Severity.values)
    pk, severity = max(newest, key=lambda row: weight.index(row[1]))
    first = unread.get(pk=pk)
    # The sentence quotes a finding.
    place.disclose([first.report_id])
    names = {name: one.title for name, one in catalogue().items()}
    said = next(iter(alert_sentences(first, names)), first.title)
    is_critical = severity == Severity.CRITICAL
    critical = _("critical")
    yield Need(
        WAIT if is_critical else INFO,
        "activity",
        ngettext(
            "%(count)s new monitoring alert",
            "%(count)s new monitoring alerts",
            len(newest),
        )
        % _shown(len(newest)),
        f"{place.url('monitoring-alerts')}?read=no",
        _("See alerts"),
        action_url=place.url("monitoring-alert", alert=pk) if len(newest) == 1 else "",
        about=first.report,
        words=f"{said} ({critical})" if is_critical else said,
    )


def _going_live(place: Place, figures: Figures) -> Iterator[Need]:
    state, page = place.workspace.go_live, place.url("golive")
    if state == GoLive.REJECTED:
        title = _("Your application to go live was rejected")
        yield Need(BAD, "rocket", title, page, _("See why"))
    elif state in (GoLive.SUBMITTED, GoLive.IN_REVIEW):
        title = _("We are reviewing your application to go live")
        yield Need(INFO, "rocket", title, page, _("See how far"))
    elif not place.workspace.is_live and not place.is_sandbox:
        title = _("Go live with your company")
        words = _("Company details and documents; then a production key comes")
        yield Need(WAIT, "rocket", title, page, _("See what is needed"), words=words)


Finder = Callable[[Place, Figures], Iterator[Need]]
FINDERS: list[tuple[Permission, Finder]] = [
    (Permission.DECIDE_REPORTS, _cases),
    (Permission.MANAGE_WEBHOOKS, _deliveries),
    (Permission.MANAGE_SETTINGS, _policy),
    (Permission.MANAGE_SETTINGS, _balance),
    (Permission.DECIDE_CORRECTIONS, _corrections),
    (Permission.DECIDE_REPORTS, _notices),
    (Permission.ORDER, _consents),
    (Permission.DECIDE_REPORTS, _alerts),
    (Permission.GO_LIVE, _going_live),
]
