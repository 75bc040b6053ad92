"""Monitoring: rules, and the alerts that their runs raised."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from monitoring.alerts import describe_changes, edit_alert, mark_all_read
from monitoring.models import (
    Alert,
    Severity,
    alerts_of,
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.pauses import NotResumable, pause_for_client, resume_for_client
from verification.checks.packages import package_of
from verification.console.base import PAGE_SIZE, Page, Place, Text, member_required
from verification.console.fields import ALL_CHOICE, filter_field
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.request import catalogue
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission


class RuleFilters(forms.Form):
    search = forms.CharField(label=_("Search"), max_length=200, required=False)


class AlertFilters(forms.Form):
    read = forms.TypedChoiceField(
        label=_("Show"),
        choices=[
            *ALL_CHOICE,
            ("no", _("Unread")),
            ("yes", _("Read")),
        ],
        coerce=lambda text: text == "yes",
        empty_value=None,
        required=False,
    )
    severity = filter_field(_("Severity"), Severity.choices)


@member_required()
def rules(place: Place) -> HttpResponse:
    form = RuleFilters(place.request.GET)
    search = form.cleaned_data["search"] if form.is_valid() else ""
    number = place.page_number
    found = list_rules(place.client, search or None, page=number, size=PAGE_SIZE)
    shown = {
        "form": form,
        "page": Page(found.rows, found.total, number),
        "unread": alerts_of(place.client).filter(read=False).count(),
    }
    return place.render("monitoring/rules", shown)


@member_required()
def rule(place: Place, rule: UUID) -> HttpResponse:
    found = rules_of(place.client).get(pk=rule)
    place.record("rule.opened", found)
    raised = recent_alerts([found.pk])[found.pk]
    _record(place, raised)
    shown = {
        "rule": found,
        "checks": check_states([found])[found.pk],
        "package": package_of(found),
        "alerts": raised,
    }
    return place.render("monitoring/rule", shown)


@require_POST
@member_required(Permission.MANAGE_MONITORING)
def pause(place: Place, rule: UUID) -> HttpResponse:
    with transaction.atomic():
        place.record("rule.paused", pause_for_client(place.client, rule))
    return place.to("monitoring-rule", success=_("The rule is paused."), rule=rule)


@require_POST
@member_required(Permission.MANAGE_MONITORING)
def resume(place: Place, rule: UUID) -> HttpResponse:
    try:
        with transaction.atomic():
            found = resume_for_client(place.client, rule, None, catalogue())
            place.record("rule.resumed", found)
    except NotResumable as e:
        error = _explain_refusal(e.reason)
    except InsufficientBalance:
        error = _("The balance does not cover a run. Top it up first.")
    else:
        return place.to("monitoring-rule", success=_("The rule goes on."), rule=rule)
    return place.to("monitoring-rule", error=error, rule=rule)


@member_required()
def alerts(place: Place) -> HttpResponse:
    form = AlertFilters(place.request.GET)
    chosen = form.cleaned_data if form.is_valid() else {}
    number = place.page_number
    found = list_alerts(
        place.client,
        read=chosen.get("read"),
        severity=chosen.get("severity") or None,
        page=number,
        size=PAGE_SIZE,
    )
    _record(place, found.rows)
    page = Page(found.rows, found.total, number)
    return place.render("monitoring/alerts", {"form": form, "page": page})


@member_required()
def alert(place: Place, alert: UUID) -> HttpResponse:
    found = alerts_of(place.client).select_related("report").get(pk=alert)
    place.record("alert.opened", found)
    _record(place, [found])
    shown = {"alert": found, "changes": describe_changes(found.changes)}
    return place.render("monitoring/alert", shown)


@require_POST
@member_required(Permission.MANAGE_MONITORING)
def mark_read(place: Place, alert: UUID) -> HttpResponse:
    edit_alert(place.client, alert, read=True, actioned=None)
    return place.to("monitoring-alerts")


@require_POST
@member_required(Permission.MANAGE_MONITORING)
def read_all(place: Place) -> HttpResponse:
    mark_all_read(place.client)
    return place.to("monitoring-alerts")


def _record(place: Place, alerts: Iterable[Alert]) -> None:
    """Record that the member reads these alerts, which quote findings."""
    reports = [alert.report_id for alert in alerts]
    record_disclosures(reports, Channel.CONSOLE, place.client.actor)


def _explain_refusal(reason: str) -> Text:
    if reason == "BY_STAFF":
        return _("Staff paused it, and staff resume it.")
    if reason == "CHECK_INACTIVE":
        return _("A check of it is not offered any more.")
    return _("The subject withdrew consent. Attest a new one by the API to go on.")
