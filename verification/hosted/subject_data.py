"""The subject's pages and PDF of their own data, for a visitor who proves to be them.

Their addresses begin with that of the consent page, whose link and visit they share.
`subject_required` asks for proof: the challenge and, if the report has an address, a
code.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import wraps
from itertools import accumulate
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from verification.checks.finding_words import flag_text, label_of, summary_text, text_of
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import ACCESSIBLE_STATUSES, opens_data
from verification.consents.models import Consent, ConsentRecord, challenge_for_consent
from verification.consents.subject_messages import code_channels
from verification.decisions.models import (
    Decision,
    DecisionState,
    DecisionStatus,
    MakerKind,
    reason_text,
)
from verification.documents.pdf import render_document
from verification.hosted.consent import (
    ConsentPages,
    Context,
    OpenConsent,
    ProofViews,
    Stage,
    Visit,
    count_steps,
    page_context,
    pages,
)
from verification.hosted.hosted_pages import (
    VisitedView,
    client_context,
    render_page,
    require_rate,
    see_other,
)
from verification.privacy import access
from verification.privacy.access import SubjectReport
from verification.privacy.disclosures import RecipientKind, ReportRecipient
from verification.privacy.models import (
    Correction,
    CorrectionStatus,
    Origin,
    RequestKind,
    Rerun,
)
from verification.privacy.people import Proof
from verification.providers.referee import NAME as REFEREE
from verification.providers.registry import recipient
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.local_time import format_nairobi
from verification.web.pages import View, attachment, read_id
from workspaces.models import Environment, Workspace

# The limit for one report's subject: each download reads all of their reports.
DOWNLOADS_PER_MINUTE = 10
MAX_REPORTS_IN_PDF = 100

DAY = "j F Y"
MOMENT = "j F Y, H:i T"
# Characters of a value on the page; the documents have all of it.
SHOWN_LENGTH = 600
# Records of a list on the page, such as accounts
SHOWN_RECORDS = 5
# Checks on one page, so that it stays light. A report is never divided.
CHECKS_PER_PAGE = 6
# Every subject of these pages is a person.
UNSHOWN = {"subjectType"}

REPORT_STATES: dict[str, Any] = {
    ReportStatus.DRAFT: gettext_lazy("Prepared, not ordered yet"),
    ReportStatus.PENDING_CONSENT: gettext_lazy("Waits for your consent"),
    ReportStatus.PENDING_PAYMENT: gettext_lazy("Waits for payment"),
    ReportStatus.RUNNING: gettext_lazy("Under way"),
    ReportStatus.PARTIAL: gettext_lazy("Done in part"),
    ReportStatus.READY: gettext_lazy("Complete"),
    ReportStatus.FAILED: gettext_lazy("Could not be done"),
    ReportStatus.CANCELLED: gettext_lazy("Cancelled"),
}
RESULT_STATES: dict[str, Any] = {
    ResultStatus.PENDING: gettext_lazy("Waiting"),
    ResultStatus.RUNNING: gettext_lazy("Under way"),
    ResultStatus.FAILED: gettext_lazy("Could not be done"),
    ResultStatus.CANCELLED: gettext_lazy("Not done"),
}
CORRECTION_STATES: dict[str, Any] = {
    CorrectionStatus.OPEN: gettext_lazy("Received, not looked into yet"),
    CorrectionStatus.IN_REVIEW: gettext_lazy("Being looked into"),
    CorrectionStatus.CORRECTED: gettext_lazy("Corrected: the check was made again"),
    CorrectionStatus.CONFIRMED: gettext_lazy("Looked into: it stays as it is"),
    CorrectionStatus.WITHDRAWN: gettext_lazy("Withdrawn"),
}


TEMPLATES = {Stage.EXPIRED: "data/expired", Stage.UNPROVED: "data/unproved"}


class SubjectPages(ConsentPages):
    """The pages where a subject sees their data and uses their rights."""

    def path_of(self, row: UUID) -> str:
        return f"{super().path_of(row)}data/"

    def stage_of(self, consent: Consent, visit: Visit) -> Stage:
        return data_stage(consent, visit, now())


subject_pages = SubjectPages()
proofs = ProofViews(subject_pages)


def data_stage(consent: Consent, visit: Visit, at: datetime) -> Stage:
    """Return DATA, the missing proof, or why the link opens no data.

    CANCELLED stands for a request that is still open, which has no such pages.
    """
    if visit.generation != consent.generation or consent.expires_at is None:
        return Stage.REPLACED
    if not opens_data(consent, at):
        is_late = consent.status in ACCESSIBLE_STATUSES
        return Stage.EXPIRED if is_late else Stage.CANCELLED
    if consent.report.erased_at:
        return Stage.DATA
    challenge = challenge_for_consent(consent)
    if challenge and not visit.is_confirmed(consent):
        if consent.is_locked_for_good:
            return Stage.LOCKED_FOR_GOOD
        return Stage.LOCKED if consent.is_locked(at) else Stage.CHALLENGE
    if visit.proved_channel(consent):
        return Stage.DATA
    if not code_channels(consent):
        # A link alone proves nothing: the client may have passed it on to anybody.
        return Stage.DATA if challenge else Stage.UNPROVED
    if consent.is_locked_for_good:
        return Stage.LOCKED_FOR_GOOD
    return Stage.LOCKED if consent.is_locked(at) else Stage.CODE


@subject_pages.read
def show(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Show the subject's data, or the next step of the proof."""
    if visited.stage == Stage.CANCELLED:
        return see_other(pages.path_of(visited.consent.pk))
    if visited.stage == Stage.DATA:
        return _show_data(request, visited)
    context = page_context(request, visited) | _proof_paths(visited)
    template = TEMPLATES.get(visited.stage, visited.stage.value)
    return render_page(request, template, context, visited.status)


