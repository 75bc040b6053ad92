from datetime import timedelta

from django.contrib import admin
from django.utils.timezone import now

from verification.backoffice import trail
from verification.backoffice.office import (
    ReadOnlyAdmin,
    ReadOnlyInline,
    link,
    once,
    table,
)
from verification.reports.models import Report, ReportStatus, StatusChange
from webhooks.models import Event
from workspaces.models import LedgerEntry

# A report has at most 10 checks; what it may show of anything is bounded too.
SHOWN = 100


class StuckFilter(admin.SimpleListFilter):
    title = "stuck"
    parameter_name = "stuck"

    def lookups(self, request, model_admin):
        return [("hour", "running for over an hour")]

    def queryset(self, request, reports):
        if self.value() != "hour":
            return reports
        return reports.filter(
            status__in=[ReportStatus.RUNNING, ReportStatus.PARTIAL],
            completed_at=None,
            updated_at__lt=now() - timedelta(hours=1),
        )


class StatusChangeInline(ReadOnlyInline):
    model = StatusChange
    fields = ["created_at", "source", "target", "trigger", "actor"]


@admin.register(Report)
class ReportAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "workspace",
        "environment",
        "status",
        "subject_name",
        "created_at",
    ]
    list_filter = ["environment", "status", StuckFilter, "payment_mode"]
    list_select_related = ["workspace"]
    search_exact = ("reference",)
    inlines = [StatusChangeInline]
    fields = [
        "id",
        "workspace",
        "environment",
        "status",
        "subject_type",
        "country",
        "subject_name",
        "purpose",
        "reference",
        "payment_mode",
        "risk_score",
        "risk_level",
        "failure_code",
        "failure_message",
        "created_by",
        "created_at",
        "launched_at",
        "completed_at",
        "gates",
        "results",
        "events",
        "ledger",
    ]
    personal_fields = ("subject_opened",)

    def render_change_form(self, request, context, *arguments, obj=None, **more):
        # Here are a name and what was found about it: who looks is written down.
        trail.record("report.opened", trail.actor_of(request), obj)
        return super().render_change_form(request, context, *arguments, obj=obj, **more)

    @admin.display(description="Consent and payment")
    @once
    def gates(self, report):
        gates = [
            getattr(report, name)
            for name in ("consent", "payment")
            if hasattr(report, name)
        ]
        return table(["", ""], [(g._meta.verbose_name, link(g)) for g in gates])

    @admin.display(description="Checks")
    @once
    def results(self, report):
        return table(
            ["check", "status", "price", "attempt", "level", "failure"],
            [
                (
                    link(r, r.name),
                    r.status,
                    r.price,
                    r.attempt,
                    r.risk_level,
                    r.failure_code,
                )
                for r in report.results.defer("finding")[:SHOWN]
            ],
        )

    @admin.display
    @once
    def events(self, report):
        events = Event.objects.filter(report_id=report.pk).order_by("id")
        return table(
            ["event", "at"],
            [(link(e, e.name), e.created_at) for e in events.defer("payload")[:SHOWN]],
        )

    @admin.display(description="Ledger entries")
    @once
    def ledger(self, report):
        # Found by the results: their index is the one entries have.
        results = list(report.results.values_list("pk", flat=True))
        entries = LedgerEntry.objects.filter(result_id__in=results).order_by("id")
        return table(
            ["entry", "amount", "attempt", "at", "by"],
            [
                (link(e, e.kind), e.amount, e.attempt, e.created_at, e.actor)
                for e in entries[:SHOWN]
            ],
        )

    @admin.display(description="Subject")
    def subject_opened(self, report):
        return report.subject
