"""Monitoring: rules, and the alerts that their runs raised."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

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
from verification.console.base import (
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.fields import (
    ALL_CHOICE,
    FilterForm,
    filter_field,
    search_field,
)
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.request import catalogue
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission


class RuleFilters(FilterForm):
    search = search_field()


class AlertFilters(FilterForm):
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


# Why a rule cannot be resumed; any other reason is a withdrawn consent.
NOT_RESUMABLE = {
    "BY_STAFF": _("Staff paused it, and staff resume it."),
    "CHECK_INACTIVE": _("A check of it is not offered any more."),
}
WITHDRAWN = _("The subject withdrew consent. Attest a new one by the API to go on.")
REFUSALS: Refusals = {
    NotResumable: lambda e: NOT_RESUMABLE.get(e.reason, WITHDRAWN),
    InsufficientBalance: _("The balance does not cover a run. Top it up first."),
}


@member_required()
def rules(place: Place) -> HttpResponse:
    form = RuleFilters(place.request.GET)
    shown = {
        "form": form,
        "page": list_rules(place.client, **form.chosen, **place.paging),
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


@post_required(Permission.MANAGE_MONITORING)
def pause(place: Place, rule: UUID) -> HttpResponse:
    with transaction.atomic():
        place.record("rule.paused", pause_for_client(place.client, rule))
    return place.to("monitoring-rule", success=_("The rule is paused."), rule=rule)


@post_required(Permission.MANAGE_MONITORING)
def resume(place: Place, rule: UUID) -> HttpResponse:
    with place.refusing(REFUSALS, "monitoring-rule", rule=rule), transaction.atomic():
        found = resume_for_client(place.client, rule, None, catalogue())
        place.record("rule.resumed", found)
    return place.to("monitoring-rule", success=_("The rule goes on."), rule=rule)


@member_required()
def alerts(place: Place) -> HttpResponse:
    form = AlertFilters(place.request.GET)
    page = list_alerts(place.client, **form.chosen, **place.paging)
    _record(place, page.rows)
    return place.render("monitoring/alerts", {"form": form, "page": page})


@member_required()
def alert(place: Place, alert: UUID) -> HttpResponse:
    found = alerts_of(place.client).select_related("report").get(pk=alert)
    place.record("alert.opened", found)
    _record(place, [found])
    shown = {"alert": found, "changes": describe_changes(found.changes)}
    return place.render("monitoring/alert", shown)


@post_required(Permission.MANAGE_MONITORING)
def mark_read(place: Place, alert: UUID) -> HttpResponse:
    edit_alert(place.client, alert, read=True, actioned=None)
    return place.to("monitoring-alerts")


@post_required(Permission.MANAGE_MONITORING)
def read_all(place: Place) -> HttpResponse:
    mark_all_read(place.client)
    return place.to("monitoring-alerts")


def _record(place: Place, alerts: Iterable[Alert]) -> None:
    """Record that the member reads these alerts, which quote findings."""
    reports = [alert.report_id for alert in alerts]
    record_disclosures(reports, Channel.CONSOLE, place.client.actor)
