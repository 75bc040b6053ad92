"""Monitoring over HTTP: rules that run again and again, and the alerts they raise."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import ValidationError
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from monitoring.alerts import edit_alert, mark_all_read
from monitoring.models import Rule
from monitoring.pauses import delete_rule, pause_for_client, resume_for_client
from monitoring.queries import (
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.rules import read_rule
from monitoring.runs import create_rule
from verification.api.body import (
    body_of,
    client_of,
    refuse_body,
    refuse_unknown_parameters,
)
from verification.api.monitoring_operations import describe_alerts, describe_rules
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
from verification.api.query import build_page, read_query
from verification.reports.idempotency import IdempotencyKey, run_once
from verification.reports.orders import catalogue
from verification.reports.request import InvalidRequest, shape_faults
from workspaces.models import Client, Scope


@describe_rules
class MonitoringViewSet(GenericViewSet):
    """Rules of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "post", "delete"]
    lookup_url_kwarg = "monitoringId"
    lookup_value_converter = "uuid"
    required_scopes = {
        "create": Scope.MONITORING_WRITE,
        "list": Scope.MONITORING_READ,
        "retrieve": Scope.MONITORING_READ,
        "destroy": Scope.MONITORING_WRITE,
        "pause": Scope.MONITORING_WRITE,
        "resume": Scope.MONITORING_WRITE,
    }
    rate_buckets = {"create": "create"}
    problem_codes = {
        "create": (
            "insufficient-balance",
            "idempotency-in-progress",
            "idempotency-key-reused",
        ),
        "resume": ("rule-not-resumable", "insufficient-balance"),
    }

    def create(self, request: Request) -> Response:
        """Create a rule. Its first run is made at once and is what later ones are
        compared with; it is billed at the normal price, as every run is.

        With an `Idempotency-Key` a repeated request gets the first answer again.
        """
        refuse_unknown_parameters(request, ())
        client, body = client_of(request), body_of(request)
        header = request.headers.get("Idempotency-Key")
        key = (
            None
            if header is None
            else IdempotencyKey.read(header, client, "POST /monitoring", body)
        )
        answer = run_once(key, lambda: _create(client, body))
        headers = {"Idempotent-Replayed": "true"} if answer.replayed else None
        return Response(answer.body, status=201, headers=headers)

    def list(self, request: Request) -> Response:
        """List rules, newest first."""
        query = read_query(request, RuleQuery)
        found = list_rules(
            client_of(request), query.search, page=query.page, size=query.size
        )
        alerts = recent_alerts([rule.pk for rule in found.rows])
        checks = check_states(found.rows)
        bodies = [
            RuleBody.of(rule, alerts[rule.pk], checks[rule.pk]) for rule in found.rows
        ]
        return Response(
            build_page(RulePage, bodies, found.total, page=query.page, size=query.size)
        )

    def retrieve(self, request: Request, monitoringId: UUID) -> Response:
        """Get a rule with its schedule and its newest alerts."""
        refuse_unknown_parameters(request, ())
        return Response(_body(rules_of(client_of(request)).get(pk=monitoringId)))

    def destroy(self, request: Request, monitoringId: UUID) -> Response:
        """Delete a rule. Its reports and alerts stay readable, and a run that is under
        way ends as a report without an alert."""
        refuse_unknown_parameters(request, ())
        delete_rule(client_of(request), monitoringId)
        return Response(status=204)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, monitoringId: UUID) -> Response:
        """Pause a rule: it makes no runs until it is resumed."""
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        return Response(_body(pause_for_client(client_of(request), monitoringId)))

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, monitoringId: UUID) -> Response:
        """Resume a paused rule. If a run was missed, one is made at once.

        Where the subject withdrew consent, it must be attested anew.
        """
        refuse_unknown_parameters(request, ())
        client = client_of(request)
        consent = _parse_body(ResumeRequest, request).consent
        resumed = resume_for_client(client, monitoringId, consent, catalogue())
        return Response(_body(resumed))


@describe_alerts
class AlertViewSet(GenericViewSet):
    """Alerts of the key's workspace, in the key's environment."""

    http_method_names = ["get", "head", "patch", "put"]
    lookup_url_kwarg = "alertId"
    lookup_value_converter = "uuid"
    required_scopes = {
        "list": Scope.MONITORING_READ,
        "partial_update": Scope.MONITORING_WRITE,
        "read_all": Scope.MONITORING_WRITE,
    }

    def list(self, request: Request) -> Response:
        """List alerts, newest first."""
        query = read_query(request, AlertQuery)
        found = list_alerts(
            client_of(request),
            read=None if query.read is None else query.read == "true",
            severity=query.severity,
            page=query.page,
            size=query.size,
        )
        bodies = [AlertBody.of(alert) for alert in found.rows]
        return Response(
            build_page(AlertPage, bodies, found.total, page=query.page, size=query.size)
        )

    def partial_update(self, request: Request, alertId: UUID) -> Response:
        """Mark an alert as read or actioned, or as not."""
        refuse_unknown_parameters(request, ())
        asked = _parse_body(AlertEdit, request)
        alert = edit_alert(
            client_of(request), alertId, read=asked.read, actioned=asked.actioned
        )
        return Response(AlertBody.of(alert))

    @action(detail=False, methods=["patch", "put"], url_path="read-all")
    def read_all(self, request: Request) -> Response:
        """Mark every unread alert of the workspace as read; PUT is an alias."""
        refuse_unknown_parameters(request, ())
        refuse_body(request)
        mark_all_read(client_of(request))
        return Response(status=204)


def _create(client: Client, body: Any) -> dict[str, Any]:
    asked, order = read_rule(body, client.environment, catalogue())
    rule = create_rule(client, asked, order)
    return RuleBody.of(rule, [], check_states([rule])[rule.pk]).model_dump(
        mode="json", by_alias=True
    )


def _body(rule: Rule) -> RuleBody:
    alerts, checks = recent_alerts([rule.pk]), check_states([rule])
    return RuleBody.of(rule, alerts[rule.pk], checks[rule.pk])


def _parse_body(shape: Any, request: Request) -> Any:
    body: Any = body_of(request)
    try:
        return shape.model_validate(body)
    except ValidationError as e:
        raise InvalidRequest(shape_faults(e)) from e
