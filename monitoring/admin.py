from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.html import format_html

from monitoring.alerts import describe_changes
from monitoring.chart import Mark, timeline
from monitoring.models import Alert, Rule, Run, Severity, check_states
from monitoring.pauses import NotResumable, pause_for_staff, resume_for_staff
from monitoring.rules import find_run_obstacle, leave_out_referees, price_of
from monitoring.runs import RunRefused, run_now
from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    SEARCHED_LIST_TEMPLATE,
    ReadOnlyAdmin,
    choice_filter,
    confirmation_page,
    empty_filter,
)
from verification.backoffice.widgets import json_block, link, link_by_id, table
from verification.checks.packages import packages_of
from verification.reports.request import catalogue
from workspaces.ledger import InsufficientBalance, accounts_of
from workspaces.members import WorkspaceSuspended

MAX_ROWS = 50
CONFIRM = "admin/confirm_rules.html"
COSTS = {
    "run_now": "Each orders a report now, which is billed. The schedule stays.",
    "resume": "A rule that missed a run makes it at once, which is billed.",
}


NotLaunchedFilter = choice_filter(
    "cannot be launched",
    "not_launched",
    {
        "yes": (
            "Cannot be launched",
            lambda rules: rules.filter(launch_failures__gt=0),
        )
    },
)


@admin.register(Rule)
class RuleAdmin(ReadOnlyAdmin):
    list_display = [
        "subject_name",
        "cadence",
        "standing",
        "next_run",
        "launch_failures",
        "last_error",
        "workspace",
        "created_at",
    ]
    list_filter = [
        NotLaunchedFilter,
        "status",
        "pause_reason",
        "cadence",
        "environment",
    ]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id", "subject_id")
    search_exact = ("reference",)
    change_list_template = SEARCHED_LIST_TEMPLATE
    actions = ["pause", "resume", "run_now"]
    confirm = {"pause": "They make no runs until staff resume them."}
    fields = [
        "id",
        "workspace",
        "environment",
        "subject_name",
        "subject_type",
        "check_names",
        "package",
        "cadence",
        "standing",
        "paused_at",
        "consent_withdrawn_at",
        "next_run",
        "launch_failures",
        "last_error",
        "put_off_until",
        "starts_at",
        "runs_made",
        "reference",
        "created_by",
        "created_at",
        "checks",
        "changes_over_time",
        "history",
        "alerts",
    ]
    personal_fields = ("decrypted_subject", "decrypted_consent")
    audits_opening = True

    def get_object(self, request, object_id, from_field=None):
        rule: Any = super().get_object(request, object_id, from_field)
        if rule:
            rule.shown_alerts = list(
                Alert.objects.filter(rule_id=rule.pk)
                .defer("changes", "message")
                .order_by("-id")[:MAX_ROWS]
            )
            rule.shown_checks = check_states([rule])[rule.pk]
            rule.shown_runs = list(rule.runs.order_by("-number")[:MAX_ROWS])
        return rule

    @admin.display(description="Status", ordering="status")
    def standing(self, rule):
        return rule.get_pause_reason_display() if rule.pause_reason else "Active"

    @admin.display(description="Next run", ordering="next_run_at")
    def next_run(self, rule):
        return rule.next_run_at if rule.is_active else None

    @admin.display(description="Checks")
    def checks(self, rule):
        return table(
            ["check", "last completed", "runs without an answer since"],
            [
                (check.name, check.completed_at or "never", check.unanswered)
                for check in rule.shown_checks
            ],
        )

    @admin.display(description="Changes over time")
    def changes_over_time(self, rule):
        severities = _severities(rule)
        return timeline(
            [
                Mark(run.number, run.created_at, severities.get(run.report_id, ""))
                for run in reversed(rule.shown_runs)
            ]
        )

    @admin.display(description=f"Runs (the newest {MAX_ROWS})")
    def history(self, rule):
        severities = _severities(rule)
        return table(
            ["run", "due", "made", "compared", "change", "report"],
            [
                (
                    link(run, str(run.number)),
                    run.due_at,
                    run.created_at,
                    run.compared_at or "-",
                    severities.get(run.report_id, "-"),
                    link_by_id("reports.report", run.report_id),
                )
                for run in rule.shown_runs
            ],
        )

    @admin.display(description=f"Alerts (the newest {MAX_ROWS})")
    def alerts(self, rule):
        return table(
            ["alert", "kind", "severity", "at", "read"],
            [
                (link(a), a.kind, a.severity, a.created_at, "yes" if a.read else "no")
                for a in rule.shown_alerts
            ],
        )

    @admin.display(description="Subject (personal data)")
    def decrypted_subject(self, rule):
        return json_block(rule.subject)

    @admin.display(description="Consent (personal data)")
    def decrypted_consent(self, rule):
        return json_block(rule.consent)

    @admin.action(description="Pause", permissions=["act"])
    def pause(self, request, rules):
        for rule in rules:
            with transaction.atomic():
                done = pause_for_staff(rule.pk)
                self._show_outcome(request, rule, "paused", done=done)

    @admin.action(description="Resume", permissions=["act"])
    def resume(self, request, rules):
        if "confirmed" not in request.POST:
            return self._ask(request, rules, "resume", "Resume")
        for rule in rules:
            try:
                with transaction.atomic():
                    done = resume_for_staff(rule.pk)
                    rule.refresh_from_db()
                    outcome = "resumed" if rule.is_active else "left to the client"
                    self._show_outcome(request, rule, outcome, done=done)
            except (NotResumable, InsufficientBalance) as e:
                self.message_user(request, f"{rule.pk}: {e}", messages.ERROR)
            except WorkspaceSuspended:
                why = f"{rule.pk}: The workspace is suspended."
                self.message_user(request, why, messages.ERROR)
        return None

    @admin.action(description="Run now", permissions=["act"])
    def run_now(self, request, rules):
        if "confirmed" not in request.POST:
            return self._ask(request, rules, "run_now", "Run now")
        for rule in rules:
            made = request.POST.get(f"made-{rule.pk}", "")
            try:
                with transaction.atomic():
                    report_id = run_now(
                        rule.pk,
                        staff_actor(request).name,
                        made=int(made) if made.isdecimal() else -1,
                    )
                    self.log_change(request, rule, "run now", verb="run")
            except RunRefused as e:
                self.message_user(request, f"{rule.pk}: {e}", messages.ERROR)
                continue
            report = link_by_id("reports.report", report_id)
            message = format_html("{}: {}", rule.pk, report)
            self.message_user(request, message, messages.SUCCESS)
        return None

    def _ask(self, request, rules, action, title):
        chosen = list(rules)
        accounts, definitions = accounts_of(chosen), catalogue()
        packages = packages_of(chosen)
        leave_out_referees(chosen)
        for rule in chosen:
            currency = accounts[rule.workspace_id, rule.environment].currency
            rule.price = find_run_obstacle(rule, definitions)
            if not rule.price:
                price = price_of(rule, definitions, packages.get(rule.pk))
                rule.price = f"{currency} {price:,.2f} a run"
        return confirmation_page(
            self,
            request,
            CONFIRM,
            action=action,
            title=title,
            notice=COSTS[action],
            rows=chosen,
        )

    def _show_outcome(self, request, rule, outcome, *, done):
        if done:
            self.log_change(request, rule, outcome, verb=outcome.replace(" ", "-"))
            rule.refresh_from_db(fields=["pause_reason"])
            # A rule that staff resume may stay paused for another reason.
            why = rule.pause_reason and f" {rule.get_pause_reason_display()}."
            self.message_user(request, f"{rule.pk}: {outcome}.{why}", messages.SUCCESS)
        else:
            self.message_user(request, f"{rule.pk}: nothing to change.", messages.INFO)


