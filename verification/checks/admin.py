from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from verification.backoffice.model_admin import (
    BackofficeAdmin,
    ReadOnlyAdmin,
    choice_filter,
    empty_filter,
)
from verification.backoffice.widgets import json_block
from verification.checks.due_checks import GAVE_UP
from verification.checks.models import (
    CheckDefinition,
    CheckPackage,
    CheckResult,
    ResultStatus,
)
from verification.checks.packages import (
    PackageFault,
    check_choices,
    find_package_faults,
)
from verification.values.clock import now


class DefinitionForm(forms.ModelForm):
    """The members of the retry policy are fields of their own."""

    max_attempts = forms.IntegerField(min_value=1, max_value=20)
    initial_delay_seconds = forms.FloatField(min_value=0, max_value=3_600)
    backoff_multiplier = forms.FloatField(min_value=1, max_value=10)
    max_delay_seconds = forms.FloatField(min_value=1, max_value=86_400)

    POLICY = {
        "max_attempts": "maxAttempts",
        "initial_delay_seconds": "initialDelaySeconds",
        "backoff_multiplier": "backoffMultiplier",
        "max_delay_seconds": "maxDelaySeconds",
    }

    class Meta:
        model = CheckDefinition
        fields = ["display_name", "description", "active", "price", "freshness_days"]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for field, member in self.POLICY.items():
            self.initial[field] = self.instance.retry_policy.get(member)

    def clean(self):
        cleaned = super().clean() or {}
        first = cleaned.get("initial_delay_seconds")
        longest = cleaned.get("max_delay_seconds")
        if first is not None and longest is not None and first > longest:
            self.add_error("max_delay_seconds", "Must not be below the initial delay.")
        return cleaned

    def save(self, commit=True):
        self.instance.retry_policy = {
            member: self.cleaned_data[field] for field, member in self.POLICY.items()
        }
        return super().save(commit)


@admin.register(CheckDefinition)
class CheckDefinitionAdmin(BackofficeAdmin):
    form = DefinitionForm
    list_display = [
        "name",
        "display_name",
        "category",
        "active",
        "price",
        "freshness_days",
    ]
    list_filter = ["active", "category"]
    search_exact = ("name__iexact",)
    ordering = ["position", "name"]
    also_written = ("retry_policy",)
    # These belong to the code: `setup_checks` writes them at each start.
    readonly_fields = [
        "name",
        "category",
        "subject_types",
        "requires_consent",
        "currency",
        "inputs",
        "output_fields",
        "flag_codes",
        "updated_at",
    ]
    fields = [
        "name",
        "display_name",
        "description",
        "active",
        "price",
        "freshness_days",
        *DefinitionForm.POLICY,
        *readonly_fields[1:],
    ]

    @admin.display(description="Required inputs")
    def inputs(self, definition):
        return json_block(definition.required_inputs)

    def has_add_permission(self, request):
        return False


def _label(check: CheckDefinition) -> str:
    kinds = ", ".join(check.subject_types)
    return f"{check.display_name} · {check.currency} {check.price:,.2f} · {kinds}"


class PackageForm(forms.ModelForm):
    """A package of the operator. Its name is typed once, and stays."""

    checks = forms.MultipleChoiceField(
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        help_text="Reports and rules that were made with it keep their checks.",
    )

    class Meta:
        model = CheckPackage
        fields = ["name", "display_name", "checks", "price", "active"]
        help_texts = {
            "name": "Clients send it as `package`. It can never be changed.",
            "price": "In place of the sum of the checks' prices, in KES.",
            "active": "If not, no new order can name it.",
        }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        checks: Any = self.fields["checks"]
        is_new = self.instance._state.adding
        checks.choices = check_choices(None if is_new else self.instance, _label)

    def clean(self):
        cleaned = super().clean() or {}
        fields = ("name", "checks", "price")
        typed = {name: cleaned[name] for name in fields if name in cleaned}
        wanted = CheckPackage(**typed)
        wanted._state.adding = self.instance._state.adding
        kept = self.initial.get("checks") or ()
        for field, fault in find_package_faults(wanted, kept).items():
            if field not in self.errors:
                self.add_error(field, fault.label)
        return cleaned


