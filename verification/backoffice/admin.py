"""The audit trail, and the roles of staff."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.models import Group, User

from verification.backoffice.model_admin import (
    BackofficeAdmin,
    DateRangeFilter,
    ReadOnlyAdmin,
    exact_filter,
)
from verification.backoffice.models import AuditEvent
from verification.backoffice.roles import ROLES, SUPERUSER, is_superuser

admin.site.index_title = "Dashboard"
# Staff and members have pages of their own.
admin.site.unregister(User)
admin.site.unregister(Group)
# These pages would show secrets, and let staff edit addresses.
admin.site.unregister(EmailAddress)
admin.site.unregister(Authenticator)
for _model in (SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(_model)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "actor", "action", "object", "reason", "request_id"]
    # Staff type whole values: a list of choices would read the whole table.
    list_filter = [
        exact_filter("actor", "actor"),
        exact_filter("action", "action"),
        exact_filter("object_id", "object's id"),
        exact_filter("workspace_id", "workspace's id", is_id=True),
        ("created_at", DateRangeFilter),
    ]
    list_filter_submit = True
    search_ids = ("id", "workspace_id")
    search_exact = ("object_id", "actor", "action")
    ordering = ["-created_at"]
    fields = [
        "id",
        "created_at",
        "actor_kind",
        "actor",
        "action",
        "object",
        "workspace_id",
        "fields",
        "reason",
        "request_id",
    ]
    personal_fields = ("address",)

    @admin.display(description="Object")
    def object(self, event):
        return f"{event.object_type} {event.object_id}"


@admin.register(Group)
class GroupAdmin(BackofficeAdmin, DjangoGroupAdmin):
    ordering = ["name"]  # type: ignore[misc]
    search_ids = ()
    search_exact = ("name",)

    # Code finds roles by their names, so a new name would change permissions.
    def get_readonly_fields(self, request, obj=None):
        is_role = obj is not None and obj.name in {*ROLES, SUPERUSER}
        return ["name"] if is_role else []

    def has_add_permission(self, request):
        return super().has_add_permission(request) and is_superuser(request.user)

    def has_change_permission(self, request, obj=None):
        allowed = super().has_change_permission(request, obj)
        return allowed and is_superuser(request.user)

    def save_model(self, request, obj, form, change):
        obj.save()
