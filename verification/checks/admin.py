from datetime import timedelta
from functools import partial

from django import forms
from django.contrib import admin
from django.db.models import Q

from verification.backoffice.model_admin import (
    BackofficeAdmin,
    ReadOnlyAdmin,
    choice_filter,
)
from verification.backoffice.widgets import json_block
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.checks.queue import GAVE_UP
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


def filter_waiting(results):
    """Return results that wait for over an hour.

    There are two conditions, because two partial indexes hold the waiting rows.
    """
    waits = Q(next_attempt_at__isnull=False)
    waits = (waits & Q(waits_for="")) | (waits & ~Q(waits_for=""))
    return results.filter(waits, report__updated_at__lt=now() - timedelta(hours=1))


def filter_given_up(results):
    return results.filter(status=ResultStatus.FAILED, failure_code=GAVE_UP)


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
        "gave-up": ("the engine gave it up", filter_given_up),
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
    personal_fields = ("decrypted_finding", "inputs")

    def get_queryset(self, request):
        """Include superseded results and re-runs of corrections."""
        ordering = self.get_ordering(request)
        return CheckResult.every.order_by(*ordering)

    @admin.display(description="Finding")
    def decrypted_finding(self, result):
        return result.finding
