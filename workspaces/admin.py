from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models.expressions import RawSQL
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.enums import ActionVariant

from verification import links
from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    SEARCHED_LIST_TEMPLATE,
    ApprovalAdmin,
    BackofficeAdmin,
    ReadOnlyAdmin,
    choice_filter,
    empty_filter,
)
from verification.backoffice.widgets import (
    ReasonForm,
    dialog_action,
    dialog_verb,
    redirect_back,
)
from verification.documents.statements import statement_response
from verification.values.local_time import format_nairobi
from verification.values.masking import mask
from verification.web.pages import read_id
from workspaces import brands, forms, keys, ledger, staff_entries
from workspaces.models import (
    Account,
    ApiKey,
    Brand,
    Environment,
    LedgerEntry,
    Member,
    StaffEntry,
)
from workspaces.people_admin import PeopleAdmin
from workspaces.statements import months

VERBS = {
    LedgerEntry.Kind.TOP_UP: "topped-up",
    LedgerEntry.Kind.ADJUSTMENT: "adjusted",
}
NOUNS = {LedgerEntry.Kind.TOP_UP: "Top-up", LedgerEntry.Kind.ADJUSTMENT: "Adjustment"}
ENTRY_NOTICE = "The entry is made for good; another one corrects a mistake."


@admin.register(Brand)
class BrandAdmin(ReadOnlyAdmin):
    """The brands of clients; staff remove misleading ones."""

    list_display = ["workspace", "colour", "contact_line", "barred_at", "updated_at"]
    list_filter = [empty_filter("barred_at", "shown", "removed")]
    list_select_related = ["workspace"]
    ordering = ["-updated_at"]
    search_ids = ("workspace_id",)
    search_parts = ("workspace__name",)
    fields = [
        "workspace",
        "reviewed_name",
        "logo_picture",
        "colour",
        "contact_line",
        "contact_line_sw",
        "return_hosts",
        "return_url",
        "barred_at",
        "barred_reason",
        "updated_at",
    ]
    actions_detail = ["remove", "allow"]
    refusals = brands.BrandUnchanged
    offers = {
        "remove": lambda brand: not brand.is_barred,
        "allow": lambda brand: brand.is_barred,
    }

    def get_queryset(self, request):
        return super().get_queryset(request).defer("logo").select_related("workspace")

    @admin.display(description="Name beside it")
    def reviewed_name(self, brand):
        return brand.workspace.requester.name

    @admin.display(description="Logo")
    def logo_picture(self, brand):
        if not brand.logo_digest:
            return "-"
        url = reverse("brand:logo", args=[brand.logo_digest])
        return format_html('<img src="{}" alt="The logo">', url)

    @dialog_verb(
        "Remove this brand",
        "The logo and the contact line are deleted, and pages show no colour and "
        "no return link until the brand is allowed again. Its members read the "
        "reason.",
        "Remove it",
        ReasonForm,
        description="Remove",
        icon="hide_image",
        variant=ActionVariant.DANGER,
        permissions=["remove"],
        audited="removed",
    )
    def remove(self, request, form, brand):
        brands.bar_brand(brand.pk, form.cleaned_data["reason"])
        return "The brand is removed."

    @dialog_verb(
        "Allow this brand again",
        "Its members can set a logo and a contact line again. Colour and return "
        "addresses are shown at once.",
        "Allow it",
        description="Allow again",
        icon="image",
        permissions=["allow"],
        audited="allowed",
    )
    def allow(self, request, form, brand):
        brands.allow_brand(brand.pk)
        return "The brand is allowed again."


def filter_low_balance(accounts):
    """Return the accounts whose owners were notified of a low balance."""
    return accounts.filter(low_balance_notified_at__isnull=False)


LowBalanceFilter = choice_filter(
    "balance", "balance", {"low": ("low", filter_low_balance)}
)


