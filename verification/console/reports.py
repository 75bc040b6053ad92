"""Reports: the list, and the page of one with its timeline, and its PDF."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.utils.functional import Promise
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext_lazy as _

from monitoring.models import rules_of
from verification.checks.events import consent_status_of
from verification.checks.finding_words import label_of, text_of
from verification.checks.models import (
    NAME_PARTS,
    CheckResult,
    ResultStatus,
    ordered_results,
)
from verification.checks.packages import package_of, packages_of
from verification.consents.links import AccessNotSendable, send_access_link
from verification.consents.models import reason_of
from verification.console.base import (
    Place,
    Refusals,
    Text,
    deciders_of,
    member_required,
    names_of_actors,
    post_required,
)
from verification.console.batches import batch_of
from verification.console.case_pages import case_context, open_case_of
from verification.console.decision_pages import (
    REFUSALS,
    SENT_BEFORE,
    DecisionForm,
    after_decision,
    decision_context,
    decision_form,
    decline_context,
    is_sent_twice,
)
from verification.console.fields import (
    FilterForm,
    date_field,
    filter_field,
    search_field,
)
from verification.console.finding_cards import result_context
from verification.console.report_actions import action_context
from verification.console.sandbox_pages import describe_message
from verification.console.words import STATES, WORDS, State, choices_of
from verification.decisions import decide as verbs
from verification.decisions.case_list import standing_of, standings_of
from verification.decisions.decide import Maker, ReportDecisionRefused
from verification.decisions.findings import results_where
from verification.decisions.notices import reports_under_correction
from verification.documents.report import report_pdf
from verification.privacy.certificates import certificate_pdf
from verification.privacy.erasure import erasure_of
from verification.privacy.models import Channel, Erasure
from verification.privacy.retention import kept_longer, kept_until
from verification.reports.hosted_links import ResendTooSoon, client_messages
from verification.reports.launch import present_price
from verification.reports.models import (
    SUBJECT_LABELS,
    Report,
    ReportStatus,
    RiskLevel,
)
from verification.reports.numbers import papers_of
from verification.reports.queries import Filters, Sort, list_reports
from verification.reports.request import InvalidRequest
from verification.reports.status import CHECK_ENDED, SUBJECT_ACTOR
from verification.values.clock import now
from verification.values.countries import country_name
from verification.values.local_time import NAIROBI, format_nairobi
from verification.values.masking import hide_staff
from verification.web.pages import attachment
from workspaces.members import Permission


class ReportFilters(FilterForm):
    """The list's filters; its tabs choose the status, its headings the order."""

    search = search_field(_("Name, ID number, reference or report ID"))
    status = filter_field(_("Status"), choices_of("report"), hidden=True)
    subject_type = filter_field(_("Subject"), choices_of("subject"))
    first = date_field(label=_("Ordered from"))
    last = date_field(label=_("Ordered until"))
    sort = filter_field(_("Order"), [(sort, sort) for sort in Sort], hidden=True)

    def filters(self) -> Filters:
        chosen = self.chosen
        del chosen["sort"]
        first, last = chosen.pop("first"), chosen.pop("last")
        return Filters(**chosen, first_day=first, last_day=last, zone=NAIROBI)

    @property
    def order(self) -> Sort:
        return Sort(self.chosen["sort"] or Sort.NEWEST)


NO_DATA_LINK = {
    "NO_PERSON": _("The report is not about a person who can be asked."),
    "NO_ADDRESS": _("The report has no address of its subject."),
    "ERASED": _("The details of the subject were erased."),
    "NOT_ME": _("The person at this address is not the subject."),
    "UNANSWERED": _("The subject has not answered your request yet."),
}
# Why a report failed; other texts are stored with it.
FAILURES = {
    "CHECKS_FAILED": _("Not all checks could be completed."),
    "CONSENT_DECLINED": _("The subject declined the checks."),
    "CONSENT_EXPIRED": _("The subject did not answer in time."),
    "PAYMENT_EXPIRED": _("Nobody paid in time."),
}
# The other reports about a subject that a report's page names.
MOST_OTHERS = 5
MOST_SAME_SUBJECT = 1_000
NOT_SENT: Refusals = {
    AccessNotSendable: lambda e: NO_DATA_LINK[e.why],
    ResendTooSoon: _("A link was made less than a minute ago. Try again in a minute."),
}


