"""Requests to the API: what a developer reads when a request did not work."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.urls import addresses
from verification.console.base import PAGE_SIZE, Place, member_required
from verification.console.fields import ALL_CHOICE, FilterForm, filter_field
from verification.web.pages import read_id
from workspaces.api_requests import (
    RETENTION,
    ApiRequestFilters,
    list_api_requests,
)
from workspaces.members import Permission
from workspaces.models import ApiKey

LATEST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def moment_field(label: Any) -> forms.DateTimeField:
    widget = forms.DateTimeInput(
        attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
    )
    invalid = {"invalid": _("Choose a day and a time")}
    return forms.DateTimeField(
        label=label, required=False, widget=widget, error_messages=invalid
    )


class RequestFilters(FilterForm):
    key = filter_field(_("Key"))
    outcome = filter_field(
        _("Answer"),
        [
            ("2", _("2xx: done")),
            ("4", _("4xx: refused")),
            ("5", _("5xx: error of the service")),
        ],
    )
    problem = filter_field(_("Problem"), ((code, code) for code in PROBLEM_KINDS))
    route = filter_field(_("Address"))
    since = moment_field(_("From"))
    until = moment_field(_("To"))
    request_id = forms.CharField(label=_("Request id"), max_length=128, required=False)

    def filters(self) -> ApiRequestFilters:
        chosen = self.chosen
        hundreds, until = int(chosen["outcome"] or 0) * 100, chosen["until"]
        return ApiRequestFilters(
            first_status=hundreds or None,
            last_status=hundreds + 99 if hundreds else None,
            problem=chosen["problem"],
            route=chosen["route"],
            since=chosen["since"],
            # The minute that is chosen counts; after the last one there is none.
            until=min(until, LATEST) + timedelta(minutes=1) if until else None,
            request_id=chosen["request_id"],
        )


@member_required(Permission.SEE_ADMINISTRATION)
def listing(place: Place) -> HttpResponse:
    keys = ApiKey.objects.filter(**place.lookups).order_by("-id")
    choices = {
        "key": [*ALL_CHOICE, *((str(key.pk), f"{key.name} {key}") for key in keys)],
        "route": [*ALL_CHOICE, *addresses().items()],
    }
    form = RequestFilters(place.request.GET, choices=choices)
    chosen = form.chosen["key"]
    # One row more shows whether there is a next page.
    rows = list_api_requests(
        [key.pk for key in keys if chosen in {None, str(key.pk)}],
        form.filters(),
        before=read_id(place.request.GET.get("before", "")),
        size=PAGE_SIZE + 1,
    )
    shown = {
        "form": form,
        "requests": [(row, PROBLEM_KINDS.get(row.problem)) for row in rows[:PAGE_SIZE]],
        "after": rows[PAGE_SIZE - 1].pk if len(rows) > PAGE_SIZE else None,
        "is_continued": "before" in place.request.GET,
        "days": RETENTION.days,
    }
    return place.render("requests", shown)