@admin.register(Account)
class AccountAdmin(BackofficeAdmin):
    form = forms.AccountTermsForm
    list_display = ["workspace", "environment", "billing", "balance", "credit_limit"]
    list_filter = [LowBalanceFilter, "environment", "billing"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_parts = ("workspace__name",)
    change_list_template = SEARCHED_LIST_TEMPLATE
    terms = ["billing", "credit_limit", "ceiling", "low_balance_at"]
    readonly_fields = [
        "id",
        "workspace",
        "environment",
        "low_balance_notified_at",
        "balance",
        "currency",
        "top_up_page",
        "statements",
    ]
    fields = [*readonly_fields[:3], *terms, *readonly_fields[3:]]
    actions_detail = actions_row = ["top_up", "adjust"]
    own_pages = {"<uuid:account_id>/statements/<str:month>.<str:kind>": "statement"}

    def has_add_permission(self, request):
        return False

    @admin.display(description="Top-up link for the workspace")
    def top_up_page(self, account):
        is_live = account.environment == Environment.PRODUCTION
        if is_live and not settings.PAYMENT_PROVIDER:
            return "-"
        return format_html('<a href="{0}">{0}</a>', links.top_up_url(account.pk))

    @admin.display(description="Statements (months of Nairobi)")
    def statements(self, account):
        rows = (
            (month, *(_statement_url(account, month, kind) for kind in ("csv", "pdf")))
            for month in months(account.pk)
        )
        one = '<div>{} <a href="{}">CSV</a> <a href="{}">PDF</a></div>'
        return format_html_join("", one, rows) or "-"

    def statement(self, request, account_id, month, kind):
        account = self.get_object(request, str(account_id))
        if not self.has_view_permission(request, account):
            raise PermissionDenied
        if account is None or kind not in {"csv", "pdf"}:
            raise Http404
        return statement_response(account, month, kind)

    def construct_change_message(self, request, form, formsets, add=False):
        request.changed_terms = "; ".join(
            f"{name}: {form.initial[name]} → {form.cleaned_data[name]}"
            for name in form.changed_data
        )
        return super().construct_change_message(request, form, formsets, add)

    def log_change(self, request, obj, message, *, reason="", **more):
        """Record the old and the new terms, which a single person sets."""
        reason = reason or getattr(request, "changed_terms", "")
        return super().log_change(request, obj, message, reason=reason, **more)

    def get_readonly_fields(self, request, obj=None):
        is_play = obj and obj.billing == Account.Billing.PLAY
        return self.readonly_fields + (self.terms if is_play else [])

    def has_move_permission(self, request, object_id=None):
        if object_id and self.get_object(request, object_id) is None:
            return False
        return self.has_change_permission(request)

    @dialog_action(
        "Top up this account",
        ENTRY_NOTICE,
        "Continue",
        forms.TopUpForm,
        description="Top up",
        icon="add_card",
        permissions=["move"],
    )
    def top_up(self, request, form, object_id):
        return self._move(request, form)

    @dialog_action(
        "Adjust this account",
        ENTRY_NOTICE,
        "Continue",
        forms.AdjustmentForm,
        description="Adjust",
        icon="tune",
        permissions=["move"],
    )
    def adjust(self, request, form, object_id):
        return self._move(request, form)

    def _move(self, request, form):
        account, kind, typed = form.account, form.kind, form.cleaned_data
        note, amount = typed["note"], typed["amount"]

        def run():
            entry = staff_entries.request_entry(
                typed["page"], account.pk, kind, amount, note, staff_actor(request)
            )
            verb = VERBS[kind] + ("-asked" if entry.needs_second else "")
            change = f"{kind} {entry.money} ({entry.pk})"
            self.log_change(request, account, change, verb=verb, reason=note)
            waits = " waits for a second person" if entry.needs_second else ""
            return f"{NOUNS[kind]} of {entry.money} on {account}{waits}."

        refusals = (ledger.InsufficientBalance, staff_entries.NotBooked)
        return self.run_dialog(request, account, run, refusals)


def _statement_url(account, month, kind):
    arguments = [account.pk, str(month), kind]
    return reverse("admin:workspaces_account_statement", args=arguments)


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "account", "kind", "amount", "report_page", "actor"]
    list_filter = ["kind", "account__environment"]
    list_select_related = ["account__workspace"]
    search_ids = ("id", "result_id", "account_id", "checkout_id")

    def get_search_results(self, request, queryset, search_term):
        """Search by a report's id too, through the index of its results."""
        found, again = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        if read_id(term) and not found.exists():
            of_report = "SELECT id FROM checks_checkresult WHERE report_id = %s"
            found = queryset.filter(result_id__in=RawSQL(of_report, [term]))  # noqa: S611
        return found, again

    fields = [
        "id",
        "account",
        "kind",
        "amount",
        "report_page",
        "result_id",
        "attempt",
        "checkout_page",
        "staff_entry",
        "note",
        "actor",
        "created_at",
    ]


