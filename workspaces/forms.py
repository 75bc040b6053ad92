"""Forms of the admin for workspaces, their keys and their money."""

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminEmailInputWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from verification.backoffice.widgets import Facts, FactsForm, ReasonForm
from verification.db.ids import uuid7
from verification.values.clock import now
from verification.values.local_time import format_nairobi
from verification.values.networks import WrongNetwork, read_networks
from workspaces import keys, staff_entries
from workspaces.create import create_workspace
from workspaces.ledger import InsufficientBalance
from workspaces.members import assign_owner
from workspaces.models import (
    Account,
    ApiKey,
    Environment,
    LedgerEntry,
    Scope,
    Workspace,
    default_scopes,
)

APPROVAL_NOTICE = "Needed: it is booked once another person approves it"
# Production bills real money; only the sandbox has play money.
REAL_MONEY = [c for c in Account.Billing.choices if c[0] != Account.Billing.PLAY]


class WorkspaceForm(forms.ModelForm):
    owner = forms.EmailField(label="E-mail of the owner")
    billing = forms.ChoiceField(choices=REAL_MONEY, widget=UnfoldAdminSelectWidget)
    page = forms.UUIDField(required=False, widget=forms.HiddenInput, initial=uuid7)

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
            workspace_id=self.cleaned_data["page"],
        )
        assign_owner(workspace, email)
        return workspace

    def save_m2m(self) -> None:
        pass


class NetworksForm(forms.ModelForm):
    """The fields of an API key that staff may change, with its networks."""

    def clean_networks(self) -> list[str]:
        try:
            return read_networks(self.cleaned_data["networks"])
        except WrongNetwork as e:
            raise ValidationError(str(e)) from None


class ApiKeyForm(NetworksForm):
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        initial=default_scopes,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = ApiKey
        fields = ["workspace", "environment", "name", "expires_at", "networks"]

    # The key itself; `save` sets it, and nothing else has it.
    text = ""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        workspace = cleaned.get("workspace")
        production = cleaned.get("environment") == Environment.PRODUCTION
        if workspace and production and not workspace.is_live:
            raise ValidationError(f"{workspace} is not approved to go live.")
        if workspace and workspace.is_suspended:
            raise ValidationError(f"{workspace} is suspended.")
        return cleaned

    def save(self, commit: bool = True) -> ApiKey:
        key, self.text = keys.issue(**self.cleaned_data)
        return key

    def save_m2m(self) -> None:
        pass