@member_required()
def listing(place: Place) -> HttpResponse:
    form = ReportFilters(place.request.GET)
    page = list_reports(
        *place.where,
        form.filters(),
        sort=form.order,
        **place.paging,
    )
    place.disclose_risks(page.rows)
    may_decide = Permission.DECIDE_REPORTS in place.offered
    shown = {
        "form": form,
        "page": page,
        "statuses": choices_of("report"),
        "sort": form.order,
        "standings": standings_of([row.pk for row in page.rows]),
        "disputed": reports_under_correction([row.pk for row in page.rows]),
        "packages": packages_of(page.rows),
        "deciders": deciders_of(place.workspace) if may_decide else (),
        "many": may_decide or Permission.ORDER in place.offered,
    }
    return place.render("reports/list", shown)


@member_required()
def detail(place: Place, report: UUID) -> HttpResponse:
    return _render_report(place, place.get_report(report))


@post_required(Permission.DECIDE_REPORTS)
def decide(place: Place, report: UUID) -> HttpResponse:
    """Decide about the report, or propose it to a second member.

    A decline asks first, on a page that says what follows.
    """
    found = place.get_report(report)
    form = decision_form(place, found, list(found.decisions.all()))
    if not form.is_valid():
        return _render_report(place, found, form)
    if form.has_to_confirm:
        return place.render("reports/decline", decline_context(found, form))
    maker = Maker.of_member(place.member, place.by.actor)
    case = open_case_of(place, report)
    try:
        made = verbs.decide(place.client, report, form.new_decision, maker)
    except ReportDecisionRefused as e:
        made_id = e.decision_id
        if made_id and is_sent_twice(place.member, form.new_decision, made_id):
            return place.to_report(report, success=SENT_BEFORE)
        return place.to_report(report, error=REFUSALS[e.obstacle])
    except InvalidRequest:
        # Somebody deactivated a reason at this moment.
        form.add_error("codes", _("Choose reasons that are offered here"))
        return _render_report(place, found, form)
    return after_decision(place, made, case)


@member_required()
def progress(place: Place, report: UUID) -> HttpResponse:
    """Return the report's page if it has changed since `seen`, or else status 204.

    An open page polls it while checks run, so it costs two short queries.
    """
    found = place.get_report(report)
    rows = found.results.only("completed_at", "tries")
    if place.request.GET.get("seen") == _state_of(found, rows):
        return HttpResponse(status=204)
    return _render_report(place, found)


def _state_of(report: Report, results: Iterable[CheckResult]) -> str:
    """Return what changes whenever the report or one of its checks moves on."""
    ended = sum(row.completed_at is not None for row in results)
    tries = sum(row.tries for row in results)
    return f"{report.updated_at.timestamp():.6f}-{ended}-{tries}"


