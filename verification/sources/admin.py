from django.contrib import admin, messages
from django.db import transaction

from verification.backoffice.model_admin import ReadOnlyAdmin, choice_filter
from verification.backoffice.widgets import NOT_OFFERED, link_by_id
from verification.providers.registry import live_sources
from verification.sources.health import health_of
from verification.sources.models import Call, CallOutcome, Source
from verification.values.clock import now
from verification.values.local_time import format_nairobi


@admin.register(Source)
class SourceAdmin(ReadOnlyAdmin):
    """All sources that were ever called, with the figures of the last hour."""

    list_display = [
        "name",
        "state",
        "causes_text",
        "calls",
        "success_rate",
        "median",
        "percentile_95",
    ]
    search_ids = ()
    search_exact = ("name",)
    ordering = ["name"]
    fields = [
        "name",
        "state",
        "calls",
        "success_rate",
        "median",
        "percentile_95",
        "failures_in_row",
        "resting_until",
        "rests",
        "probed_at",
        "answered_at",
        "failing_since",
        "failed_at",
        "causes_text",
        "free_at",
    ]

    @admin.display(description="State")
    def state(self, source):
        if source.name not in live_sources():
            return "not configured"
        if source.resting_until is None:
            return "asked"
        if source.resting_until > now():
            return f"rests until {format_nairobi(source.resting_until)}"
        return "is being tried"

    @admin.display(description="Why it does not answer")
    def causes_text(self, source):
        return ", ".join(source.causes) or "-"

    @admin.display(description="Calls in the last hour")
    def calls(self, source):
        health = health_of(source.name)
        if not health.calls:
            return "-"
        return f"{health.calls:,}, {health.unavailable:,} without an answer"

    @admin.display(description="Answered")
    def success_rate(self, source):
        rate = health_of(source.name).success_rate
        return "-" if rate is None else f"{100 * rate:.1f} %"

    @admin.display(description="Median response time")
    def median(self, source):
        return _milliseconds(health_of(source.name).median_ms)

    @admin.display(description="95 % answer within")
    def percentile_95(self, source):
        return _milliseconds(health_of(source.name).slow_ms)


def _milliseconds(value):
    return "-" if value is None else f"{value:,} ms"


def calls_in_doubt(calls):
    """Return the calls that may have been charged and that staff have not settled."""
    return calls.filter(end=CallOutcome.IN_DOUBT, settled_at=None)


InDoubtFilter = choice_filter(
    "what needs a person",
    "doubt",
    {
        "open": ("in doubt", calls_in_doubt),
        # The constraint `only_doubts_are_settled` rules others out.
        "settled": ("was in doubt", lambda rows: rows.exclude(settled_at=None)),
    },
)


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    list_display = [
        "source",
        "check_page",
        "outcome_text",
        "why",
        "cause",
        "begun_at",
        "settled_at",
    ]
    list_filter = [InDoubtFilter, "may_be_charged"]
    list_select_related = ["result"]
    search_ids = ("id", "result_id", "result__report_id")
    search_exact = ("reference",)
    actions = ["settle_as_paid", "settle_as_unpaid"]
    confirm = {
        "settle_as_paid": "The source has charged for these, and no answer came of it.",
        "settle_as_unpaid": "The source has not charged for these.",
    }
    fields = [
        "id",
        "check_page",
        "attempt",
        "tries",
        "source",
        "reference",
        "job",
        "skipped_text",
        "begun_at",
        "ended_at",
        "outcome_text",
        "why",
        "cause",
        "may_be_charged",
        "called_back_at",
        "settled_at",
        "was_paid",
    ]

    @admin.display(description="Check")
    def check_page(self, call):
        # Finance sees reports, and no check results.
        return link_by_id("reports.report", call.result.report_id, str(call.result))

    @admin.display(description="How it ended", ordering="end")
    def outcome_text(self, call):
        return call.get_end_display()

    @admin.display(description="Sources skipped, and why")
    def skipped_text(self, call):
        return ", ".join(f"{name}: {why}" for name, why in call.passed_over) or "-"

    @admin.action(description="Settle: the source was paid", permissions=["act"])
    def settle_as_paid(self, request, calls):
        self._settle(request, calls, was_paid=True)

    @admin.action(description="Settle: the source was not paid", permissions=["act"])
    def settle_as_unpaid(self, request, calls):
        self._settle(request, calls, was_paid=False)

    def _settle(self, request, calls, *, was_paid):
        count, reason = 0, "was paid" if was_paid else "was not paid"
        for call in calls_in_doubt(calls):
            with transaction.atomic():
                unsettled = calls_in_doubt(Call.objects.filter(pk=call.pk))
                if unsettled.update(settled_at=now(), was_paid=was_paid):
                    self.log_change(
                        request, call, reason, verb="settled", reason=reason
                    )
                    count += 1
        if count:
            self.message_user(request, f"{count} calls settled.", messages.SUCCESS)
        else:
            self.message_user(request, NOT_OFFERED, messages.WARNING)
