"""Base classes of the admin's pages: filters, big tables, and rows that nobody edits.

Filters and searches compare whole values, so that indexes answer them.
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
    """Filter by a whole value of `field`, or of `parameter_name` without one."""

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
    members = {
        "title": title,
        "parameter_name": field,
        "field": field,
        "is_uuid": is_uuid,
    }
    return type(f"{field.title()}Filter", (ExactFilter,), members)


class DateRangeFilter(RangeDateTimeFilter):
    """Filter by a span of time in the time zone that pages show.

    Unfold's filter uses times without a zone, and ignores a day without a time.
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


# The confirmation page sends this field.
CONFIRMED_FIELD = "_sure"
# The search field of these lists posts to the search of the back office, which finds
# rows by names of people and workspaces.
SEARCHED_LIST_TEMPLATE = "admin/searched_list.html"
# The confirmation page names this many rows, and counts the others.
MAX_NAMED_ROWS = 20


class CheapPaginator(Paginator):
    """Count up to a limit, so that no page counts a whole table."""

    MAX_COUNT = 10_000
    object_list: QuerySet

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[: self.MAX_COUNT].count()


class BackofficeAdmin(ModelAdmin):
    """A page that deletes nothing and writes only the fields that a form changed.

    The search compares `search_ids` with a whole UUID, and `search_exact` with the
    whole text. `also_written` names fields that a form sets besides its own. `sure`
    maps an action to the text of the page that asks for confirmation.
    """

    search_ids: tuple[str, ...] = ("id",)
    search_exact: tuple[str, ...] = ()
    also_written: tuple[str, ...] = ()
    sure: dict[str, str] = {}

    paginator: Any = CheapPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    # Ids grow with time, so the primary key's index gives the newest first.
    ordering: Any = ["-id"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(
        self, lookup: str, value: str, request: HttpRequest | None = None
    ) -> bool:
        """Allow only the filters beside the list.

        Other lookups would read the whole table, and find rows by masked values.
        """
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
        needs_page = (
            name in self.sure and CONFIRMED_FIELD not in request.POST and chosen
        )
        if not (needs_page and name in self.get_actions(request)):
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
        # Jobs may write other columns of the row meanwhile, such as the balance.
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
        """Record a change in the page's history, and as `verb` in the audit trail."""
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
    """Return the parameter or field of an entry of `list_filter`."""
    if isinstance(listed, str):
        return listed
    return str(listed[0] if isinstance(listed, tuple) else listed.parameter_name)


class ReadOnlyAdmin(RevealingAdmin, BackofficeAdmin):
    """Rows that staff read and no form changes."""

    actions = None

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [*(self.fields or ()), *self.personal_fields]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(TabularInline):
    """Rows that belong to the page's row. `fields` names their columns."""

    extra = 0
    can_delete = False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return list(self.fields or ())

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def confirmation_page(
    page: admin.ModelAdmin,
    request: HttpRequest,
    template: str,
    *,
    action: str,
    title: str,
    **more: Any,
) -> TemplateResponse:
    """Return the page that asks before an action. Its form repeats the action."""
    context = {**page.admin_site.each_context(request), "title": title, **more}
    return TemplateResponse(request, template, {**context, "action": action})
