"""Reports: the list, and the page and PDF of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification.checks.events import consent_status_of
from verification.checks.finding_words import (
    flag_text,
    label_of,
    summary_text,
    text_of,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.packages import package_of, packages_of
from verification.consents.links import AccessNotSendable, send_access_link
from verification.consents.models import reason_of
from verification.console.base import (
    Place,
    Refusals,
    Text,
    member_required,
    names_of_actors,
    post_required,
)
from verification.console.batches import batch_of
from verification.console.case_pages import case_context, deciders, open_case_of
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
    COUNTRIES,
    FilterForm,
    date_field,
    filter_field,
    search_field,
)
from verification.console.report_actions import action_context
from verification.console.sandbox_pages import describe_message
from verification.console.words import WORDS, Topic, choices_of
from verification.decisions import decide as verbs
from verification.decisions.case_list import standings_of
from verification.decisions.decide import Maker, ReportDecisionRefused
from verification.documents.report import report_pdf
from verification.privacy.certificates import certificate_pdf
from verification.privacy.disclosures import record_disclosures
from verification.privacy.erasure import erasure_of
from verification.privacy.models import Channel, Erasure
from verification.reports.hosted_links import ResendTooSoon, client_messages
from verification.reports.models import SUBJECT_LABELS, Report, StatusChange
from verification.reports.queries import Filters, Sort, list_reports
from verification.reports.request import InvalidRequest
from verification.values.local_time import NAIROBI
from verification.web.pages import attachment
from workspaces.members import Permission, has_permission


class ReportFilters(FilterForm):
    """The list's filters; its tabs choose the status, its headings the order."""

    search = search_field(
        widget=forms.TextInput(
            attrs={"placeholder": _("Name, ID number, reference or report ID")}
        )
    )
    status = filter_field(_("Status"), choices_of(Topic.REPORT), hidden=True)
    subject_type = filter_field(_("Subject"), choices_of(Topic.SUBJECT))
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
    "NO_PERSON": _("The report is about no person who could be asked."),
    "NO_ADDRESS": _("The report has no address of its subject."),
    "ERASED": _("The details of the subject were erased."),
    "NOT_ME": _("The person at this address is not the subject."),
    "UNANSWERED": _("The subject has not answered your request yet."),
}
NOT_SENT: Refusals = {
    AccessNotSendable: lambda e: NO_DATA_LINK[e.why],
    ResendTooSoon: _("A link was sent less than a minute ago."),
}


@member_required()
def listing(place: Place) -> HttpResponse:
    form = ReportFilters(place.request.GET)
    page = list_reports(*place.where, form.filters(), sort=form.order, **place.paging)
    rated = [row.pk for row in page.rows if row.risk_score is not None]
    record_disclosures(rated, Channel.CONSOLE, place.client.actor)
    may_decide = has_permission(place.member, Permission.DECIDE_REPORTS)
    shown = {
        "form": form,
        "page": page,
        "statuses": choices_of(Topic.REPORT),
        "sort": form.order,
        "standings": standings_of([row.pk for row in page.rows]),
        "packages": packages_of(page.rows),
        "deciders": deciders(place) if may_decide else (),
        "many": may_decide or has_permission(place.member, Permission.ORDER),
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
    form = decision_form(place, found)
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
            return place.to("reports-detail", success=SENT_BEFORE, report=report)
        why = REFUSALS[e.obstacle]
        return place.to("reports-detail", error=why, report=report)
    except InvalidRequest:
        # Somebody deactivated a reason at this moment.
        form.add_error("codes", _("Choose reasons that are offered here"))
        return _render_report(place, found, form)
    return after_decision(place, made, case)


def _render_report(
    place: Place, found: Report, form: DecisionForm | None = None
) -> HttpResponse:
    place.record("report.opened", found)
    record_disclosures([found.pk], Channel.CONSOLE, place.client.actor)
    results = found.results.select_related("definition").order_by("position")
    subject = found.subject or {}
    consent = getattr(found, "consent", None)
    erasure = erasure_of(found) if found.erased_at else None
    shown = {
        "report": found,
        "package": package_of(found),
        "batch": batch_of(found),
        "subject": [
            (_label_of(name), text)
            for name, value in subject.items()
            if (text := _subject_text(name, value))
        ],
        "corrections": found.corrections.select_related("request").order_by("id"),
        "results": [result_context(result, found) for result in results],
        "consent": consent,
        # A draft may name none, although its checks need one.
        "consent_status": consent_status_of(found),
        "reason": reason_of(consent) if consent else None,
        "payment": getattr(found, "payment", None),
        "messages_sent": [describe_message(m) for m in client_messages(found)],
        "timeline": _timeline_of(found),
        "erasure": erasure if erasure and erasure.ended_at else None,
        **decision_context(place, found, form),
        **case_context(place, found),
        **action_context(place, found),
    }
    return place.render("reports/detail", shown)


def _label_of(name: str) -> Text:
    if name == "subjectType":
        return _("About whom")
    return SUBJECT_LABELS.get(name) or label_of(name)


def _subject_text(name: str, value: Any) -> str:
    if name == "subjectType":
        return str(WORDS[Topic.SUBJECT][value])
    if name == "country":
        return str(dict(COUNTRIES).get(value, value))
    return text_of(value, name)


def _timeline_of(report: Report) -> list[tuple[StatusChange, str]]:
    """Return each change with its actor, a member by name."""
    changes = list(report.status_changes.all())
    names = names_of_actors(report.workspace_id, {one.actor for one in changes})
    return [(one, names.get(one.actor, one.actor)) for one in changes]


@member_required()
def pdf(place: Place, report: UUID) -> HttpResponse:
    found = place.get_report(report)
    place.record("report.pdf-downloaded", found)
    record_disclosures([found.pk], Channel.PDF, place.client.actor)
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
    """Send the subject a link by which they see what was found about them."""
    found = place.get_report(report)
    refusing = place.refusing(NOT_SENT, "reports-detail", report=found.pk)
    with refusing, transaction.atomic():
        send_access_link(place.client, found.pk)
        place.record("report.data-link-sent", found)
    sent = _("The subject gets a link to their data.")
    return place.to("reports-detail", success=sent, report=found.pk)


def result_context(result: CheckResult, report: Report | None = None) -> dict[str, Any]:
    """Return what a page shows of a result, in its report if that is given."""
    outdated = result.outdated_details(report.subject) if report else []
    finding = result.finding or {}
    details = (finding.get("details") or {}).items()
    return {
        "name": result.definition.display_name,
        "status": result.status,
        "is_disputed": result.disputed_at is not None,
        "is_done": result.status == ResultStatus.COMPLETED,
        "level": result.risk_level,
        "score": result.score,
        "summary": summary_text(result.name, finding, result.score)
        or result.failure_message,
        "failure": result.failure_code,
        "flags": [
            {**flag, "message": flag_text(flag)} for flag in finding.get("flags") or ()
        ],
        "details": [(label_of(k), text) for k, v in details if (text := text_of(v, k))],
        "price": result.price,
        "reused": result.reused,
        "outdated": ", ".join(map(label_of, outdated)),
        "at": result.completed_at,
    }
