from django.contrib import admin

from verification.backoffice import ReadOnlyAdmin
from webhooks.models import Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["name", "workspace", "environment", "report_id", "created_at"]
    list_filter = ["environment", "name"]
    list_select_related = ["workspace"]
    search_ids = ("id", "report_id")
    # The payload holds personal data and is shown to nobody.
    fields = [
        "id",
        "name",
        "workspace",
        "environment",
        "report_id",
        "cause",
        "created_at",
    ]
