"""What staff fill in about workspaces, their keys and their money."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import ValidationError

from workspaces import keys
from workspaces.accounts import create_workspace
from workspaces.members import give_to
from workspaces.models import Account, ApiKey, Environment, Scope, Workspace, all_scopes

# Play money is for the sandbox, and the sandbox is for play money.
REAL_MONEY = [c for c in Account.Billing.choices if c[0] != Account.Billing.PLAY]


class NewWorkspace(forms.ModelForm):
    owner = forms.EmailField(label="E-mail of the owner")
    billing = forms.ChoiceField(choices=REAL_MONEY)

    class Meta:
        model = Workspace
        fields = ["name", "kind"]

    def save(self, commit: bool = True) -> Workspace:
        email = self.cleaned_data["owner"]
        workspace = create_workspace(
            name=self.cleaned_data["name"],
            owner_email=email,
            kind=Workspace.Kind(self.cleaned_data["kind"]),
            billing=Account.Billing(self.cleaned_data["billing"]),
        )
        give_to(workspace, email)
        return workspace

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


class Terms(forms.ModelForm):
    """How a workspace pays in production."""

    billing = forms.ChoiceField(choices=REAL_MONEY)

    class Meta:
        model = Account
        fields = ["billing", "credit_limit", "ceiling", "low_balance_at"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        credit = cleaned.get("credit_limit", 0)
        prepaid = cleaned.get("billing") == Account.Billing.PREPAID
        if prepaid and self.instance.balance < -credit:
            raise ValidationError("The balance is below what this would allow.")
        ceiling = cleaned.get("ceiling")
        if not prepaid and ceiling is not None and self.instance.balance < -ceiling:
            owed = f"{self.instance.currency} {-self.instance.balance:,.2f}"
            raise ValidationError(f"The workspace owes {owed}, more than this ceiling.")
        return cleaned


# Beside the list of actions Django takes no action whose form is wrong and does not
# say why; so these take anything and the action itself looks at it.
class Suspension(ActionForm):
    reason = forms.CharField(required=False)


class MovementAsked(ActionForm):
    amount = forms.CharField(required=False)
    note = forms.CharField(required=False)


class Movement(forms.Form):
    amount = forms.DecimalField(max_digits=14, decimal_places=2)
    note = forms.CharField(max_length=200, required=False)