@admin.register(StaffEntry)
class StaffEntryAdmin(ApprovalAdmin):
    list_display = ["id", "account", "kind", "amount", "status", "requested_by"]
    list_filter = ["status", "kind", "account__environment"]
    list_select_related = ["account__workspace"]
    search_ids = ("id", "account_id", "account__workspace_id")
    verbs = {"approve": staff_entries.approve, "reject": staff_entries.reject}
    consequences = {
        "approve": "The entry is made for good; another one corrects a mistake.",
        "reject": "No entry is made. It can be asked for again.",
    }
    columns = ["account", "kind", "money", "note", "requested_by"]
    fields = [
        "id",
        "account",
        "kind",
        "amount",
        "note",
        "status",
        "needs_second",
        "requested_by",
        "decided_by",
        "decided_at",
        "created_at",
    ]


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin, PeopleAdmin):
    """Members of workspaces. Their owners change roles, staff do not."""

    person = "user"
    list_display = [
        "name",
        "email",
        "workspace",
        "role",
        "joined",
        "last_login",
    ]
    list_filter = ["role"]
    list_select_related = ["workspace", "user"]
    search_ids = ("id", "workspace_id")
    fields = ["name", "workspace", "role", "joined", "last_login", "second_factor"]
    personal_fields = ("address",)
    actions_detail = ["change_email", "remove_factor", "end_sessions", "reveal"]

    @admin.display(description="Name", ordering="user__first_name")
    def name(self, member):
        return member.user.get_full_name() or "no name yet"

    @admin.display(description="E-mail")
    def email(self, member):
        return mask(member.user.email, "email")

    @admin.display(description="E-mail address")
    def address(self, member):
        return format_html("{}", member.user.email)

    @admin.display(description="Joined", ordering="created_at")
    def joined(self, member):
        return format_nairobi(member.created_at)

    @admin.display(description="Last login", ordering="user__last_login")
    def last_login(self, member):
        last = member.user.last_login
        return format_nairobi(last) if last else "-"


@admin.register(ApiKey)
class ApiKeyAdmin(BackofficeAdmin):
    list_display = ["__str__", "name", "workspace", "environment", "works", "used"]
    list_filter = ["environment", empty_filter("revoked_at", "not revoked", "revoked")]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("last_characters",)
    search_parts = ("workspace__name",)
    change_list_template = SEARCHED_LIST_TEMPLATE
    raw_id_fields = ["workspace"]
    limits = ["creates_per_minute", "requests_per_minute"]
    history = [
        "id",
        "workspace",
        "environment",
        "first_characters",
        "last_characters",
        "scopes",
        "expires_at",
        "revoked_at",
        "last_used_at",
        "created_at",
    ]
    actions = ["revoke"]
    actions_detail = ["revoke_key"]
    confirm = {
        "revoke": "Systems that use it are refused at once. This cannot be undone."
    }
    offers = {"revoke": lambda key: key.is_usable}

    @admin.display(boolean=True)
    def works(self, key):
        return key.is_usable

    @admin.display(description="Last used", ordering="last_used_at")
    def used(self, key):
        return key.last_used_at

    def get_form(self, request, obj=None, change=False, **kwargs):
        kwargs["form"] = forms.NetworksForm if change else forms.ApiKeyForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        new = ["workspace", "environment", "name", "scopes", "expires_at", "networks"]
        return ["name", "networks", *self.limits, *self.history] if obj else new

    def get_readonly_fields(self, request, obj=None):
        return self.history if obj else []

    def save_model(self, request, obj, form, change):
        if change:
            super().save_model(request, obj, form, change)
            return
        obj.text = form.text

    def response_add(self, request, obj, post_url_continue=None):
        # A message on the next page would be in a cookie.
        context = self.admin_site.each_context(request)
        context |= {"title": "The new key", "key": obj, "text": obj.text}
        return TemplateResponse(request, "admin/key_shown.html", context)

    @admin.action(description="Revoke now", permissions=["change"])
    def revoke(self, request, api_keys):
        for key in api_keys:
            self._revoke(request, key)

    @dialog_action(
        "Revoke this key",
        "Systems that use it are refused at once. This cannot be undone.",
        "Revoke it",
        forms.RevokeForm,
        description="Revoke",
        icon="key_off",
        variant=ActionVariant.DANGER,
        permissions=["revoke"],
    )
    def revoke_key(self, request, form, object_id):
        key = self.get_row(request, object_id)
        self._revoke(request, key)
        return redirect_back(request, key)

    def _revoke(self, request, key):
        with transaction.atomic():
            done = keys.revoke(key)
            if done:
                self.log_change(request, key, "revoked", verb="revoked")
        if done:
            self.message_user(request, f"{key} is revoked.", messages.SUCCESS)
        else:
            self.message_user(request, f"{key} had ended already.", messages.INFO)
