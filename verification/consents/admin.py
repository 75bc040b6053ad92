from django.contrib import admin

from verification.backoffice import ReadOnlyAdmin
from verification.consents.models import Consent


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    list_display = ["id", "report", "mode", "status", "expires_at"]
    list_filter = ["status", "mode"]
    list_select_related = ["report"]
    search_ids = ("id", "report_id")
    fields = ["id", "report", "mode", "status", "generation", "expires_at"]
