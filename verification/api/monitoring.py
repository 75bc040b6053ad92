"""Monitoring over HTTP: rules that run again and again, and the alerts they raise."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.alerts import edit_alert, mark_all_read
from monitoring.models import (
    Rule,
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.pauses import delete_rule, pause_for_client, resume_for_client
from monitoring.rules import RuleRequest, read_rule
from monitoring.runs import create_rule
from verification.api import examples
from verification.api.monitoring_shapes import (
    AlertBody,
    AlertEdit,
    AlertPage,
    AlertQuery,
    ResumeRequest,
    RuleBody,
    RulePage,
    RuleQuery,
)
from verification.api.operations import OperationViewSet, operation
from verification.api.query import PageEnvelope
from verification.reports.orders import catalogue
from workspaces.models import Scope


class MonitoringViewSet(OperationViewSet):
    """Rules of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post", "delete"]
    lookup_url_kwarg = "monitoringId"
    lookup_value_converter = "uuid"
    lookup_description = "The id of the rule."

    @operation(
        "createRule",
        "Create a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        body=RuleRequest,
        body_example=examples.RULE_REQUEST,
        validates_body=False,
        rate_bucket="create",
        idempotent_as="POST /monitoring",
        status=201,
        answer=RuleBody,
        example={**examples.RULE, "recentAlerts": []},
        problems=("insufficient-balance",),
    )
    def create(self, request: Request) -> Response:
        """Create a rule. Its first run is made at once and is what later ones are
        compared with; it is billed at the normal price, as every run is.

        With an `Idempotency-Key` a repeated request gets the first answer again.
        """
        return self.run_once(self._create_rule)

    def _create_rule(self) -> dict[str, Any]:
        read, order = read_rule(self.body, self.client.environment, catalogue())
        rule = create_rule(self.client, read, order)
        body = RuleBody.of(rule, [], check_states([rule])[rule.pk])
        return body.model_dump(mode="json", by_alias=True)

    @operation(
        "listRules",
        "List monitoring rules",
        scope=Scope.MONITORING_READ,
        query=RuleQuery,
        answer=RulePage,
        example={**examples.ONE_PAGE, "content": [examples.RULE]},
    )
    def list(self, request: Request) -> PageEnvelope:
        """List rules, newest first."""
        found = list_rules(
            self.client,
            self.query.search,
            page=self.query.page,
            size=self.query.size,
        )
        alerts = recent_alerts([rule.pk for rule in found.rows])
        checks = check_states(found.rows)
        bodies = [
            RuleBody.of(rule, alerts[rule.pk], checks[rule.pk]) for rule in found.rows
        ]
        return self.page_of(bodies, found.total)

    @operation(
        "getRule",
        "Get a monitoring rule",
        scope=Scope.MONITORING_READ,
        answer=RuleBody,
        example=examples.RULE,
    )
    def retrieve(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Get a rule with its schedule and its newest alerts."""
        return _rule_body(rules_of(self.client).get(pk=monitoringId))

    @operation(
        "deleteRule",
        "Delete a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        status=204,
        outcome="Done.",
    )
    def destroy(self, request: Request, monitoringId: UUID) -> None:
        """Delete a rule. Its reports and alerts stay readable, and a run that is under
        way ends as a report without an alert."""
        delete_rule(self.client, monitoringId)

    @action(detail=True, methods=["post"])
    @operation(
        "pauseRule",
        "Pause a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        answer=RuleBody,
        example=examples.PAUSED_RULE,
    )
    def pause(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Pause a rule: it makes no runs until it is resumed."""
        return _rule_body(pause_for_client(self.client, monitoringId))

    @action(detail=True, methods=["post"])
    @operation(
        "resumeRule",
        "Resume a monitoring rule",
        scope=Scope.MONITORING_WRITE,
        body=ResumeRequest,
        answer=RuleBody,
        example=examples.RULE,
        problems=("rule-not-resumable", "insufficient-balance"),
    )
    def resume(self, request: Request, monitoringId: UUID) -> RuleBody:
        """Resume a paused rule. If a run was missed, one is made at once.

        Where the subject withdrew consent, it must be attested anew.
        """
        consent = self.body.consent
        rule = resume_for_client(self.client, monitoringId, consent, catalogue())
        return _rule_body(rule)


class AlertViewSet(OperationViewSet):
    """Alerts of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "patch", "put"]
    lookup_url_kwarg = "alertId"
    lookup_value_converter = "uuid"
    lookup_description = "The id of the alert."

    @operation(
        "listAlerts",
        "List alerts",
        scope=Scope.MONITORING_READ,
        query=AlertQuery,
        answer=AlertPage,
        example={**examples.ONE_PAGE, "content": [examples.ALERT]},
    )
    def list(self, request: Request) -> PageEnvelope:
        """List alerts, newest first."""
        read = self.query.read
        found = list_alerts(
            self.client,
            read=None if read is None else read == "true",
            severity=self.query.severity,
            page=self.query.page,
            size=self.query.size,
        )
        return self.page_of([AlertBody.of(alert) for alert in found.rows], found.total)

    @operation(
        "editAlert",
        "Mark an alert",
        scope=Scope.MONITORING_WRITE,
        body=AlertEdit,
        body_example={"read": True},
        answer=AlertBody,
        example={**examples.ALERT, "read": True},
    )
    def partial_update(self, request: Request, alertId: UUID) -> AlertBody:
        """Mark an alert as read or actioned, or as not."""
        edit: AlertEdit = self.body
        alert = edit_alert(self.client, alertId, read=edit.read, actioned=edit.actioned)
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


def _rule_body(rule: Rule) -> RuleBody:
    alerts, checks = recent_alerts([rule.pk]), check_states([rule])
    return RuleBody.of(rule, alerts[rule.pk], checks[rule.pk])