def _render_report(
    place: Place, found: Report, form: DecisionForm | None = None
) -> HttpResponse:
    place.record("report.opened", found)
    place.disclose([found.pk])
    rows = list(found.results.select_related("definition").order_by("position"))
    disputed = set(results_where(found, Q(disputed_at__isnull=False)))
    corrected = set(results_where(found, ~Q(revision=0)))
    results = [
        result_context(result, found)
        | {"is_disputed": result in disputed, "is_corrected": result in corrected}
        for result in rows
    ]
    consent = getattr(found, "consent", None)
    erasure = erasure_of(found) if found.erased_at else None
    corrections = list(found.corrections.select_related("request").order_by("id"))
    priced = ordered_results(found) if corrections else rows
    states = zip(rows, results, strict=True)
    unpaid = {row.position for row, one in states if one["is_unpaid"]}
    paid = [row for row in priced if row.position not in unpaid]
    names = {row.name: row.definition.title for row in rows}
    timeline = timeline_of(found)
    decisions, case = decision_context(place, found, form), case_context(place, found)
    made = [one["row"] for one in reversed(decisions["decisions"])]
    may_answer = Permission.ANSWER_SUBJECTS in place.offered
    rules, rule_id = rules_of(place.client), found.monitoring_id
    # The rule of a run may have been deleted since. Two would bill each run twice.
    rule = rules.filter(pk=rule_id).first() if rule_id else None
    of_subject = rules.filter(subject_id=found.subject_id).order_by("status", "pk")
    rule = rule or of_subject.first()
    is_usable = found.is_ended and found.subject and not found.restricted_at
    may_monitor = Permission.MANAGE_MONITORING in place.offered
    shown = {
        "report": found,
        "package": package_of(found),
        "batch": batch_of(found),
        "country": country_name(found.country, get_language() or "en"),
        "ordered_by": timeline[-1].by if timeline else "",
        "subject": list(_subject_of(found)),
        "kept_until": _kept_text(found),
        "failure": FAILURES.get(found.failure_code, found.failure_message),
        "corrections": [(one, names.get(one.check_name, "")) for one in corrections],
        "results": sorted(results, key=lambda one: -(one["score"] or 0)),
        **_verdict_of(found, results),
        "total": present_price(place.client, found, paid),
        "standing": standing_of(
            ((one.status, one.state) for one in made), is_open=bool(case["case"])
        ),
        "consent": consent,
        # A draft may name none, although its checks need one.
        "consent_status": consent_status_of(found),
        "reason": reason_of(consent) if consent else None,
        "papers": papers_of(found),
        "payment": getattr(found, "payment", None),
        "rule": rule,
        "may_monitor": (
            may_monitor and place.may_run_reports and is_usable and not rule
        ),
        "can_send_data": may_answer and consent and not found.erased_at,
        "messages_sent": [describe_message(m) for m in client_messages(found)],
        "timeline": timeline,
        "others": _others_about_the_subject(found),
        "erasure": erasure if erasure and erasure.ended_at else None,
        "is_refreshed": not found.is_ended and found.status != ReportStatus.DRAFT,
        "seen": _state_of(found, rows),
        # People answer more slowly than sources.
        "pause": 5 if found.status == ReportStatus.RUNNING else 20,
        **decisions,
        **case,
        **action_context(place, found, rows),
    }
    return place.render("reports/detail", shown)


def _others_about_the_subject(report: Report) -> QuerySet[Report]:
    """Return the newest other reports about the same subject, but restricted ones.

    If there are more than MOST_SAME_SUBJECT, it looks at so many of them only: in the
    sandbox, a million reports may be about one test subject.
    """
    same = {"workspace": report.workspace_id, "environment": report.environment}
    found = Report.objects.filter(**same, subject_id=report.subject_id)
    found = found.filter(restricted_at=None).exclude(pk=report.pk)
    some = found.values("pk")[:MOST_SAME_SUBJECT]
    newest = Report.objects.filter(pk__in=some).order_by("-created_at", "-pk")
    return newest[:MOST_OTHERS]


