from django.contrib import admin

from verification.references.models import Reference
from verification.references.requests import (
    ReferenceClosed,
    asked_subject,
    reference_links,
)
from verification.reports.admin import HostedLinkAdmin
from verification.reports.hosted_links import ResendTooSoon


@admin.register(Reference)
class ReferenceAdmin(HostedLinkAdmin):
    links = reference_links
    visitor = "referee"
    refusals = (ReferenceClosed, ResendTooSoon)
    list_display = [
        "number",
        "report_page",
        "status",
        "attempt",
        "expires_at",
        "reminded",
    ]
    list_filter = ["status"]
    search_ids = ("id", "report_id", "result_id")
    number_letter = "R"
    personal_fields = ("answers_and_evidence",)
    fields = [
        "id",
        "number",
        "report_page",
        "result_id",
        "attempt",
        "status",
        "masked_address",
        "generation",
        "link_made_at",
        "expires_at",
        "reminded_at",
        "submitted_at",
        "declined_at",
        "created_at",
    ]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("answers", "evidence")

    @admin.display(description="Answers and evidence")
    def answers_and_evidence(self, reference):
        return {"answers": reference.answers, "evidence": reference.evidence}

    @admin.display(description="Reminded", boolean=True)
    def reminded(self, reference):
        return reference.reminded_at is not None

    @admin.display(description="Referee's address")
    def masked_address(self, reference):
        subject = asked_subject(reference)
        name, _, host = subject.get("refereeEmail", "").rpartition("@")
        return f"{name[:1]}…@{host}" if host else "-"
