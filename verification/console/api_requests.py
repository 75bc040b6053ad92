"""Requests to the API: what a developer reads when a request did not work."""

from __future__ import annotations

from django.http import HttpResponse

from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.urls import addresses
from verification.console import forms
from verification.console.base import PAGE_SIZE, Place, member_required, read_id
from workspaces.api_requests import (
    RETENTION,
    ApiRequestFilters,
    list_api_requests,
)
from workspaces.members import Permission
from workspaces.models import ApiKey


@member_required(Permission.SEE_ADMINISTRATION)
def listing(place: Place) -> HttpResponse:
    keys = ApiKey.objects.filter(**place.lookups).order_by("-id")
    form = forms.RequestFilters(
        place.request.GET, keys=keys, routes=addresses().items()
    )
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
