from django.contrib import admin, messages
from django.db import transaction

from verification.backoffice.model_admin import ReadOnlyAdmin, link
from verification.references.models import Reference
from verification.references.requests import ReferenceClosed, reference_links
from verification.reports.links import ResendTooSoon


@admin.register(Reference)
class ReferenceAdmin(ReadOnlyAdmin):
    list_display = ["id", "report_page", "status", "attempt", "expires_at", "reminded"]
    list_filter = ["status"]
    search_ids = ("id", "report_id", "result_id")
    actions = ["send_new_link"]  # type: ignore[assignment]
    sure = {"send_new_link": "It goes to the referee; the old one stops working."}
    personal_fields = ("what_was_answered",)
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

    @admin.display(description="Report")
    def report_page(self, reference):
        # By hand: the report itself is not needed.
        report = reference._meta.get_field("report").related_model
        return link(report(pk=reference.report_id))

    @admin.display(description="Answers and evidence")
    def what_was_answered(self, reference):
        return {"answers": reference.answers, "evidence": reference.evidence}

    @admin.display(description="Reminded", boolean=True)
    def reminded(self, reference):
        return reference.reminded_at is not None

    @admin.display(description="Referee's address")
    def masked_address(self, reference):
        subject = reference.report.subject or {}
        name, _, host = subject.get("refereeEmail", "").rpartition("@")
        return f"{name[:1]}…@{host}" if host else "-"

    def has_send_new_link_permission(self, request):
        return request.user.has_perm("references.change_reference")

    @admin.action(description="Send a new link", permissions=["send_new_link"])
    def send_new_link(self, request, references):
        for reference in references:
            try:
                with transaction.atomic():
                    reference_links.renew(reference.pk)
                    self.log_change(
                        request, reference, "sent a new link", verb="link-sent"
                    )
            except ReferenceClosed as e:
                message = f"{reference} takes no answer any more: {e.status}."
                self.message_user(request, message, messages.ERROR)
            except ResendTooSoon as e:
                self.message_user(request, f"{reference}: {e}", messages.ERROR)
            else:
                message = f"A new link goes to the referee of {reference}."
                self.message_user(request, message, messages.SUCCESS)