def _show_data(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    report = visited.consent.report
    if report.erased_at:
        return see_other(reverse("hosted:deletion", args=[visited.consent.pk]))
    if visited.visit.is_for_notice:
        return see_other(
            reverse("hosted:data-newest-notice", args=[visited.consent.pk])
        )
    access.record_access(report, RequestKind.ACCESS)
    # The report at which the page before ended
    older_than = read_id(request.GET.get("older-than", ""))
    # One more than fit on a page, to know whether another follows
    most = CHECKS_PER_PAGE + 1
    known = access.reports_of(proof_of(visited), older_than)[:most]
    shown = first_page(known)
    found = access.load_reports(shown, now())
    return render_data(
        request,
        visited,
        "found",
        found=[report_view(one, is_short=True) for one in found],
        is_first=older_than is None,
        older=shown[-1].pk if len(shown) < len(known) else None,
    )


def subject_required(
    view: VisitedView[OpenConsent], pages: SubjectPages = subject_pages
) -> View:
    """Let in a visitor who is proved to be the subject; send others to the proof.

    The view gets the request, the OpenConsent and the rest of the address. The data may
    be erased: `visited.consent.report.erased_at`.
    """

    @pages.visit_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, **rest: Any) -> HttpResponse:
        if visited.stage != Stage.DATA:
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, **rest)

    return gated


def data_required(view: VisitedView[OpenConsent]) -> View:
    """Like `subject_required`; the page of an erased report says that it is erased."""

    @subject_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, **rest: Any) -> HttpResponse:
        if visited.consent.report.erased_at:
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, **rest)

    return gated


