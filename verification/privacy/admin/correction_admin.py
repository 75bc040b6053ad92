"""Admin pages of corrections, where staff decide them."""

from django import forms
from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from verification.backoffice.model_admin import choice_filter
from verification.backoffice.widgets import (
    Facts,
    FactsForm,
    dialog_verb,
    link,
    link_by_id,
    table,
)
from verification.checks.finding_words import flag_text, humanise_name, text_of
from verification.checks.models import ResultStatus
from verification.decisions.findings import results_with_same_finding
from verification.golive.admin import ReviewAdmin, reviewer
from verification.privacy.admin.request_admin import due_text
from verification.privacy.admin.retention_admin import RowsOfReportsAdmin
from verification.privacy.corrections import (
    CorrectionRefused,
    confirm,
    correct,
    correctable_details,
    rerun,
    take,
)
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    CorrectionStatus,
    SubjectRequest,
)
from verification.reports.request import InvalidRequest

CorrectionFilter = choice_filter(
    "state",
    "state",
    {
        "open": ("open", lambda rows: rows.filter(status__in=OPEN_CORRECTIONS)),
        "overdue": (
            "overdue",
            lambda rows: rows.filter(request__in=SubjectRequest.objects.overdue()),
        ),
    },
)


class RerunForm(FactsForm):
    """Details of the subject to ask with; an empty field keeps that of the report.

    The name and the number together would be somebody else, and are refused.
    """

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        for name in correctable_details(self._correction()):
            self.fields[name] = forms.CharField(
                label=humanise_name(name),
                max_length=200,
                required=False,
                widget=UnfoldAdminTextInputWidget,
                help_text="Leave it empty unless it was wrong. Never change both the "
                "name and the number.",
            )

    @property
    def details(self) -> dict[str, str]:
        return {n: v for n, v in self.cleaned_data.items() if v and n in self.fields}

    def facts(self) -> Facts:
        row = self._correction()
        return [("Correction", row.request.number), ("Check", row.check_name)]

    def _correction(self) -> Correction:
        return Correction.objects.get(pk=self.object_id)


class DecisionForm(FactsForm):
    reason = forms.CharField(
        max_length=1000,
        widget=UnfoldAdminTextareaWidget,
        help_text="The person and the client read it.",
    )

    def facts(self) -> Facts:
        row = Correction.objects.get(pk=self.object_id)
        return [
            ("Correction", row.request.number),
            ("Check", row.check_name),
            ("Run again", row.rerun.status if row.rerun else "no"),
        ]


