"""The base of the admin pages of staff and of members: people who log in."""

from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminEmailInputWidget

from verification.backoffice.model_admin import SEARCHED_LIST_TEMPLATE, BackofficeAdmin
from verification.backoffice.roles import is_superuser
from verification.backoffice.widgets import ReasonForm, dialog_verb
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
        if row is None or not (row.has_factor and self.user_of(row).is_active):
            return False
        return self.removes_factors_of_staff or not self.user_of(row).is_staff

    @dialog_verb(
        "Remove the second factor",
        "The password alone logs this person in until another one is set up; "
        "staff cannot work before. Be sure that it is they who ask.",
        "Remove it",
        ReasonForm,
        description="Remove the second factor",
        icon="phonelink_erase",
        permissions=["factor"],
        audited="factor-removed",
        change="second factor removed",
    )
    def remove_factor(self, request: HttpRequest, form: Any, row: Any) -> str:
        logins.remove_second_factors(self.user_of(row))
        return "The second factor is removed."

    def has_address_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        if not self.has_people_permission(request, object_id):
            return False
        row = self.get_object(request, object_id) if object_id else None
        return row is None or not logins.address_change_refusal(self.user_of(row))

    @dialog_verb(
        "Change the e-mail address",
        "The old address can no longer log in. The new one is confirmed by a "
        "link at the next login. Be sure that it is they who ask.",
        "Change it",
        AddressForm,
        description="Change the e-mail address",
        icon="alternate_email",
        permissions=["address"],
        audited="email-changed",
        change="e-mail address changed",
        refusals=logins.AddressChangeRefused,
    )
    def change_email(self, request: HttpRequest, form: Any, row: Any) -> str:
        user = self.user_of(row)
        if user.pk == request.user.pk:
            why = "Change your own address where you change your password."
            raise logins.AddressChangeRefused(why)
        changed = logins.change_address(user.pk, form.cleaned_data["email"])
        self.address_changed(request, changed)
        return "The address is changed."

    @dialog_verb(
        "End the sessions",
        "This person is logged out everywhere, and may log in again.",
        "End them",
        ReasonForm,
        description="End the sessions",
        icon="logout",
        permissions=["people"],
        audited="sessions-ended",
    )
    def end_sessions(self, request: HttpRequest, form: Any, row: Any) -> str:
        self.user_of(row).sessions.all().delete()
        return "The sessions are ended."

    def address_changed(self, request: HttpRequest, user: User) -> None:
        """Hook for what a new address causes, in the same transaction."""