class RuleLinkAdmin(ReadOnlyAdmin):
    @admin.display(description="Rule")
    def rule_page(self, row):
        return link_by_id("monitoring.rule", row.rule_id)


@admin.register(Run)
class RunAdmin(RuleLinkAdmin):
    list_display = ["id", "number", "rule_page", "due_at", "compared_at"]
    list_filter = [empty_filter("compared_at", "not compared", "compared")]
    search_ids = ("id", "rule_id", "report_id")
    fields = [
        "id",
        "number",
        "rule_page",
        "report_page",
        "due_at",
        "created_at",
        "compared_at",
    ]


@admin.register(Alert)
class AlertAdmin(RuleLinkAdmin):
    list_display = [
        "title",
        "kind",
        "severity",
        "rule_page",
        "workspace",
        "read",
        "created_at",
    ]
    list_filter = ["kind", "severity", "read", "actioned", "environment"]
    list_select_related = ["workspace"]
    search_ids = ("id", "rule_id", "report_id", "workspace_id")
    fields = [
        "id",
        "workspace",
        "environment",
        "kind",
        "title",
        "message",
        "severity",
        "rule_page",
        "report_page",
        "read",
        "actioned",
        "created_at",
    ]
    personal_fields = ("decrypted_changes",)

    def get_queryset(self, request):
        # An alert stays when its rule is deleted.
        rules = Rule.objects.filter(pk=OuterRef("rule_id"))
        alerts = super().get_queryset(request).annotate(has_rule=Exists(rules))
        return alerts if request.user.is_superuser else alerts.defer("changes")

    @admin.display(description="Rule")
    def rule_page(self, row):
        return super().rule_page(row) if row.has_rule else row.rule_id

    @admin.display(description="Changes (personal data)")
    def decrypted_changes(self, alert):
        rows = [
            (
                row["check"],
                f"{row['what']}: {row['before'] or '-'} → {row['now'] or '-'}",
            )
            for row in describe_changes(alert.changes)
        ]
        return table(["check", "change"], rows)


def _severities(rule):
    """Return the gravest severity of each report's alerts."""
    order = list(Severity)
    gravest: dict[Any, str] = {}
    for alert in rule.shown_alerts:
        others = gravest.get(alert.report_id, alert.severity)
        gravest[alert.report_id] = max(others, alert.severity, key=order.index)
    return gravest
