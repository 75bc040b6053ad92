"""What staff fill in about workspaces, their keys and their money."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import ValidationError

from workspaces import keys
from workspaces.accounts import create_workspace
from workspaces.models import Account, ApiKey, Environment, Scope, Workspace, all_scopes


class NewWorkspace(forms.ModelForm):
    owner_email = forms.EmailField()
    billing = forms.ChoiceField(
        choices=[c for c in Account.Billing.choices if c[0] != Account.Billing.PLAY]
    )

    class Meta:
        model = Workspace
        fields = ["name", "kind"]

    def save(self, commit: bool = True) -> Workspace:
        return create_workspace(
            name=self.cleaned_data["name"],
            owner_email=self.cleaned_data["owner_email"],
            kind=Workspace.Kind(self.cleaned_data["kind"]),
            billing=Account.Billing(self.cleaned_data["billing"]),
        )

    def save_m2m(self) -> None:
        pass


class NewKey(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        initial=all_scopes,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = ApiKey
        fields = ["workspace", "environment", "name", "expires_at"]

    # Known once it is saved, and nowhere else.
    text = ""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        workspace = cleaned.get("workspace")
        production = cleaned.get("environment") == Environment.PRODUCTION
        approved = workspace and workspace.go_live == Workspace.GoLive.APPROVED
        if workspace and production and not approved:
            raise ValidationError(f"{workspace} is not approved to go live.")
        return cleaned

    def save(self, commit: bool = True) -> ApiKey:
        key, self.text = keys.issue(**self.cleaned_data)
        return key

    def save_m2m(self) -> None:
        pass


class Suspension(ActionForm):
    reason = forms.CharField(max_length=500, required=False, label="Reason")


class MovementDetails(forms.Form):
    amount = forms.DecimalField(max_digits=14, decimal_places=2, required=False)
    note = forms.CharField(max_length=200, required=False)


class Movement(MovementDetails, ActionForm):
    pass
