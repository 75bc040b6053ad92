"""Filters of lists: what is typed is looked up whole, as the indexes have it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.timezone import make_aware
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter


class ExactFilter(TextFilter):
    """`field` is what `parameter_name` says; nothing is found by what cannot be it."""

    field = ""
    is_uuid = False

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        typed = (self.value() or "").strip()
        if not typed:
            return rows
        if self.is_uuid and not is_uuid(typed):
            return rows.none()
        return rows.filter(**{self.field or self.parameter_name: typed})


def exactly(field: str, title: str, *, is_uuid: bool = False) -> type[ExactFilter]:
    """A filter for one field."""
    members = {
        "title": title,
        "parameter_name": field,
        "field": field,
        "is_uuid": is_uuid,
    }
    return type(f"{field.title()}Filter", (ExactFilter,), members)


class Between(RangeDateTimeFilter):
    """Unfold's own asks for times without a zone, and drops a day without a time.

    Days and times are those that pages show.
    """

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        for side, lookup, time in (("from", "gte", "00:00"), ("to", "lte", "23:59:59")):
            name = f"{self.parameter_name}_{side}"
            if not (day := self.used_parameters.get(f"{name}_0")):
                continue
            time = self.used_parameters.get(f"{name}_1") or time
            try:
                moment = make_aware(datetime.fromisoformat(f"{day} {time}"))
            except ValueError:
                return rows.none()
            rows = rows.filter(**{f"{self.parameter_name}__{lookup}": moment})
        return rows


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
