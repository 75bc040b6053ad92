"""Monitoring: the lists of rules and of alerts, and their pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import prefetch_related_objects
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from monitoring.alerts import edit_alert, mark_all_read
from monitoring.models import (
    Alert,
    alerts_of,
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.rules import price_of
from verification.checks.packages import package_of
from verification.console.alert_words import alert_sentences, compared_values
from verification.console.base import Place, member_required, post_required
from verification.console.fields import (
    FilterForm,
    filter_field,
    search_field,
)
from verification.console.words import Topic, choices_of
from verification.db.ids import uuid7
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.request import catalogue
from verification.web.pages import read_id
from workspaces.members import Permission

RUNS_SHOWN = 5


class RuleFilters(FilterForm):
    search = search_field(_("Name, ID number or reference"))


class AlertFilters(FilterForm):
    read = filter_field(_("Status"), [("no", _("Unread")), ("yes", _("Read"))])
    severity = filter_field(_("Severity"), choices_of(Topic.ALERT))


@member_required()
def rules(place: Place) -> HttpResponse:
    form = RuleFilters(place.request.GET)
    names = _check_names()
    page = list_rules(place.client, **form.chosen, **place.paging)
    shown = {
        "form": form,
        "page": page,
        "rows": [(rule, _names(rule.check_names, names)) for rule in page.rows],
    }
    return place.render("monitoring/rules", shown)


@member_required()
def rule(place: Place, rule: UUID) -> HttpResponse:
    found = rules_of(place.client).get(pk=rule)
    place.record("rule.opened", found)
    raised = recent_alerts([found.pk])[found.pk]
    _record(place, raised)
    names, package = _check_names(), package_of(found)
    runs = found.runs.select_related("report").order_by("-number")
    shown = {
        "rule": found,
        "checks": [
            (names.get(check.name, check.name), check)
            for check in check_states([found])[found.pk]
        ],
        "package": package,
        "price": price_of(found, catalogue(), package),
        "runs": runs[:RUNS_SHOWN],
        "alerts": [(one, alert_sentences(one, names)) for one in raised],
    }
    return place.render("monitoring/rule", shown)


@member_required()
def alerts(place: Place) -> HttpResponse:
    form = AlertFilters(place.request.GET)
    read = {"no": False, "yes": True}.get(form.chosen["read"])
    chosen = {**form.chosen, "read": read}
    page = list_alerts(place.client, **chosen, **place.paging)
    prefetch_related_objects(page.rows, "report")
    _record(place, page.rows)
    names = _check_names()
    rows = [(one, alert_sentences(one, names)) for one in page.rows]
    # An id of this moment: no alert that comes later is read by the page's button.
    shown = {"form": form, "page": page, "rows": rows, "until": uuid7()}
    return place.render("monitoring/alerts", shown)


@member_required()
def alert(place: Place, alert: UUID) -> HttpResponse:
    found = alerts_of(place.client).select_related("report").get(pk=alert)
    place.record("alert.opened", found)
    _record(place, [found])
    names = _check_names()
    shown = {
        "alert": found,
        "sentences": alert_sentences(found, names),
        "changes": compared_values(found, names),
        "rule": rules_of(place.client).filter(pk=found.rule_id).first(),
    }
    return place.render("monitoring/alert", shown)


def _check_names() -> Mapping[str, str]:
    return {name: one.title for name, one in catalogue().items()}


def _names(codes: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return [names.get(code, code) for code in codes]


@post_required(Permission.DECIDE_REPORTS)
def mark_read(place: Place, alert: UUID) -> HttpResponse:
    edit_alert(place.client, alert, read=True, actioned=None)
    return place.to("monitoring-alerts")


@post_required(Permission.DECIDE_REPORTS)
def read_all(place: Place) -> HttpResponse:
    mark_all_read(place.client, read_id(place.request.POST.get("until", "")))
    return place.to("monitoring-alerts")


def _record(place: Place, alerts: Iterable[Alert]) -> None:
    """Record that the member reads these alerts, which quote findings."""
    reports = [alert.report_id for alert in alerts]
    record_disclosures(reports, Channel.CONSOLE, place.client.actor)
