from django.contrib import admin

from verification.backoffice.model_admin import ReadOnlyAdmin
from verification.decisions.models import Decision


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    """The client decides; staff only read, and see texts and note after a reveal."""

    list_display = ["id", "report_page", "status", "state", "made_by_kind", "final_at"]
    list_filter = ["status", "state", "made_by_kind", "environment"]
    list_select_related = ["notice"]
    search_ids = ("id", "report_id")
    fields = [
        "id",
        "workspace",
        "environment",
        "report_page",
        "number",
        "status",
        "state",
        "made_by_kind",
        "made_by",
        "policy_version",
        "needs_second",
        "second_by",
        "second_at",
        "final_at",
        "notice_number",
        "created_at",
    ]
    personal_fields = ("content",)

    @admin.display(description="Notice")
    def notice_number(self, decision):
        notice = getattr(decision, "notice", None)
        return f"{notice.number}, {notice.get_state_display()}" if notice else "-"