@admin.register(Correction)
class CorrectionAdmin(RowsOfReportsAdmin, ReviewAdmin):
    """The queue of corrections, with their clocks."""

    refusals = (CorrectionRefused, InvalidRequest)

    list_display = [
        "number",
        "check_name",
        "workspace",
        "status",
        "due",
        "taken_by",
        "rerun_status",
    ]
    list_filter = [CorrectionFilter, "status"]
    list_select_related = ["request", "report__workspace", "rerun"]
    search_ids = (*RowsOfReportsAdmin.search_ids, "result_id")
    audits_opening = True
    fields = [
        "number",
        "report_page",
        "workspace",
        "check_name",
        "status",
        "due",
        "taken_by",
        "taken_at",
        "rerun_status",
        "decided_by",
        "decided_at",
        "same_findings",
    ]
    personal_fields = ("said", "documents", "findings", "reason")
    actions_detail = ["take", "run_again", "correct", "confirm", "reveal"]
    own_pages = {"<uuid:row_id>/documents/<uuid:document_id>": "document"}

    @admin.display(description="Number")
    def number(self, row):
        return row.request.number

    @admin.display(description="Due", ordering="request__due_at")
    def due(self, row):
        return due_text(row.request)

    @admin.display(description="Check run again")
    def rerun_status(self, row):
        return row.rerun.get_status_display() if row.rerun else "-"

    @admin.display(description="Reports with the same finding")
    def same_findings(self, row):
        others = results_with_same_finding(row.result)[:50]
        links = ((link_by_id("reports.report", one.report_id),) for one in others)
        return format_html_join(", ", "{}", links) or "-"

    @admin.display(description="What the person says")
    def said(self, row):
        statement = row.statement or {}
        return {"what": statement.get("what"), "why": statement.get("why")}

    @admin.display(description="Documents")
    def documents(self, row):
        page = "admin:privacy_correction_document"
        links = (
            (reverse(page, args=[row.pk, one.pk]), one.name, filesizeformat(one.size))
            for one in row.documents.order_by("id")
        )
        return format_html_join(", ", '<a href="{}">{}</a> ({})', links)

    @admin.display(description="Findings")
    def findings(self, row):
        """Return the disputed finding and that of the re-run, side by side."""
        old, new = row.result, row.rerun
        shown = [
            ("Result", link(old, "Open"), link(new, "Open") if new else "-"),
            ("Status", old.status, new.status if new else "-"),
            ("Score", _score_text(old), _score_text(new)),
            ("Asked with", "The report", _changes_text(row)),
            *_compared(old.finding or {}, (new and new.finding) or {}),
        ]
        compared = table(["", "Disputed", "Run again"], shown)
        return format_html('<div class="compared">{}</div>', compared)

    @admin.display(description="Reason of the decision")
    def reason(self, row):
        return row.reason

    def file_name(self, document):
        return f"correction-{document.correction.request.number}"

    def has_take_permission(self, request, object_id=None):
        return self.offers_in(request, object_id, CorrectionStatus.OPEN)

    def has_review_permission(self, request, object_id=None):
        return self.offers_in(request, object_id, CorrectionStatus.IN_REVIEW)

    def has_correct_permission(self, request, object_id=None):
        return self.offers_in(
            request,
            object_id,
            CorrectionStatus.IN_REVIEW,
            lambda row: row.rerun and row.rerun.status == ResultStatus.COMPLETED,
        )

    @dialog_verb(
        "Take this correction",
        "The client and the person see that it is in review.",
        "Take it",
        description="Take for review",
        icon="front_hand",
        permissions=["take"],
    )
    def take(self, request, form, row):
        take(row.pk, reviewer(request))
        return "It is in review."

    @dialog_verb(
        "Run the check again",
        "It is free for the client, and changes nothing until it is accepted. We "
        "write to you when it has ended.",
        "Run it again",
        RerunForm,
        description="Run the check again",
        icon="replay",
        permissions=["review"],
    )
    def run_again(self, request, form, row):
        rerun(row.pk, reviewer(request), form.details)
        return "The check runs again."

    @dialog_verb(
        "Correct the report",
        "The new finding takes the place of the disputed one, and the report's "
        "score follows. The person and the client are told. It cannot be undone.",
        "Correct it",
        DecisionForm,
        description="Accept the new finding",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["correct"],
    )
    def correct(self, request, form, row):
        correct(row.pk, reviewer(request), form.cleaned_data["reason"])
        return "The report is corrected."

    @dialog_verb(
        "Confirm the finding",
        "It stays as it is. The person reads the reason, and may complain to the "
        "Data Protection Commissioner.",
        "Confirm it",
        DecisionForm,
        description="Confirm the disputed finding",
        icon="gavel",
        permissions=["review"],
    )
    def confirm(self, request, form, row):
        confirm(row.pk, reviewer(request), form.cleaned_data["reason"])
        return "The finding is confirmed."


def _score_text(result):
    if result is None or result.score is None:
        return "-"
    return f"{result.score} ({result.risk_level})"


def _changes_text(correction):
    asked = correction.rerun.inputs if correction.rerun else None
    known = correction.report.subject or {}
    changed = {k: v for k, v in (asked or {}).items() if known.get(k) != v}
    return text_of(changed) or "The report"


def _compared(old, new):
    """Return a row for the summary, the flags and each field of two findings."""
    yield "Summary", old.get("summary") or "-", new.get("summary") or "-"
    yield (
        "Flags",
        *("; ".join(map(flag_text, x.get("flags", ()))) for x in (old, new)),
    )
    before, after = old.get("details") or {}, new.get("details") or {}
    for name in dict.fromkeys([*before, *after]):
        texts = text_of(before.get(name), name), text_of(after.get(name), name)
        if any(texts):
            yield humanise_name(name), *texts
