"""Requests to the API: what a developer reads when a request did not work."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.urls import addresses
from verification.console.base import PAGE_SIZE, Place, member_required, read_id
from verification.console.fields import ALL_CHOICE, filter_field
from workspaces.api_requests import (
    RETENTION,
    ApiRequestFilters,
    list_api_requests,
)
from workspaces.members import Permission
from workspaces.models import ApiKey


def moment_field(label: Any) -> forms.DateTimeField:
    widget = forms.DateTimeInput(
        attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
    )
    invalid = {"invalid": _("Choose a day and a time")}
    return forms.DateTimeField(
        label=label, required=False, widget=widget, error_messages=invalid
    )


class RequestFilters(forms.Form):
    key = forms.ModelChoiceField(
        queryset=ApiKey.objects.none(),
        label=_("Key"),
        required=False,
        empty_label=_("All"),
    )
    outcome = filter_field(
        _("Answer"),
        [
            ("2", _("2xx: done")),
            ("4", _("4xx: refused")),
            ("5", _("5xx: error of the service")),
        ],
    )
    problem = filter_field(_("Problem"), ((code, code) for code in PROBLEM_KINDS))
    route = filter_field(_("Address"), [])
    since = moment_field(_("From"))
    until = moment_field(_("To"))
    request_id = forms.CharField(label=_("Request id"), max_length=128, required=False)

    def __init__(
        self, *args: Any, keys: QuerySet[ApiKey], routes: Iterable[tuple[str, str]]
    ) -> None:
        super().__init__(*args)
        chosen: Any = self.fields["key"]
        chosen.queryset = keys
        chosen.label_from_instance = lambda key: f"{key.name} {key}"
        chosen = self.fields["route"]
        chosen.choices = [*ALL_CHOICE, *routes]

    def filters(self) -> ApiRequestFilters:
        typed = self.cleaned_data
        hundreds = int(typed["outcome"] or 0) * 100
        until = typed["until"]
        return ApiRequestFilters(
            first_status=hundreds or None,
            last_status=hundreds + 99 if hundreds else None,
            problem=typed["problem"] or None,
            route=typed["route"] or None,
            since=typed["since"],
            # The minute that is chosen counts.
            until=until + timedelta(minutes=1) if until else None,
            request_id=typed["request_id"] or None,
        )


@member_required(Permission.SEE_ADMINISTRATION)
def listing(place: Place) -> HttpResponse:
    keys = ApiKey.objects.filter(**place.lookups).order_by("-id")
    form = RequestFilters(place.request.GET, keys=keys, routes=addresses().items())
    filters, chosen = ApiRequestFilters(), None
    if form.is_valid():
        filters, chosen = form.filters(), form.cleaned_data["key"]
    # One row more shows whether there is a next page.
    rows = list_api_requests(
        [chosen.pk] if chosen else list(keys.values_list("pk", flat=True)),
        filters,
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
