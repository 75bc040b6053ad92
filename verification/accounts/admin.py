"""The list of staff: superusers add colleagues and end their access."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from unfold.enums import ActionVariant
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminEmailInputWidget,
)

from verification.accounts import colleagues
from verification.accounts.colleagues import StaffChangeRefused
from verification.accounts.models import Colleague, StaffRequest
from verification.backoffice.roles import SUPERUSER, is_superuser
from verification.backoffice.widgets import FactsForm, ReasonForm, dialog_verb
from verification.values.clock import now
from verification.values.local_time import format_nairobi
from workspaces.logins import (
    address_change_refusal,
    lock_address,
    validate_free_address,
)
from workspaces.members import is_last_owner
from workspaces.people_admin import PeopleAdmin

REQUESTED_NOTICE = "It is asked for. Another superuser has to agree within a day."


class ColleagueForm(forms.ModelForm):
    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        label="Roles",
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )

    # The superuser who fills in the form.
    by: Colleague

    class Meta:
        model = Colleague
        fields = ["first_name", "groups"]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["first_name"].label = "Name"
        self.fields["first_name"].required = True
        if not (self.instance.pk and is_superuser(self.instance)):
            # Only `promote` gives this role, by two superusers.
            roles: Any = self.fields["groups"]
            roles.queryset = roles.queryset.exclude(name=SUPERUSER)
        elif self.instance.is_superuser:
            # `createsuperuser` sets the flag and no role.
            given = {*self.initial["groups"], *Group.objects.filter(name=SUPERUSER)}
            self.initial["groups"] = list(given)

    def clean_groups(self):
        roles = self.cleaned_data["groups"]
        stays = any(role.name == SUPERUSER for role in roles)
        if self.instance.pk and is_superuser(self.instance) and not stays:
            try:
                colleagues.require_another_superuser(self.instance, by=self.by)
            except StaffChangeRefused as e:
                raise ValidationError(str(e)) from e
        return roles


class NewColleagueForm(ColleagueForm):
    email = forms.EmailField(
        label="E-mail address", max_length=254, widget=UnfoldAdminEmailInputWidget
    )

    def clean_email(self):
        # If two superusers add the same person, the second one finds the address taken.
        colleagues.lock_superusers()
        lock_address(self.cleaned_data["email"])
        return validate_free_address(self.cleaned_data["email"])

    def save(self, commit=True):
        given = self.cleaned_data
        return colleagues.add(
            given["email"], given["first_name"], given["groups"], by=self.by
        )

    def save_m2m(self):
        pass


class AccessForm(ReasonForm):
    def facts(self):
        colleague = Colleague.objects.get(pk=self.object_id)
        return [("Colleague", colleague), ("Roles", roles_of(colleague))]


class RequestForm(ReasonForm):
    """A dialog that shows the requester, if any, to the superuser who approves."""

    kind: StaffRequest.Kind

    def facts(self):
        colleague = Colleague.objects.get(pk=self.object_id)
        request = colleagues.find_request(self.kind, colleague)
        requester = "nobody yet"
        if request:
            requester = f"{request.requested_by}: {request.reason}"
        return [
            ("Colleague", colleague),
            ("E-mail address", colleague.email),
            ("Asked for by", requester),
        ]


class FactorRemovalForm(RequestForm):
    kind = StaffRequest.Kind.FACTOR_REMOVAL


class PromotionForm(RequestForm):
    kind = StaffRequest.Kind.PROMOTION


class InvitationForm(FactsForm):
    def facts(self):
        colleague = Colleague.objects.get(pk=self.object_id)
        return [("Colleague", colleague), ("To", colleague.email)]


def roles_of(colleague):
    names = {role.name for role in colleague.groups.all()}
    if colleague.is_superuser:
        names.add(SUPERUSER)
    return ", ".join(sorted(names)) or "none"


@admin.register(Colleague)
class ColleagueAdmin(PeopleAdmin):
    list_display = [
        "name",
        "email",
        "roles",
        "second_factor",
        "standing",
        "last_login",
    ]
    list_filter = ["is_active", "groups"]
    ordering = ["first_name", "username"]
    readonly_fields = [
        "user_name",
        "email",
        "standing",
        "second_factor",
        "last_login",
        "date_joined",
    ]
    removes_factors_of_staff = True
    filter_horizontal = ["user_permissions"]
    actions_detail = [
        "invite_again",
        "change_email",
        "promote",
        "remove_factor",
        "end_sessions",
        "deactivate",
        "reactivate",
    ]
    offers = {
        "invite": lambda user: user.is_active and not user.has_usable_password(),
        "reactivate": lambda user: not user.is_active,
        "promote": lambda user: (
            user.is_active
            and user.has_usable_password()
            and user.has_factor
            and not is_superuser(user)
        ),
    }

    def get_queryset(self, request):
        staff = super().get_queryset(request)
        return staff.select_related("staff_invitation").prefetch_related("groups")

    def get_fieldsets(self, request, obj=None):
        if obj is None:
            return [(None, {"fields": ["email", "first_name", "groups"]})]
        beyond = (
            "A role is what most people need: these are given to this person alone."
        )
        return [
            (
                None,
                {
                    "fields": ["first_name", "groups", *self.readonly_fields],
                    "description": address_change_refusal(obj),
                },
            ),
            (
                "Permissions beyond the roles",
                {
                    "fields": ["user_permissions"],
                    "classes": ["collapse"],
                    "description": beyond,
                },
            ),
        ]

    def get_readonly_fields(self, request, obj=None):
        return self.readonly_fields if obj else []

    def get_form(self, request, obj=None, change=False, **kwargs):
        if not change:
            kwargs["form"] = NewColleagueForm
        elif self.has_change_permission(request, obj):
            kwargs["form"] = ColleagueForm
        form = super().get_form(request, obj, change, **kwargs)
        form.by = request.user
        return form

    def formfield_for_manytomany(self, db_field, request, **kwargs):
        if db_field.name == "user_permissions":
            known = Permission.objects.select_related("content_type")
            kwargs["queryset"] = known.order_by("content_type", "codename")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    # A person who may change staff can give themselves every permission.
    def has_add_permission(self, request):
        return super().has_add_permission(request) and is_superuser(request.user)

    def has_change_permission(self, request, obj=None):
        allowed = super().has_change_permission(request, obj)
        return allowed and is_superuser(request.user)

    def has_people_permission(self, request, object_id=None):
        return self.has_change_permission(request)

    def changeform_view(self, request, *arguments, **more):
        if request.method != "POST" or not is_superuser(request.user):
            return super().changeform_view(request, *arguments, **more)
        # A form that read the row before a deactivation would restore the access.
        with transaction.atomic():
            colleagues.lock_superusers()
            if not colleagues.superusers().filter(pk=request.user.pk).exists():
                raise PermissionDenied
            return super().changeform_view(request, *arguments, **more)

    def save_model(self, request, obj, form, change):
        if change:
            super().save_model(request, obj, form, change)

    def save_related(self, request, form, formsets, change):
        super().save_related(request, form, formsets, change)
        if change:
            colleagues.set_roles(form.instance, form.cleaned_data["groups"])

    def response_add(self, request, obj, post_url_continue=None):
        message = f"{obj} is added; an invitation goes to {obj.email}."
        self.message_user(request, message, messages.SUCCESS)
        return self.response_post_save_add(request, obj)

    @admin.display(description="Name", ordering="first_name")
    def name(self, colleague):
        return str(colleague)

    @admin.display(description="User name, as the audit trail has it")
    def user_name(self, colleague):
        return colleague.get_username()

    @admin.display(description="Roles")
    def roles(self, colleague):
        return roles_of(colleague)

    @admin.display(description="Standing")
    def standing(self, colleague):
        if not colleague.is_active:
            return "deactivated"
        if colleague.has_usable_password():
            return "active"
        invitation = getattr(colleague, "staff_invitation", None)
        if invitation is None or invitation.expires_at <= now():
            return "invitation over"
        return f"invited until {format_nairobi(invitation.expires_at, 'j F')}"

    def has_deactivate_permission(self, request, object_id=None):
        colleague = self.changeable_row(request, object_id)
        return bool(
            colleague and colleague.is_active and colleague.pk != request.user.pk
        )

    def has_act_permission(self, request, object_id=None):
        return self.has_change_permission(request)

    def address_changed(self, request, user):
        if not user.has_usable_password():
            colleagues.invite(user, by=request.user)

    @dialog_verb(
        "Send another invitation",
        "A new link goes out; the old one stops working.",
        "Send the invitation",
        InvitationForm,
        description="Send another invitation",
        icon="forward_to_inbox",
        permissions=["invite"],
        audited="invited",
    )
    def invite_again(self, request, form, colleague):
        colleagues.invite(colleague, by=request.user)
        return "An invitation is sent."

    @dialog_verb(
        "Deactivate this colleague",
        "They are logged out at once, and their password stops working. What they "
        "did keeps their name.",
        "Deactivate",
        AccessForm,
        description="Deactivate",
        icon="person_off",
        variant=ActionVariant.DANGER,
        permissions=["deactivate"],
        audited="deactivated",
    )
    def deactivate(self, request, form, colleague):
        colleagues.deactivate(colleague, by=request.user)
        owned = colleague.memberships.filter(workspace__suspended_at=None)
        left = [m.workspace.name for m in owned.order_by("pk") if is_last_owner(m)]
        if not left:
            return "The access is ended."
        return (
            f"The access is ended. Without an owner now: {', '.join(left)}. "
            "Reactivate them if they are to make another member the owner."
        )

    @dialog_verb(
        "Reactivate this colleague",
        "They get a link by which they choose a new password. They keep their "
        "second factor and all roles but Superuser.",
        "Reactivate",
        AccessForm,
        description="Reactivate",
        icon="person_add",
        variant=ActionVariant.SUCCESS,
        permissions=["reactivate"],
        audited="reactivated",
    )
    def reactivate(self, request, form, colleague):
        colleagues.reactivate(colleague, by=request.user)
        return "An invitation is sent."

    @dialog_verb(
        "Remove the second factor",
        "Two superusers do this: one asks, another agrees within a day. Be sure "
        "that it is the colleague who asks. Their password alone logs them in "
        "then, and they set up another factor before they work.",
        "Ask or agree",
        FactorRemovalForm,
        description="Remove the second factor",
        icon="phonelink_erase",
        permissions=["factor"],
    )
    def remove_factor(self, request, form, colleague):
        return self._run_with_two(
            request,
            form,
            colleague,
            colleagues.remove_factor,
            approved="factor-removed",
            requested="factor-removal-asked",
            done="The second factor is removed.",
        )

    @dialog_verb(
        "Make this colleague a superuser",
        "Two superusers do this: one asks, another agrees within a day. "
        "Superusers may do everything, so be sure who reads this mailbox.",
        "Ask or agree",
        PromotionForm,
        description="Make a superuser",
        icon="shield_person",
        permissions=["promote"],
    )
    def promote(self, request, form, colleague):
        return self._run_with_two(
            request,
            form,
            colleague,
            colleagues.promote,
            approved="promoted",
            requested="promotion-asked",
            done="The colleague is a superuser now.",
        )

    def _run_with_two(
        self, request, form, colleague, verb, *, approved, requested, done
    ):
        """Run a verb that needs two superusers, and audit which of the two acts."""
        reason = form.cleaned_data["reason"]
        is_done = verb(colleague, by=request.user, reason=reason)
        action = approved if is_done else requested
        self.log_change(request, colleague, action, verb=action, reason=reason)
        return done if is_done else REQUESTED_NOTICE