@require_safe
@data_required
def pdf(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the data as a PDF (PDF/UA), in the language of the page."""
    report = _require_download(visited)
    at = now()
    known = access.reports_of(proof_of(visited))
    shown = known[:MAX_REPORTS_IN_PDF]
    found = access.load_reports(shown, at)
    access.record_access(report, RequestKind.ACCESS)
    data = pdf_data(found, at, is_all=len(known) == len(shown))
    document = render_document("subject_data.typ", at, data)
    return attachment(document, "my-data.pdf")


@require_safe
@data_required
def json(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the data for programs: the right to portability."""
    report = _require_download(visited)
    at = now()
    found = access.load_reports(access.reports_of(proof_of(visited)), at)
    access.record_access(report, RequestKind.PORTABILITY)
    content = orjson.dumps(access.as_json(found, at), option=orjson.OPT_INDENT_2)
    return attachment(content, "my-data.json", "application/json")


def _require_download(visited: OpenConsent) -> Report:
    report = visited.consent.report
    require_rate(f"downloads:{report.pk}", DOWNLOADS_PER_MINUTE)
    return report


def proof_of(visited: OpenConsent) -> Proof:
    """Return the visitor's proof: the report, and the address of the code."""
    channel = visited.visit.proved_channel(visited.consent)
    return Proof.of(visited.consent.report, channel)


def data_context(visited: OpenConsent) -> Context:
    """Return what all pages behind the gate show."""
    report = visited.consent.report
    return {
        "consent_id": visited.consent.pk,
        "data_path": subject_pages.path_of(visited.consent.pk),
        **client_context(report.workspace, report.environment),
    }


def render_data(
    request: HttpRequest, visited: OpenConsent, name: str, **shown: Any
) -> HttpResponse:
    """Render a template of `hosted/data` behind the gate."""
    return render_page(request, f"data/{name}", data_context(visited) | shown)


def _proof_paths(visited: OpenConsent) -> Context:
    row = [visited.consent.pk]
    return {
        "is_access": True,
        "confirm_path": reverse("hosted:data-confirm", args=row),
        "send_code_path": reverse("hosted:data-send-code", args=row),
        "code_path": reverse("hosted:data-code", args=row),
        "steps": count_steps(visited.consent),
    }


def first_page(reports: Sequence[Report]) -> list[Report]:
    """Return the first reports that have CHECKS_PER_PAGE together, or one report."""
    sizes = accumulate(len(report.checks_requested) for report in reports)
    fitting = sum(size <= CHECKS_PER_PAGE for size in sizes)
    return list(reports[: max(fitting, 1)])


def pdf_data(found: Sequence[SubjectReport], at: datetime, *, is_all: bool) -> Context:
    """Return the data of the PDF; it names every word, so the template has none."""
    views = [report_view(one) for one in found]
    return {
        "language": get_language() or "en",
        "number": found[0].report.number if len(found) == 1 else "",
        "words": {
            "title": _("What was found about you"),
            "page": _("Page"),
            "subject": _("Your details"),
            "checks": _("The checks"),
            "flags": _("What stood out"),
            "details": _("The details"),
            "corrections": _("What you said is wrong"),
            "rerun": _("The check was made again"),
            "recipients": _("Who has received it"),
            "nobody": _("Nobody yet."),
        },
        "lead": [
            _("As of %(moment)s.") % {"moment": format_nairobi(at, MOMENT)},
            "" if is_all else _("Older reports are in the file for programs (JSON)."),
            _("Questions: %(operator)s, %(contact)s.")
            % {
                "operator": settings.OPERATOR_NAME,
                "contact": settings.OPERATOR_CONTACT,
            },
        ],
        "test": _("This is a test. No real source is asked.")
        if found[0].report.environment == Environment.SANDBOX
        else "",
        "reports": [_plain(view) for view in views],
    }


def _plain(view: Context) -> Context:
    """Return the view without rows, for JSON."""
    checks = [
        {name: value for name, value in check.items() if name != "result"}
        for check in view["checks"]
    ]
    plain = {name: value for name, value in view.items() if name != "report"}
    return plain | {"checks": checks}


def report_view(one: SubjectReport, *, is_short: bool = False) -> Context:
    """Return the words about a report; `is_short` cuts long values."""
    return {
        "report": one.report,
        "number": one.report.number,
        "ordered_at": format_nairobi(one.report.created_at, MOMENT),
        "facts": list(_facts(one, is_short=is_short)),
        "notes": list(_notes(one)),
        "subject": _details(one.report.subject or {}, is_short=is_short),
        # Checks that the subject has to look at come first.
        "checks": sorted(
            (_check_view(r, one, is_short=is_short) for r in one.results),
            key=lambda check: check["mark"] != "look",
        ),
        "corrections": [
            correction_view(each, one.report.workspace) for each in one.corrections
        ],
        "recipients": [_recipient_text(each, one) for each in one.recipients],
        "declines": [
            (str(each.pk), each.number, _decline_text(each.decision, one))
            for each in one.notices
        ],
    }


def _decline_text(decline: Decision, one: SubjectReport) -> str:
    is_replaced = any(each.number > decline.number for each in one.client_decisions)
    if is_replaced or decline.state == DecisionState.WITHDRAWN:
        text = _("A decline of %(day)s does not count any more: read what became of it")
    else:
        text = _(
            "Your application was declined on %(day)s: read why, and what you can do"
        )
    return text % {"day": format_nairobi(decline.created_at, DAY)}


def correction_view(correction: Correction, workspace: Workspace) -> Context:
    """Return the words about a correction that the subject asked for."""
    statement = correction.statement or {}
    return {
        "id": str(correction.pk),
        "number": correction.request.number,
        "name": correction.result.definition.title,
        "state": str(CORRECTION_STATES[correction.status]),
        "is_open": correction.is_open,
        "is_confirmed": correction.status == CorrectionStatus.CONFIRMED,
        "what": statement.get("what") or "",
        "why": statement.get("why") or "",
        "reason": correction.reason or "",
        "reruns": [
            _rerun_text(rerun, correction, workspace)
            for rerun in correction.reruns.all()
        ],
        "opened": format_nairobi(correction.created_at, DAY),
        "due": format_nairobi(correction.due_at, DAY),
        "closed": format_nairobi(correction.decided_at, DAY)
        if correction.decided_at
        else "",
    }


def _rerun_text(rerun: Rerun, correction: Correction, workspace: Workspace) -> str:
    by_client = rerun.origin == Origin.CLIENT
    values = {
        "moment": format_nairobi(rerun.created_at, MOMENT),
        "who": one_line(workspace.requester.name)
        if by_client
        else settings.OPERATOR_NAME,
        "details": ", ".join(label_of(name) for name in rerun.fields),
        "end": _rerun_end(rerun, correction),
    }
    if rerun.fields:
        text = _("%(moment)s, by %(who)s, with other details (%(details)s): %(end)s.")
    else:
        text = _("%(moment)s, by %(who)s, with the same details: %(end)s.")
    return text % values


def _rerun_end(rerun: Rerun, correction: Correction) -> str:
    if rerun.result_id == correction.corrected_result_id:
        return _("the new result counts")
    ends = {
        ResultStatus.PENDING: _("it is under way"),
        ResultStatus.RUNNING: _("it is under way"),
        ResultStatus.COMPLETED: _("the new result does not count yet")
        if correction.is_open
        else _("the new result does not count"),
        ResultStatus.FAILED: _("it could not be made"),
        ResultStatus.CANCELLED: _("it was not made"),
    }
    return ends[ResultStatus(rerun.result.status)]


def _facts(one: SubjectReport, *, is_short: bool) -> Iterator[tuple[str, str]]:
    report = one.report
    requester = report.workspace.requester
    yield _("Asked by"), ", ".join(filter(None, [requester.name, requester.contact]))
    yield _("Why"), one_line(report.purpose)
    if report.reference:
        yield _("Reference"), one_line(report.reference)
    # The heading on the page says when.
    if not is_short:
        yield _("Ordered at"), format_nairobi(report.created_at, MOMENT)
    yield _("State"), str(REPORT_STATES[report.status])
    if consent := _consent_text(one):
        yield _("Your consent"), consent
    yield _("Overall result"), _score_text(report.risk_score)
    for decision in one.client_decisions:
        yield _("Decision"), _decision_text(decision)
    yield _("Kept until"), _kept_text(one)


def _decision_text(decision: Decision) -> str:
    outcomes = {
        DecisionStatus.APPROVED: _("Approved"),
        DecisionStatus.DECLINED: _("Declined"),
        DecisionStatus.REVIEW: _("A person looks at it"),
    }
    makers = {
        MakerKind.MEMBER: _("a person decided"),
        MakerKind.API_KEY: _("a program decided"),
        MakerKind.POLICY: _("rules decided, and no person"),
    }
    outcome = outcomes[DecisionStatus(decision.status)]
    maker = makers[MakerKind(decision.made_by_kind)]
    if decision.needs_second:
        maker = _("a person confirmed it")
    at = format_nairobi(decision.final_at, MOMENT) if decision.final_at else ""
    reasons = "; ".join(one_line(reason_text(reason)) for reason in decision.reasons)
    text = f"{outcome}: {at} ({maker})."
    return f"{text} {_('Reasons')}: {reasons}." if reasons else text


def _consent_text(one: SubjectReport) -> str:
    if one.consent is None:
        return ""
    if one.consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
        client = one_line(one.report.workspace.requester.name)
        return _("%(client)s states that it has it.") % {"client": client}
    words = {
        ConsentRecord.Decision.GRANTED: _("You agreed"),
        ConsentRecord.Decision.DECLINED: _("You did not agree"),
        ConsentRecord.Decision.WITHDRAWN: _("Your consent was withdrawn"),
        ConsentRecord.Decision.EXPIRED: _("Not answered in time"),
    }
    return "; ".join(
        f"{words[ConsentRecord.Decision(record.decision)]}: "
        f"{format_nairobi(record.created_at, MOMENT)} ({record.number})"
        for record in one.decisions
    )


def _kept_text(one: SubjectReport) -> str:
    if one.kept_until and one.is_held:
        text = _("%(day)s, or later: an open question about it is settled first")
        return text % {"day": format_nairobi(one.kept_until, DAY)}
    if one.kept_until:
        return format_nairobi(one.kept_until, DAY)
    report = one.report
    kept = report.workspace.retention_of(report.environment, report.created_at)
    return _("%(days)s days after its end") % {"days": kept.days}


def _notes(one: SubjectReport) -> Iterator[str]:
    if at := one.report.restricted_at:
        text = _("You objected on %(day)s: nobody uses it again or monitors you by it.")
        yield text % {"day": format_nairobi(at, DAY)}
    if one.disputed:
        yield _("You said that a result is wrong. It is being looked into.")


def _check_view(result: CheckResult, one: SubjectReport, *, is_short: bool) -> Context:
    finding, is_about_another = one.finding(result), result.pk in one.strangers
    summary = summary_text(result.name, finding, result.score, to_subject=True)
    if is_about_another:
        summary = _(
            "This number belongs to somebody else, whose details we do not show."
        )
    flags = [flag_text(f, to_subject=True) for f in finding.get("flags") or ()]
    is_made = result.status == ResultStatus.COMPLETED
    mark, state = "", RESULT_STATES.get(result.status, _("Not compared"))
    # A credit score alone may be risky, without a flag.
    is_risky = is_made and result.risk_level in {RiskLevel.MEDIUM, RiskLevel.HIGH}
    if flags or is_about_another or is_risky:
        mark, state = "look", _("Needs a look")
    elif is_made and result.score is not None:
        mark, state = "good", _("Agrees")
    details = _details(finding.get("details") or {}, is_short=is_short)
    return {
        "result": result,
        "name": result.definition.title,
        # `mark` is the class of the state on the page.
        "mark": mark,
        "state": str(state),
        "summary": summary,
        "is_about_another": is_about_another,
        "facts": list(_check_facts(result, one)),
        # The worst flag may be the summary.
        "flags": [text for text in flags if text != summary],
        "details": details,
        "is_disputed": result.pk in one.disputed,
        "can_dispute": is_made and result.pk not in one.disputed,
    }


def _check_facts(result: CheckResult, one: SubjectReport) -> Iterator[tuple[str, str]]:
    if result.status != ResultStatus.COMPLETED:
        return
    yield _("Source"), _source_text(result, one)
    if found_at := result.answered_at:
        yield _("Found on"), format_nairobi(found_at, MOMENT)
    if names := result.outdated_details(one.report.subject):
        yield _("Asked before a correction of"), ", ".join(map(label_of, names))
    yield _("Score"), _score_text(result.score)


def _source_text(result: CheckResult, one: SubjectReport) -> str:
    evidence = (result.finding or {}).get("evidence") or {}
    text = _source_name(evidence.get("provider") or "", result.name, one)
    if result.reused:
        return " ".join([text, _("It was asked for an earlier report.")])
    return text


def _source_name(source: str, check: str, one: SubjectReport) -> str:
    if one.report.environment == Environment.SANDBOX:
        return _("None: the result of a test is made up.")
    if source == REFEREE:
        return _("The referee who was named.")
    found = recipient(source, check, get_language() or "en")
    if found is None:
        return _("Lists that %(operator)s keeps itself.") % {
            "operator": settings.OPERATOR_NAME
        }
    named = f"{found.name} ({found.country})" if found.country else found.name
    if not found.register:
        return f"{named}."
    return _("%(name)s, which asked %(register)s.") % {
        "name": named,
        "register": found.register,
    }


def _score_text(score: int | None) -> str:
    if score is None:
        return _("None. Nothing was found that could be rated.")
    meanings = {
        RiskLevel.LOW: _("low risk: little or nothing speaks against you"),
        RiskLevel.MEDIUM: _("medium risk: something does not fit, or is not known"),
        RiskLevel.HIGH: _("high risk: something serious was found"),
    }
    return _("%(score)s of 100, %(meaning)s.") % {
        "score": score,
        "meaning": meanings[RiskLevel.of(score)],
    }


def _details(members: dict[str, Any], *, is_short: bool) -> list[tuple[str, str]]:
    """Return a label and a text for each member, and for each record of a list."""
    return [
        (label, _cut(text) if is_short else text)
        for name, value in members.items()
        if name not in UNSHOWN
        for label, text in _member_rows(name, value, is_short=is_short)
        if text
    ]


def _member_rows(name: str, value: Any, *, is_short: bool) -> Iterator[tuple[str, str]]:
    label = label_of(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        yield label, text_of(value, name)
        return
    shown = value[:SHOWN_RECORDS] if is_short else value
    for number, record in enumerate(shown, 1):
        yield f"{label} {number}" if len(value) > 1 else label, text_of(record)
    if more := len(value) - len(shown):
        yield label, _("%(count)s more are in the documents.") % {"count": more}


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]} …"


def _recipient_text(each: ReportRecipient, one: SubjectReport) -> str:
    values = {
        "client": one_line(one.report.workspace.requester.name),
        "operator": settings.OPERATOR_NAME,
        "host": each.host,
    }
    texts = {
        RecipientKind.API: _("%(client)s, by a program"),
        RecipientKind.PDF: _("%(client)s, as a document (PDF)"),
        RecipientKind.CONSOLE: _("%(client)s, on its pages here"),
        RecipientKind.WEBHOOK: _("%(host)s, where %(client)s has results sent"),
        RecipientKind.STAFF: _("Staff of %(operator)s"),
    }
    return f"{texts[each.kind] % values}: {_span(each.first_at, each.last_at)}"


def _span(first: datetime, last: datetime) -> str:
    days = [format_nairobi(first, DAY), format_nairobi(last, DAY)]
    if days[0] == days[1]:
        return days[0]
    return _("first %(first)s, last %(last)s") % {"first": days[0], "last": days[1]}
