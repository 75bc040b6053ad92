from django.contrib import admin

from verification.backoffice.model_admin import ReadOnlyAdmin
from verification.watchlists.models import Edition


@admin.register(Edition)
class EditionAdmin(ReadOnlyAdmin):
    list_display = [
        "list",
        "published_on",
        "entry_count",
        "is_current",
        "loaded_at",
        "confirmed_at",
    ]
    list_filter = ["list", "is_current"]
    search_exact = ("sha256",)
    fields = [*list_display, "sha256"]
