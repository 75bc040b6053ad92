"""The audit trail, and who may come in here."""

from allauth.account.models import EmailAddress
from allauth.account.utils import filter_users_by_email
from allauth.mfa.models import Authenticator
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from verification.backoffice.filters import Between, exactly
from verification.backoffice.models import AuditEvent
from verification.backoffice.office import OfficeAdmin, ReadOnlyAdmin

admin.site.index_title = "Dashboard"
admin.site.unregister(User)
admin.site.unregister(Group)
# Secrets of second factors, and addresses that allauth's own page lets staff edit.
admin.site.unregister(EmailAddress)
admin.site.unregister(Authenticator)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "actor", "action", "object", "reason", "request_id"]
    # Typed in full: to ask the table which there are would read all of it.
    list_filter = [
        exactly("actor", "actor"),
        exactly("action", "action"),
        exactly("object_id", "object's id"),
        exactly("workspace_id", "workspace's id", is_uuid=True),
        ("created_at", Between),
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


class UserForm(UserChangeForm):
    def clean_email(self):
        """People log in by it, so it is nobody else's."""
        email = self.cleaned_data["email"].strip().lower()
        if not email and self.instance.email:
            raise ValidationError("They log in by it: give another one.")
        if any(user != self.instance for user in filter_users_by_email(email)):
            raise ValidationError("Somebody else has this address.")
        return email


@admin.register(User)
class UserAdmin(OfficeAdmin, DjangoUserAdmin):
    """Who leaves is made inactive: what they did keeps their name."""

    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "is_staff", "is_superuser", "last_login"]
    list_filter = ["is_staff", "is_superuser", "is_active", "groups"]
    ordering = ["username"]  # type: ignore[misc]
    search_ids = ()
    search_exact = ("username", "email")
    actions = ["remove_factors"]
    sure = {
        "remove_factors": "Their password alone logs them in until they set up another "
        "one, and staff cannot work before. Be sure that it is they who ask."
    }

    def save_model(self, request, obj, form, change):
        # All at once: a user is a row that nobody else writes meanwhile.
        obj.save()
        if change and "email" in form.changed_data:
            # By the old one nobody logs in or asks for a password any more; the new one
            # is confirmed by a link at the next login.
            EmailAddress.objects.filter(user=obj).delete()
            EmailAddress.objects.create(user=obj, email=obj.email, primary=True)

    @admin.action(description="Remove the second factor", permissions=["change"])
    def remove_factors(self, request, users):
        for user in users:
            with transaction.atomic():
                removed, _ = Authenticator.objects.filter(user=user).delete()
                if removed:
                    told = "second factor removed"
                    self.log_change(request, user, told, verb="factor-removed")
            told = f"{user} has no second factor any more."
            self.message_user(request, told, messages.SUCCESS)


@admin.register(Group)
class GroupAdmin(OfficeAdmin, DjangoGroupAdmin):
    ordering = ["name"]  # type: ignore[misc]
    search_ids = ()
    search_exact = ("name",)

    def save_model(self, request, obj, form, change):
        obj.save()
