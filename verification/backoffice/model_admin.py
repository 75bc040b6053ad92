"""Filters of lists: what is typed is looked up whole, as the indexes have it.

What the pages of the back office share: big tables, and history nobody edits.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.timezone import make_aware
from unfold.admin import ModelAdmin, TabularInline
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

from verification.backoffice import audit
from verification.backoffice.disclosure import RevealingAdmin
from verification.backoffice.widgets import cached_display as cached_display
from verification.backoffice.widgets import json_block as json_block
from verification.backoffice.widgets import link as link
from verification.backoffice.widgets import table as table


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


def exact_filter(field: str, title: str, *, is_uuid: bool = False) -> type[ExactFilter]:
    """A filter for one field."""
    members = {
        "title": title,
        "parameter_name": field,
        "field": field,
        "is_uuid": is_uuid,
    }
    return type(f"{field.title()}Filter", (ExactFilter,), members)


class DateRangeFilter(RangeDateTimeFilter):
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


# Sent by who has read what follows.
CONFIRMED_FIELD = "_sure"
# Of lists whose field posts to the search of the back office, which finds their rows by
# names of people or workspaces, too.
SEARCHED_LIST_TEMPLATE = "admin/searched_list.html"
# More rows than this are counted, and not named, on the page that asks.
MAX_NAMED_ROWS = 20


class CheapPaginator(Paginator):
    """Counts no further than anybody pages, so that no page counts a whole table."""

    COUNTED = 10_000
    object_list: QuerySet

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[: self.COUNTED].count()


class BackofficeAdmin(ModelAdmin):
    """Nothing is deleted here, and only what was edited is written.

    `search_ids` are found by a whole UUID, `search_exact` by the whole text. What a
    form makes of other fields than its own is named in `also_written`. `sure` tells of
    actions what follows; they are done once somebody has read that and said yes.
    """

    search_ids: tuple[str, ...] = ("id",)
    search_exact: tuple[str, ...] = ()
    also_written: tuple[str, ...] = ()
    sure: dict[str, str] = {}

    paginator: Any = CheapPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    # Identifiers grow with time: the newest come first, straight from the index.
    ordering: Any = ["-id"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(
        self, lookup: str, value: str, request: HttpRequest | None = None
    ) -> bool:
        """By the filters beside the list alone: whatever else an address asks would
        read the whole table, and find by what is not shown."""
        assert request is not None  # noqa: S101
        filters = map(_filter_name, self.get_list_filter(request))
        offered = any(lookup == n or lookup.startswith(f"{n}_") for n in filters)
        allowed: bool = super().lookup_allowed(lookup, value, request)
        return offered and allowed and "\0" not in str(value)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return (*self.search_ids, *self.search_exact)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(pk__in=[])
        for name in self.search_ids if is_uuid(term) else ():
            found |= Q(**{name: term})
        for name in self.search_exact:
            found |= Q(**{name: term})
        return queryset.filter(found), False

    def response_action(
        self, request: HttpRequest, queryset: QuerySet, *more: Any, **named: Any
    ) -> Any:
        name = request.POST.get("action", "")
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        asks = name in self.sure and CONFIRMED_FIELD not in request.POST and chosen
        if not (asks and name in self.get_actions(request)):
            return super().response_action(request, queryset)
        if request.POST.get("select_across", "0") != "1":
            queryset = queryset.filter(pk__in=chosen)
        return confirmation_page(
            self,
            request,
            "admin/sure.html",
            action=name,
            title=self.get_actions(request)[name][2],
            told=self.sure[name],
            kept=[
                (key, value)
                for key, values in request.POST.lists()
                for value in values
                if key not in {"csrfmiddlewaretoken", "index", "action"}
            ],
            rows=queryset[:MAX_NAMED_ROWS],
            count=CheapPaginator(queryset, MAX_NAMED_ROWS).count,
        )

    def save_model(
        self, request: HttpRequest, obj: Any, form: Any, change: bool
    ) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        # Others write other columns of the row meanwhile, such as its balance.
        fields = obj._meta.concrete_fields
        changed = [f.name for f in fields if f.name in form.changed_data]
        stamped = [f.name for f in fields if getattr(f, "auto_now", False)]
        obj.save(update_fields=[*changed, *stamped, *self.also_written])

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> list[Any]:
        request.changed_fields = form.changed_data  # type: ignore[attr-defined]
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> LogEntry:
        self._audit(request, obj, "created")
        return super().log_addition(request, obj, message)

    def log_change(
        self,
        request: HttpRequest,
        obj: Model,
        message: Any,
        *,
        verb: str = "changed",
        reason: str = "",
    ) -> LogEntry:
        """Told to the page's history, and to the audit trail as `verb`."""
        with transaction.atomic():
            self._audit(request, obj, verb, reason)
            return super().log_change(request, obj, message)

    def audited(self, obj: Model) -> Model:
        """Return the row that the audit trail names in place of `obj`."""
        return obj

    def _audit(
        self, request: HttpRequest, obj: Model, verb: str, reason: str = ""
    ) -> None:
        obj = self.audited(obj)
        fields = getattr(request, "changed_fields", ())
        actor = audit.actor_of(request)
        action = f"{audit.noun(obj)}.{verb}"
        audit.record(action, actor, obj, fields=fields, reason=reason)


def _filter_name(listed: Any) -> str:
    """The parameter, or the field, of what stands in `list_filter`."""
    if isinstance(listed, str):
        return listed
    return str(listed[0] if isinstance(listed, tuple) else listed.parameter_name)


class ReadOnlyAdmin(RevealingAdmin, BackofficeAdmin):
    """History: shown, and changed by nobody."""

    actions = None

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*(self.fields or ()), *self.personal_fields]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(TabularInline):
    """Rows that belong to the page's row; names its columns in `fields`."""

    extra = 0
    can_delete = False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return list(self.fields or ())

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def confirmation_page(
    office: admin.ModelAdmin,
    request: HttpRequest,
    template: str,
    *,
    action: str,
    title: str,
    **more: Any,
) -> TemplateResponse:
    """The page that an action asks back by; its form names the action again."""
    context = {**office.admin_site.each_context(request), "title": title, **more}
    return TemplateResponse(request, template, {**context, "action": action})