def _verdict_of(report: Report, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the totals of the checks, and which of them made the risk."""
    severities = Counter(flag["severity"] for one in results for flag in one["flags"])
    count = severities.total()
    flags = ""
    if count:
        total = ngettext("%(count)s flag", "%(count)s flags", count) % {"count": count}
        each = (
            f"{severities[level]} {str(WORDS['risk'][level]).lower()}"
            for level in (RiskLevel.HIGH, RiskLevel.MEDIUM, RiskLevel.LOW)
            if severities[level]
        )
        flags = f"{total}: {', '.join(each)}"
    done = sum(one["is_done"] for one in results)
    progress = ngettext(
        "%(done)s of %(count)s completed",
        "%(done)s of %(count)s completed",
        len(results),
    )
    riskiest = (
        one["name"]
        for one in results
        if report.risk_score and one["score"] == report.risk_score
    )
    return {
        "checks": {
            "all": len(results),
            "done": done,
            "progress": progress % {"done": done, "count": len(results)},
            "failed": sum(one["status"] == ResultStatus.FAILED for one in results),
            "flags": flags,
        },
        "deciding_checks": ", ".join(riskiest),
    }


def _subject_of(report: Report) -> Iterator[tuple[Text, str]]:
    """Yield the details of the subject that the head of the page does not have."""
    subject = report.subject or {}
    above = {"subjectType", "country"}
    if subject.get("fullName"):
        above |= {*NAME_PARTS}
    for name, value in subject.items():
        if name not in above and (text := text_of(value, name)):
            yield SUBJECT_LABELS.get(name) or label_of(name), text


def _kept_text(report: Report) -> str:
    """Return when the details are erased, of an ended report that has them."""
    time = kept_until(report)
    if time is None or report.erased_at:
        return ""
    day = format_nairobi(time, "j M Y")
    if not kept_longer([report], now()):
        return day
    text = _("%(day)s, or later: an open question about it is settled first")
    return text % {"day": day}


@member_required()
def pdf(place: Place, report: UUID) -> HttpResponse:
    found = place.get_report(report)
    if found.erased_at:
        return place.to_report(found.pk, error=NO_DATA_LINK["ERASED"])
    place.record("report.pdf-downloaded", found)
    place.disclose([found.pk], Channel.PDF)
    document = report_pdf(found, get_language() or "en")
    return attachment(document, f"report-{found.pk}.pdf")


@member_required()
def certificate(place: Place, erasure: UUID) -> HttpResponse:
    """Return the certificate of an erasure that has ended."""
    found = Erasure.objects.select_related("request__workspace").get(
        pk=erasure,
        request__workspace=place.workspace,
        request__environment=place.environment,
        ended_at__isnull=False,
    )
    document = certificate_pdf(found, get_language() or "en")
    return attachment(document, f"{found.number}.pdf")


@post_required(Permission.ANSWER_SUBJECTS)
def send_data_link(place: Place, report: UUID) -> HttpResponse:
    """Send the subject an access link to their own data."""
    found = place.get_report(report)
    refusing = place.refusing(NOT_SENT, "reports-detail", report=found.pk)
    with refusing, transaction.atomic():
        send_access_link(place.client, found.pk)
        place.record("report.data-link-sent", found)
    done = _("The subject gets a link to their data.")
    return place.to_report(found.pk, success=done)


ERASED = "subject erased"
DRAFTED = State(_("Draft made"), "", "file-pen-line")
# Stored entry of the timeline -> its state on the page
HAPPENED: dict[str, State] = {
    "created": State(_("Ordered"), "", "file-pen-line"),
    "created without the referee": State(
        _("Ordered without the referee, who has not answered yet"), "", "file-pen-line"
    ),
    "launched": State(_("Launched: the checks run"), "", "play"),
    "retried": State(_("Failed checks run again"), "", "rotate-cw"),
    "check run again": State(_("A check ran again"), "", "rotate-cw"),
    "consent granted": State(_("Consent given"), "is-ok", "user-round-check"),
    "consent declined": State(_("Consent declined"), "is-bad", "user-round-x"),
    "consent expired": State(_("Nobody answered in time"), "is-bad", "alarm-clock"),
    "consent withdrawn": State(_("Consent withdrawn"), "is-bad", "undo-2"),
    "consent link locked for good": State(
        _("Too many wrong answers: the link is locked"), "is-bad", "lock"
    ),
    "subject asks for a new link": State(
        _("The subject asked for a new link"), "", "send"
    ),
    "payer asks for a new link": State(_("The payer asked for a new link"), "", "send"),
    "link to own data sent": State(
        _("A link to their data was made for the subject"), "", "send"
    ),
    "paid": State(_("Paid"), "is-ok", "hand-coins"),
    "payment expired": State(_("Not paid in time"), "is-bad", "alarm-clock"),
    ERASED: State(_("The details of the subject were erased"), "", "trash-2"),
    "cancelled": State(_("Cancelled"), "", "ban"),
    "retention is over": State(_("Cancelled, as it is no longer kept"), "", "ban"),
    "decided": State(_("Decided"), "is-ok", "gavel"),
    "decision proposed": State(_("A decision was proposed"), "is-wait", "users"),
    "proposal refused": State(_("The proposal was refused"), "", "x"),
    "proposal withdrawn": State(_("The proposal was taken back"), "", "undo-2"),
    "decline taken back": State(_("The decline was taken back"), "", "undo-2"),
    "decline waits until it counts": State(
        _("Declined; it counts once its time is up"), "is-wait", "hourglass"
    ),
    "decline ended before it counted": State(
        _("The decline ended before it counted"), "", "undo-2"
    ),
    "notice of the decline sent again": State(
        _("The notice of the decline was sent again"), "", "send"
    ),
    "notice of the decline handed over": State(
        _("The notice of the decline was handed over"), "is-ok", "hand"
    ),
    "review by a person asked for": State(
        _("The subject asked a person to review the decision"), "is-wait", "eye"
    ),
    "review by a person ended": State(_("The review by a person has ended"), "", "eye"),
    "correction opened": State(
        _("The subject disputed a finding"), "is-wait", "message-square-warning"
    ),
    "correction in_review": State(_("The dispute is being looked into"), "", "eye"),
    "correction corrected": State(
        _("The finding was corrected"), "is-ok", "circle-check"
    ),
    "correction confirmed": State(_("The finding stays as it is"), "", "circle-minus"),
    "correction withdrawn": State(_("The subject took the dispute back"), "", "undo-2"),
    "subject objected": State(_("The subject objected"), "is-bad", "octagon-alert"),
    "holder of a mistyped number erased": State(
        _("What belonged to another person was erased"), "", "trash-2"
    ),
}
ACTORS: dict[str, Promise] = {
    SUBJECT_ACTOR: _("the subject"),
    "payer": _("the payer"),
}
# Parts of the service that act without a person
AUTOMATIC = {"engine", "service", "erasure", "retention", "jobs"}


class Entry(NamedTuple):
    at: datetime
    text: Text
    ground: str
    icon: str
    # The actor; empty for the service itself
    by: Text


def timeline_of(report: Report) -> list[Entry]:
    """Return the history of the report, the newest entry first."""
    changes = list(report.status_changes.all())
    # A member who has left keeps their id.
    names: dict[str, Text] = {**ACTORS, **dict.fromkeys(AUTOMATIC, "")}
    actors = {one.actor for one in changes}
    names |= {actor: _("staff") for actor in actors if hide_staff(actor) != actor}
    names |= names_of_actors(report.workspace_id, actors)
    entries = []
    for change in changes:
        state = HAPPENED.get(change.trigger, State(change.trigger))
        if change.trigger == CHECK_ENDED:
            state = STATES["report"][change.target]
        elif (change.trigger, change.target) == ("created", ReportStatus.DRAFT):
            state = DRAFTED
        by = names.get(change.actor, change.actor)
        entries.append(Entry(change.created_at, *state, by))
    if report.erased_at and all(one.trigger != ERASED for one in changes):
        # The erasure of an ended report changes no status.
        entries.append(Entry(report.erased_at, *HAPPENED[ERASED], ""))
        entries.sort(key=lambda entry: entry.at)
    return entries[::-1]