class PackagePriceForm(forms.ModelForm):
    """The price of a workspace's own package, whose checks its members choose."""

    # The price was meant for the checks that the page showed.
    checks_seen = forms.CharField(widget=forms.HiddenInput)

    class Meta:
        model = CheckPackage
        fields = ["price", "active"]
        help_texts = {
            "price": "In place of the sum of the checks' prices, in KES. While there "
            "is one, members cannot change the checks.",
        }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.initial["checks_seen"] = ", ".join(self.instance.checks)

    def clean(self):
        cleaned = super().clean() or {}
        if cleaned.get("checks_seen") != self.initial["checks_seen"]:
            error = "Its checks have changed since you opened the page. Open it again."
            self.add_error(None, error)
        if (cleaned.get("price") or 0) < 0:
            self.add_error("price", PackageFault.NEGATIVE.label)
        return cleaned


@admin.register(CheckPackage)
class CheckPackageAdmin(BackofficeAdmin):
    list_display = ["name", "display_name", "owner", "price", "active"]
    list_filter = ["active", empty_filter("workspace", "the operator", "a workspace")]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("name",)
    ordering = ["name", "id"]

    @admin.display(description="Of", empty_value="the operator")
    def owner(self, package):
        return package.workspace

    def get_object(self, request, object_id, from_field=None):
        package = super().get_object(request, object_id, from_field)
        if package and request.method == "POST":
            # A member may be editing it.
            return CheckPackage.objects.select_for_update().get(pk=package.pk)
        return package

    def get_form(self, request, obj=None, change=False, **kwargs):
        if obj is None or self.has_change_permission(request, obj):
            is_of_operator = obj is None or obj.is_of_operator
            kwargs["form"] = PackageForm if is_of_operator else PackagePriceForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        fields = ["name", "owner", "display_name", "checks", "price", "active"]
        if obj is None:
            return [name for name in fields if name != "owner"]
        fields += ["created_at", "updated_at"]
        if not obj.is_of_operator and self.has_change_permission(request, obj):
            fields.append("checks_seen")
        return fields

    def get_readonly_fields(self, request, obj=None):
        if obj is None:
            return []
        fixed = ["name", "owner", "created_at", "updated_at"]
        return fixed if obj.is_of_operator else [*fixed, "display_name", "checks"]

    def construct_change_message(self, request, form, formsets, add=False):
        # The checks that were seen are no field of the row.
        form.changed_data = [f for f in form.changed_data if f != "checks_seen"]
        return super().construct_change_message(request, form, formsets, add)


def filter_waiting(results):
    """Return results that wait for over an hour.

    There are two conditions, because two partial indexes hold the waiting rows.
    """
    waits = Q(next_attempt_at__isnull=False)
    waits = (waits & Q(waits_for="")) | (waits & ~Q(waits_for=""))
    return results.filter(waits, report__updated_at__lt=now() - timedelta(hours=1))


def filter_status(status, results):
    if status == ResultStatus.RUNNING:
        # Every running check has a due time; the index of due rows finds them.
        results = results.filter(next_attempt_at__isnull=False)
    return results.filter(status=status)


StuckFilter = choice_filter(
    "trouble",
    "trouble",
    {
        "waiting": ("waiting for over an hour", filter_waiting),
        "gave-up": (
            "the engine gave it up",
            lambda rows: rows.filter(status=ResultStatus.FAILED, failure_code=GAVE_UP),
        ),
    },
)
StatusFilter = choice_filter(
    "status",
    "status",
    {
        value: (label, partial(filter_status, value))
        for value, label in ResultStatus.choices
    },
)


@admin.register(CheckResult)
class CheckResultAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        "report_page",
        "revision",
        "status",
        "attempt",
        "next_attempt_at",
        "failure_code",
    ]
    list_filter = [StuckFilter, StatusFilter, "definition"]
    search_ids = ("id", "report_id")
    fields = [
        "id",
        "report_page",
        "name",
        "revision",
        "status",
        "price",
        "attempt",
        "tries",
        "claims",
        "fence",
        "next_attempt_at",
        "started_at",
        "completed_at",
        "duration_ms",
        "reused_from_id",
        "disputed_at",
        "score",
        "risk_level",
        "failure_code",
        "failure_message",
        "failure_retryable",
        "created_at",
    ]
    personal_fields = ("finding", "inputs")

    def get_queryset(self, request):
        """Include superseded results and re-runs of corrections."""
        ordering = self.get_ordering(request)
        return CheckResult.every.order_by(*ordering)
