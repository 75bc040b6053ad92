"""Monitoring over HTTP: rules that run again and again, and the alerts they raise."""

from collections.abc import Iterable
from itertools import chain
from typing import Literal, Self
from uuid import UUID

from pydantic import StrictBool
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.alerts import AlertChange, EventAlert, edit_alert, mark_all_read
from monitoring.models import (
    Alert,
    Cadence,
    CheckState,
    PauseReason,
    Rule,
    RuleStatus,
    Run,
    Severity,
    alerts_of,
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.pauses import delete_rule, pause_for_client, resume_for_client
from monitoring.rules import RuleRequest, read_rule
from monitoring.runs import create_rule
from verification.api.content import PageQuery
from verification.api.operations import OperationViewSet, PageEnvelope, operation
from verification.api.report_shapes import SubjectBody
from verification.checks.catalogue import CheckName
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.request import (
    ConsentInput,
    RequestShape,
    catalogue,
    named_packages,
)
from verification.values import formats
from verification.values.shapes import Shape, Timestamp
from workspaces.models import Client, Scope

NOT_STARTED = "The last run could not be started; it is tried again."


class RuleQuery(PageQuery):
    search: formats.text(200) | None = None  # type: ignore[valid-type]
    """Any part of the subject's name, or exactly its ID number, registration number,
    e-mail, phone number, the rule's reference or the rule's id."""
    status: RuleStatus | None = None
    """Only rules with this status."""


class AlertQuery(PageQuery):
    read: Literal["true", "false"] | None = None
    """Only alerts that were, or were not, marked as read."""
    rule_id: UUID | None = None
    """Only alerts of this rule."""
    severity: Severity | None = None
    """Only alerts of this severity."""


class ResumeRequest(RequestShape):
    consent: ConsentInput | None = None
    """Required if the subject withdrew consent: a new attestation."""


class AlertEdit(RequestShape):
    """Members that you leave out keep their value."""

    read: StrictBool | None = None
    actioned: StrictBool | None = None


class AlertBody(EventAlert):
    monitoring_id: UUID

    @classmethod
    def of(cls, alert: Alert) -> Self:
        changes = [AlertChange(**change) for change in alert.changes]
        return cls.from_row(alert, monitoring_id=alert.rule_id, changes=changes)


class AlertPage(PageEnvelope):
    content: list[AlertBody]


class RuleCheckBody(Shape):
    check_name: CheckName
    last_completed_at: Timestamp | None = None
    """The last time the check completed; null if it never did."""
    runs_without_answer: int
    """The number of runs in a row in which it has failed since."""


class RuleBody(Shape):
    id: UUID
    subject: SubjectBody
    check_names: list[CheckName]
    package: str | None = None
    """The package that the rule was made with; its checks may have changed since."""
    checks: list[RuleCheckBody]
    """Each check, and when it last completed."""
    cadence: Cadence
    status: RuleStatus
    pause_reason: PauseReason | None = None
    paused_at: Timestamp | None = None
    next_run_at: Timestamp | None = None
    """Null while the rule is paused."""
    launch_error: str | None = None
    """Not null if a due run could not be started; the service tries again."""
    reference: str | None = None
    recent_alerts: list[AlertBody]
    """The newest ten, newest first."""
    created_at: Timestamp

    @classmethod
    def of(cls, rule: Rule, alerts: list[Alert], checks: list[CheckState]) -> Self:
        is_late = rule.is_active and rule.launch_failures
        return cls.from_row(
            rule,
            subject=SubjectBody(**rule.subject),
            checks=[
                RuleCheckBody(
                    check_name=check.name,
                    last_completed_at=check.completed_at,
                    runs_without_answer=check.unanswered,
                )
                for check in checks
            ],
            pause_reason=rule.pause_reason or None,
            next_run_at=rule.next_run_at if rule.is_active else None,
            launch_error=NOT_STARTED if is_late else None,
            recent_alerts=[AlertBody.of(alert) for alert in alerts],
        )


class RulePage(PageEnvelope):
    content: list[RuleBody]


class MonitoringViewSet(OperationViewSet):
    """Rules of the key's workspace, in the key's environment."""

    lookup_url_kwarg = "monitoringId"
    lookup_description = "The id of the rule."

    @operation(
        "createRule",
        "Create a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        body=RuleRequest,
        validates_body=False,
        rate_bucket="create",
        idempotent_as="POST /monitoring",
        status=201,
        answer=RuleBody,
        problems=("insufficient-balance", "answer-erased"),
    )
    def create(self, request: Request) -> Response:
        """Create a rule. Its first run starts at once, and later runs are compared with
        it. Every run is billed at the normal price.

        With an `Idempotency-Key`, a repeated request gets the first answer again.
        """
        return self.run_once(
            self._create_rule,
            lambda answer: Run.objects.get(rule=answer["id"], number=1).report_id,
        )

    def _create_rule(self) -> RuleBody:
        packages = named_packages(self.client.workspace.pk, [self.body])
        read, order = read_rule(
            self.body, self.client.environment, catalogue(), packages
        )
        rule = create_rule(self.client, read, order, self.actor)
        return RuleBody.of(rule, [], check_states([rule])[rule.pk])

    @operation(
        "listRules",
        "List monitoring rules",
        scope=Scope.MONITORING_READ,
        query=RuleQuery,
        answer=RulePage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List rules, newest first."""
        found = list_rules(
            self.client,
            self.query.search,
            status=self.query.status,
            page=self.query.page,
            size=self.query.size,
        )
        alerts = recent_alerts([rule.pk for rule in found.rows])
        checks = check_states(found.rows)
        _record(self.client, chain.from_iterable(alerts.values()))
        bodies = [
            RuleBody.of(rule, alerts[rule.pk], checks[rule.pk]) for rule in found.rows
        ]
        return self.page_of(bodies, found.total)

    @operation("getRule", "Get a monitoring rule", scope=Scope.MONITORING_READ)
    def retrieve(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Get a rule with its schedule and its newest alerts."""
        return _rule_body(self.client, rules_of(self.client).get(pk=monitoringId))

    @operation(
        "deleteRule",
        "Delete a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        status=204,
        outcome="Done.",
    )
    def destroy(self, request: Request, monitoringId: UUID) -> None:
        """Delete a rule. Its reports and alerts stay readable. A run that is under way
        ends as a report without an alert."""
        delete_rule(self.client, monitoringId, self.actor)

    @action(detail=True, methods=["post"])
    @operation("pauseRule", "Pause a monitoring rule", scope=Scope.MONITORING_WRITE)
    def pause(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Pause a rule: it has no runs until you resume it."""
        rule = pause_for_client(self.client, monitoringId, self.actor)
        return _rule_body(self.client, rule)

    @action(detail=True, methods=["post"])
    @operation(
        "resumeRule",
        "Resume a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        body=ResumeRequest,
        problems=("rule-not-resumable", "insufficient-balance"),
    )
    def resume(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Resume a paused rule. If a run was missed, one starts at once.

        If the subject withdrew consent, you must attest a new one.
        """
        rule = resume_for_client(
            self.client, monitoringId, self.body.consent, catalogue(), self.actor
        )
        return _rule_body(self.client, rule)


class AlertViewSet(OperationViewSet):
    """Alerts of the key's workspace, in the key's environment."""

    lookup_url_kwarg = "alertId"
    lookup_description = "The id of the alert."

    @operation(
        "listAlerts",
        "List alerts",
        scope=Scope.MONITORING_READ,
        query=AlertQuery,
        answer=AlertPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List alerts, newest first."""
        read = self.query.read
        found = list_alerts(
            self.client,
            read=None if read is None else read == "true",
            rule_id=self.query.rule_id,
            severity=self.query.severity,
            page=self.query.page,
            size=self.query.size,
        )
        _record(self.client, found.rows)
        return self.page_of([AlertBody.of(alert) for alert in found.rows], found.total)

    @operation("getAlert", "Get an alert", scope=Scope.MONITORING_READ)
    def retrieve(self, request: Request, alertId: UUID) -> AlertBody:
        """Get an alert, with each changed field."""
        alert = alerts_of(self.client).get(pk=alertId)
        _record(self.client, [alert])
        return AlertBody.of(alert)

    @operation(
        "editAlert", "Mark an alert", scope=Scope.MONITORING_WRITE, body=AlertEdit
    )
    def partial_update(self, request: Request, alertId: UUID) -> AlertBody:
        """Mark an alert as read or unread, as actioned or not actioned."""
        edit: AlertEdit = self.body
        alert = edit_alert(self.client, alertId, read=edit.read, actioned=edit.actioned)
        _record(self.client, [alert])
        return AlertBody.of(alert)

    @action(detail=False, methods=["patch", "put"], url_path="read-all")
    @operation(
        "readAllAlerts",
        "Mark all alerts as read",
        scope=Scope.MONITORING_WRITE,
        status=204,
        outcome="Done.",
    )
    def read_all(self, request: Request) -> None:
        """Mark every unread alert of the workspace as read; PUT is an alias."""
        mark_all_read(self.client)


def _record(client: Client, alerts: Iterable[Alert]) -> None:
    """Record that the client reads these alerts, which quote findings."""
    reports = [alert.report_id for alert in alerts]
    record_disclosures(reports, Channel.API, client.actor)


def _rule_body(client: Client, rule: Rule) -> RuleBody:
    alerts, checks = recent_alerts([rule.pk]), check_states([rule])
    _record(client, alerts[rule.pk])
    return RuleBody.of(rule, alerts[rule.pk], checks[rule.pk])
