"""The base of the admin pages of staff and of members: people who log in."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminEmailInputWidget

from verification.backoffice.model_admin import SEARCHED_LIST_TEMPLATE, BackofficeAdmin
from verification.backoffice.roles import is_superuser
from verification.backoffice.widgets import ReasonForm, dialog_action, redirect_back
from workspaces import logins


class AddressForm(ReasonForm):
    email = forms.EmailField(
        label="New e-mail address", max_length=254, widget=UnfoldAdminEmailInputWidget
    )
    field_order = ["email", "reason"]

    def clean_email(self) -> str:
        return logins.validate_free_address(self.cleaned_data["email"])


class PeopleAdmin(BackofficeAdmin):
    """Rows of people; `person` is the path from a row to its user.

    The list's search posts to the back office's search, as names and addresses of
    people must not be in a URL.
    """

    person = ""
    # Only the list of staff removes factors of staff, with a second superuser.
    removes_factors_of_staff = False
    search_ids: tuple[str, ...] = ()
    change_list_template = SEARCHED_LIST_TEMPLATE

    def user_of(self, row: Any) -> User:
        return getattr(row, self.person) if self.person else row

    def audited(self, obj: Model) -> Model:
        return User(pk=self.user_of(obj).pk)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        path = f"{self.person}__pk" if self.person else "pk"
        factors = Authenticator.objects.filter(user=OuterRef(path))
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.annotate(has_factor=Exists(factors))

    @admin.display(description="Second factor", boolean=True)
    def second_factor(self, row: Any) -> bool:
        return bool(row.has_factor)

    def has_people_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        """Return whether the user may change how the person logs in.

        Only a superuser may for staff, who can be members of workspaces too.
        """
        if not request.user.has_perm("auth.change_user"):
            return False
        row = self.get_object(request, object_id) if object_id else None
        is_of_staff = row is not None and self.user_of(row).is_staff
        return is_superuser(request.user) or not is_of_staff

    def has_factor_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        if not self.has_people_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        if row is None or not row.has_factor:
            return False
        return self.removes_factors_of_staff or not self.user_of(row).is_staff

    @dialog_action(
        "Remove the second factor",
        "The password alone logs this person in until another one is set up; "
        "staff cannot work before. Be sure that it is they who ask.",
        "Remove it",
        ReasonForm,
        description="Remove the second factor",
        icon="phonelink_erase",
        permissions=["factor"],
    )
    def remove_factor(
        self, request: HttpRequest, form: Any, object_id: str
    ) -> HttpResponse:
        row, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        with transaction.atomic():
            logins.remove_second_factors(self.user_of(row))
            change = "second factor removed"
            self.log_change(request, row, change, verb="factor-removed", reason=reason)
        self.message_user(request, "The second factor is removed.", messages.SUCCESS)
        return redirect_back(request, row)

    def has_address_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        if not self.has_people_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        return row is None or not logins.address_change_refusal(self.user_of(row))

    @dialog_action(
        "Change the e-mail address",
        "The old address logs nobody in any more. The new one is confirmed by a "
        "link at the next login. Be sure that it is they who ask.",
        "Change it",
        AddressForm,
        description="Change the e-mail address",
        icon="alternate_email",
        permissions=["address"],
    )
    def change_email(
        self, request: HttpRequest, form: Any, object_id: str
    ) -> HttpResponse:
        row, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        user, email = self.user_of(row), form.cleaned_data["email"]
        if user.pk == request.user.pk:
            refusal = "Change your own address where you change your password."
            self.message_user(request, refusal, messages.ERROR)
            return redirect_back(request, row)
        with transaction.atomic():
            try:
                user = logins.change_address(user.pk, email)
            except logins.AddressChangeRefused as refused:
                self.message_user(request, str(refused), messages.ERROR)
                return redirect_back(request, row)
            self.address_changed(request, user)
            change = "e-mail address changed"
            self.log_change(request, row, change, verb="email-changed", reason=reason)
        self.message_user(request, "The address is changed.", messages.SUCCESS)
        return redirect_back(request, row)

    @dialog_action(
        "End the sessions",
        "This person is logged out everywhere, and may log in again.",
        "End them",
        ReasonForm,
        description="End the sessions",
        icon="logout",
        permissions=["people"],
    )
    def end_sessions(
        self, request: HttpRequest, form: Any, object_id: str
    ) -> HttpResponse:
        row, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        with transaction.atomic():
            self.user_of(row).sessions.all().delete()
            change = "sessions ended"
            self.log_change(request, row, change, verb="sessions-ended", reason=reason)
        self.message_user(request, "The sessions are ended.", messages.SUCCESS)
        return redirect_back(request, row)

    def address_changed(self, request: HttpRequest, user: User) -> None:
        """Hook for what a new address causes, in the same transaction."""