class AccountTermsForm(forms.ModelForm):
    """The terms by which a workspace pays in production."""

    billing = forms.ChoiceField(choices=REAL_MONEY, widget=UnfoldAdminSelectWidget)

    class Meta:
        model = Account
        fields = ["billing", "credit_limit", "ceiling", "low_balance_at"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        credit = cleaned.get("credit_limit", 0)
        # Money that a provider took back may leave the balance below any limit.
        left = self.instance.balance + self.instance.taken_back
        prepaid = cleaned.get("billing") == Account.Billing.PREPAID
        if prepaid and left < -credit:
            raise ValidationError("The balance is below what this would allow.")
        ceiling = cleaned.get("ceiling")
        if not prepaid and ceiling is not None and left < -ceiling:
            owed = f"{self.instance.currency} {-left:,.2f}"
            raise ValidationError(f"The workspace owes {owed}, more than this ceiling.")
        return cleaned


class SuspendForm(ReasonForm):
    def facts(self) -> Facts:
        workspace = Workspace.objects.get(pk=self.object_id)
        usable = [key for key in workspace.api_keys.all() if key.is_usable]
        live = sum(key.environment == Environment.PRODUCTION for key in usable)
        return [
            ("Workspace", workspace.name),
            ("Keys that stop", f"{live} production, {len(usable) - live} sandbox"),
        ]


class OwnerForm(ReasonForm):
    email = forms.EmailField(
        label="E-mail of the owner", widget=UnfoldAdminEmailInputWidget
    )
    field_order = ("email", "reason")

    def facts(self) -> Facts:
        return [("Workspace", Workspace.objects.get(pk=self.object_id).name)]


class ResumeForm(FactsForm):
    def facts(self) -> Facts:
        workspace = Workspace.objects.get(pk=self.object_id)
        return [
            ("Workspace", workspace.name),
            ("Suspended", format_nairobi(workspace.suspended_at or now())),
            ("Because", workspace.suspension_reason),
        ]


class RevokeForm(FactsForm):
    def facts(self) -> Facts:
        key = ApiKey.objects.select_related("workspace").get(pk=self.object_id)
        used = format_nairobi(key.last_used_at) if key.last_used_at else "never"
        return [
            ("Key", f"{key} ({key.name})"),
            ("Workspace", key.workspace.name),
            ("Environment", key.environment),
            ("Last used", used),
        ]


class NoteForm(FactsForm):
    """A note; `page` is its id, so a form that is sent twice adds one."""

    text = forms.CharField(
        label="Note", max_length=2000, widget=UnfoldAdminTextareaWidget
    )
    page = forms.UUIDField(widget=forms.HiddenInput, initial=uuid7)


class MovementForm(FactsForm):
    """A top-up or adjustment in two steps: the amount, then its consequences.

    `page` is the id of the entry, so a form that is sent twice books once.
    """

    kind: ClassVar[LedgerEntry.Kind]
    verb: ClassVar[str]
    data: Any
    amount = forms.DecimalField(
        max_digits=14,
        decimal_places=2,
        widget=UnfoldAdminTextInputWidget({"inputmode": "decimal"}),
    )
    note = forms.CharField(
        max_length=200, required=False, widget=UnfoldAdminTextInputWidget
    )
    page = forms.UUIDField(widget=forms.HiddenInput, initial=uuid7)
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        accounts = Account.objects.select_related("workspace")
        self.account = accounts.get(pk=self.object_id)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        account, amount = self.account, cleaned.get("amount", Decimal(0))
        left = account.balance + amount + account.credit_limit
        is_short = (
            account.billing == Account.Billing.PREPAID and amount < 0 and left < 0
        )
        # In the second step the verb decides, as the form may have been sent before.
        if is_short and not cleaned["confirmed"]:
            raise ValidationError(str(InsufficientBalance(-amount, account)))
        return cleaned

    def is_valid(self) -> bool:
        """Return True for the second step. The first step shows the form again."""
        if not super().is_valid():
            return False
        if self.cleaned_data["confirmed"]:
            return True
        # The data of a request is read-only.
        self.data = {**self.data.dict(), "confirmed": "on"}
        for name in ("amount", "note"):
            self.fields[name].widget = forms.HiddenInput()
        self.submit_text = f"{self.verb} {self.money(self.amount_moved)}"
        return False

    @property
    def amount_moved(self) -> Decimal:
        moved: Decimal = self.cleaned_data["amount"]
        return moved

    def money(self, amount: Decimal) -> str:
        return f"{self.account.currency} {amount:,.2f}"

    def facts(self) -> Facts:
        account = self.account
        facts = [
            ("Account", account.workspace.name),
            ("Environment", account.environment),
            ("Balance", self.money(account.balance)),
        ]
        if not self.submit_text:
            return facts
        needs_second = staff_entries.needs_approval(account, self.amount_moved)
        after = self.money(account.balance + self.amount_moved)
        return [
            *facts,
            ("Amount", self.money(self.amount_moved)),
            ("Balance after", after),
            ("Note", self.cleaned_data["note"] or "-"),
            (
                "Second person",
                APPROVAL_NOTICE if needs_second else "Not needed: booked at once",
            ),
        ]


class TopUpForm(MovementForm):
    kind = LedgerEntry.Kind.TOP_UP
    verb = "Top up"

    def clean_amount(self) -> Decimal:
        if self.amount_moved <= 0:
            raise ValidationError("A top-up is above 0; take money back by adjusting.")
        return self.amount_moved


class AdjustmentForm(MovementForm):
    kind = LedgerEntry.Kind.ADJUSTMENT
    verb = "Adjust by"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["amount"].help_text = "Below 0 takes money from the account."
        self.fields["note"].required = True

    def clean_amount(self) -> Decimal:
        if not self.amount_moved:
            raise ValidationError("An adjustment by 0 changes nothing.")
        return self.amount_moved
