"""Base classes and filters of the admin's pages.

- `BackofficeAdmin`: deletes nothing, and searches whole values, by indexes.
- `RevealingAdmin`: masks personal data until staff give a reason to see it. A reveal
  shows one page for ten minutes in one session, and is in the audit trail.
- `ReadOnlyAdmin`: rows that no form changes.
- `ApprovalAdmin`: requests that staff approve or reject; `approvals` has the rules.

Jobs and the API import `audit` and `approvals`, not this module: unfold needs memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial, wraps
from typing import Any, ClassVar, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.timezone import make_aware
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import RangeDateTimeFilter, TextFilter

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused, staff_actor
from verification.backoffice.widgets import (
    NOT_OFFERED,
    ReasonForm,
    dialog_action,
    json_block,
    link_by_id,
    redirect_back,
)
from verification.db.ids import filter_by_number
from verification.values.clock import now
from verification.values.masking import DOTS, mask
from verification.web.pages import read_id

# The confirmation page sends this field.
CONFIRMED_FIELD = "_confirmed"
# The search field of these lists posts to the search of the back office, which finds
# rows by names of people and workspaces.
SEARCHED_LIST_TEMPLATE = "admin/searched_list.html"
# The confirmation page names this many rows, and counts the others.
MAX_NAMED_ROWS = 20
REVEAL_SECONDS = 600
SESSION_KEY = "revealed"
REVEAL = "backoffice.reveal_personal"
REVEAL_NOTICE = "Who you are, what you open and the reason are recorded for good."
# The exceptions by which a verb refuses, and whose text the page shows.
Refusals = type[Exception] | tuple[type[Exception], ...]


class OtherNumbers(NamedTuple):
    """Numbers on papers about rows of another model, by which a list is searched.

    `column` of the list has the values of the other rows' column `of`.
    """

    letter: str
    model: type[Model]
    column: str = "pk"
    of: str = "pk"


class CheapPaginator(Paginator):
    """Count up to a limit, so that no page counts a whole table."""

    MAX_COUNT = 10_000
    object_list: QuerySet

    @cached_property
    def count(self) -> int:
        return self.object_list.order_by()[: self.MAX_COUNT].count()


SENT_BEFORE = "You sent this before. It was entered once, and this is it."


class BackofficeAdmin(ModelAdmin):
    """A page that deletes nothing and writes only the fields that a form changed.

    The search compares `search_ids` with a whole UUID, and `search_exact` with the
    whole text; `search_parts` may hold it anywhere, and are for the names of customers,
    whose tables are small. `number_letter` begins the number that a row has on paper,
    and `other_numbers` are those of rows that belong to it.
    `also_written` names fields that a form sets besides its own. `confirm` maps an
    action to the text of the page that asks before it, and `offers` the permission of
    an action to what a row needs to show it; `rights` maps it to the user's permission
    that the action needs in place of the page's. `own_pages` maps the address of a page
    below the list to the method that is its view. `refusals` are the exceptions of its
    dialogs' verbs whose text the page shows.
    """

    search_ids: tuple[str, ...] = ("id",)
    search_exact: tuple[str, ...] = ()
    search_parts: tuple[str, ...] = ()
    number_letter = ""
    other_numbers: OtherNumbers | None = None
    also_written: tuple[str, ...] = ()
    confirm: dict[str, str] = {}
    offers: dict[str, Callable[[Any], object]] = {}
    rights: dict[str, str] = {}
    own_pages: dict[str, str] = {}
    refusals: Refusals = DecisionRefused

    paginator: Any = CheapPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    # Ids grow with time, so the primary key's index gives the newest first.
    ordering: Any = ["-id"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for name in self.offers:
            setattr(self, f"has_{name}_permission", partial(self._offers, name))

    def _offers(
        self, name: str, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        if not (object_id and self.may_if_offered(request, name)):
            return False
        row = self.get_object(request, object_id)
        return row is not None and bool(self.offers[name](row))

    def may_if_offered(self, request: HttpRequest, name: str) -> bool:
        """Return whether the user may do what a row offers, if it offers it."""
        if name not in self.offers:
            return False
        if right := self.rights.get(name):
            return request.user.has_perm(right)
        return self.has_act_permission(request)

    def get_urls(self) -> list[URLPattern]:
        meta = self.opts
        own = [
            path(
                address,
                self.admin_site.admin_view(getattr(self, view)),
                name=f"{meta.app_label}_{meta.model_name}_{view}",
            )
            for address, view in self.own_pages.items()
        ]
        return [*own, *super().get_urls()]

    def _get_obj_does_not_exist_redirect(self, *arguments: Any) -> HttpResponse:
        # Django would lead to the front page of the admin.
        raise Http404

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Add a row once, if the form has its id in `page`."""
        sent = self._row_of_page(request)
        if sent is None:
            try:
                added: HttpResponse = super().add_view(request, form_url, extra_context)
                return added
            except IntegrityError:
                # Another request has added the row meanwhile.
                sent = self._row_of_page(request)
                if sent is None:
                    raise
        self.message_user(request, SENT_BEFORE, messages.INFO)
        return redirect_back(request, sent)

    def _row_of_page(self, request: HttpRequest) -> Any:
        page = read_id(request.POST.get("page", ""))
        return self.get_queryset(request).filter(pk=page).first() if page else None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_act_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        """Return whether the user may run the page's actions.

        Read-only rows have no form, so `change` allows only their actions.
        """
        meta = self.opts
        return request.user.has_perm(f"{meta.app_label}.change_{meta.model_name}")

    def changeable_row(self, request: HttpRequest, object_id: str | None) -> Any:
        """Return the row if there is one and the user may run its actions, or None."""
        if not (object_id and self.has_act_permission(request)):
            return None
        return self.get_object(request, object_id)

    def get_row(self, request: HttpRequest, object_id: str) -> Any:
        """Return the row, or raise Http404."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return row

    def run_dialog(
        self,
        request: HttpRequest,
        row: Model,
        verb: Callable[[], str],
        refusals: Refusals = DecisionRefused,
        prefix: str = "",
    ) -> HttpResponse:
        """Run the verb of a dialog in a transaction and return to the row's page.

        The page shows the text that the verb returns, or why it refuses.
        """
        try:
            with transaction.atomic():
                done = verb()
        except refusals as e:
            self.message_user(request, f"{prefix}{e}", messages.ERROR)
        else:
            self.message_user(request, f"{prefix}{done}", messages.SUCCESS)
        return redirect_back(request, row)

    def run_on_each(
        self,
        request: HttpRequest,
        rows: Iterable[Any],
        verb: Callable[[Any], object],
        done: str,
        *,
        audited: str,
        change: str = "",
        reason: str = "",
        refusals: Refusals = DecisionRefused,
    ) -> None:
        """Run the verb of an action on each row; the page shows `done`, or why not.

        `audited` is the act in the audit trail, `change` the same in the history.
        """

        def run(row: Any) -> str:
            verb(row)
            act = change or audited.replace("-", " ")
            self.log_change(request, row, act, verb=audited, reason=reason)
            return done

        chosen = list(rows)
        if not chosen:
            self.message_user(request, NOT_OFFERED, messages.WARNING)
        for row in chosen:
            prefix = f"{row.pk}: "
            self.run_dialog(request, row, partial(run, row), refusals, prefix)

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
        return (*self.search_ids, *self.search_exact, *self.search_parts)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if self.number_letter:
            numbered = filter_by_number(queryset, self.number_letter, term)
            if numbered is not None:
                return numbered, False
        if other := self.other_numbers:
            numbered = filter_by_number(
                other.model._default_manager.all(), other.letter, term
            )
            if numbered is not None:
                rows = {f"{other.column}__in": numbered.values(other.of)}
                return queryset.filter(**rows), False
        found = Q(pk__in=[])
        for name in self.search_ids if read_id(term) else ():
            match = Q(**{name: term})
            if "__" not in name:
                found |= match
            # An OR over two tables could use the index of neither.
            elif (belonging := queryset.filter(match)).exists():
                return belonging, False
        for name in self.search_exact:
            found |= Q(**{name: term})
        for name in self.search_parts:
            found |= Q(**{f"{name}__icontains": term})
        return queryset.filter(found), False

    def response_action(
        self, request: HttpRequest, queryset: QuerySet, *more: Any, **named: Any
    ) -> Any:
        name = request.POST.get("action", "")
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        asks = name in self.confirm and name in self.get_actions(request)
        if not (asks and chosen and CONFIRMED_FIELD not in request.POST):
            return super().response_action(request, queryset)
        if request.POST.get("select_across", "0") != "1":
            queryset = queryset.filter(pk__in=chosen)
        return confirmation_page(
            self,
            request,
            "admin/confirm.html",
            action=name,
            title=self.get_actions(request)[name][2],
            notice=self.confirm[name],
            fields=[
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
        # A job may have written other columns since, such as the balance.
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


class RevealingAdmin(BackofficeAdmin):
    """An admin page with masked values.

    `personal_fields` names encrypted fields, and methods that return data, not HTML.
    """

    personal_fields: tuple[str, ...] = ()
    # Names for the audit trail of other values that a reveal shows.
    also_revealed: tuple[str, ...] = ()
    # The audit trail records each view of a page with names of people.
    audits_opening = False
    actions_detail: Any = ["reveal"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.personal_fields = tuple(map(self._masked, self.personal_fields))

    def _masked(self, name: str) -> str:
        """Add a method that masks this value, and return its name.

        Django shows a field of the model itself rather than a method of its name.
        """
        display = getattr(self, name, None)
        method = name if display else f"decrypted_{name}"
        setattr(self, method, _mask_until_revealed(display, self.model, name))
        return method

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        # The page and each of its buttons read the row.
        cache = request.__dict__.setdefault("_rows", {})
        key = self.opts.label, str(object_id)
        if key not in cache:
            cache[key] = obj = super().get_object(request, object_id, from_field)
            if obj is not None:
                obj.reader, may = request.user, request.user.has_perm(REVEAL)
                obj.is_revealed = may and is_revealed(request, obj)
        return cache[key]

    def render_change_form(
        self, request: HttpRequest, context: Any, *arguments: Any, **more: Any
    ) -> Any:
        if self.audits_opening and (obj := more.get("obj")):
            audit.record(f"{audit.noun(obj)}.opened", audit.actor_of(request), obj)
        return super().render_change_form(request, context, *arguments, **more)

    def has_reveal_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        return (
            bool(self.personal_fields)
            and self.has_view_permission(request)
            and request.user.has_perm(REVEAL)
        )

    def get_revealed_row(self, request: HttpRequest, object_id: object) -> Any:
        """Return the row for a view of its file, which does not exist until a reveal.

        Raises Http404.
        """
        row = self.get_row(request, str(object_id))
        allowed = self.has_reveal_permission(request, str(object_id))
        if not (allowed and is_revealed(request, row)):
            raise Http404
        return row

    @dialog_action(
        "Reveal personal data",
        f"{REVEAL_NOTICE} It is shown for ten minutes.",
        "Reveal",
        ReasonForm,
        description="Reveal personal data",
        icon="visibility",
        permissions=["reveal"],
    )
    def reveal(
        self, request: HttpRequest, form: ReasonForm, object_id: str
    ) -> HttpResponse:
        obj, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        names = [name.removeprefix("decrypted_") for name in self.personal_fields]
        names += self.also_revealed
        act = f"{audit.noun(obj)}.revealed"
        audit.record(act, audit.actor_of(request), obj, fields=names, reason=reason)
        remember_reveal(request, obj)
        return redirect_back(request, obj)


def is_revealed(request: HttpRequest, obj: Model) -> bool:
    return request.session.get(SESSION_KEY, {}).get(_name(obj), 0) > now().timestamp()


def remember_reveal(request: HttpRequest, obj: Model) -> None:
    moment = now().timestamp()
    open_pages = {
        k: end
        for k, end in request.session.get(SESSION_KEY, {}).items()
        if end > moment
    }
    request.session[SESSION_KEY] = {**open_pages, _name(obj): moment + REVEAL_SECONDS}


def _name(obj: Model) -> str:
    return f"{obj._meta.label_lower}:{obj.pk}"


def _mask_until_revealed(
    display: Callable[[Any], Any] | None, model: type[Model], name: str
) -> Callable[[Any], Any]:
    shown: Any = display
    if display is None:
        field: Any = model._meta.get_field(name)

        def shown(obj: Any) -> Any:
            return getattr(obj, name)

        shown.short_description = str(field.verbose_name)

    @wraps(shown)
    def masked(obj: Any) -> Any:
        value = shown(obj)
        if isinstance(value, SafeString):
            return value if obj.is_revealed else DOTS
        return json_block(value if obj.is_revealed else mask(value))

    return masked


class ReadOnlyAdmin(RevealingAdmin):
    """Rows that staff read and no form changes.

    Staff may add rows by `entry_form`, whose method `enter` takes the user and returns
    the row.
    """

    actions: Any = None
    entry_form: Any = None

    @admin.display(description="Report")
    def report_page(self, row: Any) -> str:
        return link_by_id("reports.report", row.report_id) if row.report_id else "-"

    @admin.display(description="Checkout")
    def checkout_page(self, row: Any) -> str:
        pk = row.checkout_id
        return link_by_id("payments.checkout", pk) if pk else "-"

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **more: Any
    ) -> Any:
        if self.entry_form and not change:
            more["form"] = self.entry_form
        return super().get_form(request, obj, change, **more)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if self.entry_form and obj is None:
            return [*self.entry_form.base_fields]
        return [*(self.fields or ()), *self.personal_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        is_new = self.entry_form and obj is None
        return [] if is_new else super().get_readonly_fields(request, obj)

    def save_model(
        self, request: HttpRequest, obj: Any, form: Any, change: bool
    ) -> None:
        obj.pk = form.enter(staff_actor(request)).pk
        obj.refresh_from_db()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.entry_form is not None and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ApprovalAdmin(ReadOnlyAdmin):
    """A list of requests that staff approve or reject, after a confirmation page.

    `verbs` take the id of a row and `by`, and raise DecisionRefused. `consequences` are
    the texts of the confirmation pages, `columns` the attributes of a row they show.
    """

    actions = ["approve", "reject"]
    verbs: ClassVar[dict[str, Callable[..., Any]]]
    consequences: ClassVar[dict[str, str]]
    columns: ClassVar[Sequence[str]]

    @admin.action(description="Approve", permissions=["act"])
    def approve(
        self, request: HttpRequest, rows: QuerySet[Any]
    ) -> TemplateResponse | None:
        return self._decide(request, rows, "approve", "approved")

    @admin.action(description="Reject", permissions=["act"])
    def reject(
        self, request: HttpRequest, rows: QuerySet[Any]
    ) -> TemplateResponse | None:
        return self._decide(request, rows, "reject", "rejected")

    def _decide(
        self, request: HttpRequest, rows: QuerySet[Any], action: str, done: str
    ) -> TemplateResponse | None:
        if "confirmed" not in request.POST:
            return self._confirmation_page(request, rows, action)
        by = staff_actor(request)
        self.run_on_each(
            request,
            rows,
            lambda row: self.verbs[action](row.pk, by=by),
            f"{done}.",
            audited=done,
        )
        return None

    def _confirmation_page(
        self, request: HttpRequest, rows: QuerySet[Any], action: str
    ) -> TemplateResponse:
        names = self.columns
        return confirmation_page(
            self,
            request,
            "admin/decide.html",
            action=action,
            title=f"{action.capitalize()} {self.opts.verbose_name_plural}",
            headings=[name.replace("_", " ").capitalize() for name in names],
            rows=[(row.pk, [getattr(row, name) for name in names]) for row in rows],
            notice=self.consequences[action],
        )


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


def choice_filter(
    title: str, parameter: str, choices: dict[str, tuple[str, Callable[[Any], Any]]]
) -> type[admin.SimpleListFilter]:
    """Return a filter; `choices` maps a value to its label and to what filters rows."""

    class ChoiceFilter(admin.SimpleListFilter):
        def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
            return [(value, label) for value, (label, _) in choices.items()]

        def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return choices[value][1](rows) if value in choices else rows

    ChoiceFilter.title, ChoiceFilter.parameter_name = title, parameter
    return ChoiceFilter


def empty_filter(field: str, *words: str) -> tuple[str, type[admin.FieldListFilter]]:
    """Return a filter by whether a field is empty, with words for yes and for no."""

    class EmptyFilter(admin.EmptyFieldListFilter):
        def choices(self, changelist: Any) -> Iterator[Any]:
            choices = super().choices(changelist)
            for choice, text in zip(choices, ("All", *words), strict=True):
                yield {**choice, "display": text}

    return field, EmptyFilter


def exact_filter(field: str, title: str, *, is_id: bool = False) -> type[TextFilter]:
    """Return a filter by a whole value of the field, which may be a UUID."""

    class ExactFilter(TextFilter):
        def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
            typed = (self.value() or "").strip()
            if is_id and typed and not read_id(typed):
                return rows.none()
            return rows.filter(**{field: typed}) if typed else rows

    ExactFilter.title, ExactFilter.parameter_name = title, field
    return ExactFilter


class DateRangeFilter(RangeDateTimeFilter):
    """Filter by a span of time in the time zone that pages show.

    Unfold's filter uses times without a zone, and ignores a day without a time.
    """

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        for side, lookup, clock in (
            ("from", "gte", "00:00"),
            ("to", "lte", "23:59:59"),
        ):
            name = f"{self.parameter_name}_{side}"
            if not (day := self.used_parameters.get(f"{name}_0")):
                continue
            clock = self.used_parameters.get(f"{name}_1") or clock
            try:
                moment = make_aware(datetime.fromisoformat(f"{day} {clock}"))
            except ValueError:
                return rows.none()
            rows = rows.filter(**{f"{self.parameter_name}__{lookup}": moment})
        return rows


def _filter_name(listed: Any) -> str:
    """Return the parameter or field of an entry of `list_filter`."""
    if isinstance(listed, str):
        return listed
    return str(listed[0] if isinstance(listed, tuple) else listed.parameter_name)
