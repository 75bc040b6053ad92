"""Parts of the admin's pages: dialogs, links, tables, and charts as SVG."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.contrib.auth import get_permission_codename
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.decorators import action
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from verification.backoffice import audit
from verification.db.ids import number_of_id
from verification.values.local_time import format_nairobi

Facts = list[tuple[str, Any]]
NOT_OFFERED = "Nothing was done: it is done already, or no longer possible."
# The letter of the numbers of these rows
NUMBERED = {"reports.report": "R", "payments.checkout": "P"}


class FactsForm(BaseDialogForm):
    """A dialog that shows facts about the row above its fields."""

    form_before_template = "admin/facts.html"
    # The label of the button, in place of the dialog's.
    submit_text = ""

    def facts(self) -> Facts:
        return []

    def get_before_template_context(
        self, request: HttpRequest, object_id: Any = None
    ) -> dict[str, Any]:
        return {"facts": self.facts()}


class ReasonForm(FactsForm):
    reason = forms.CharField(
        max_length=audit.MAX_REASON_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="The audit trail keeps it for good: name nobody in it.",
    )


def dialog_action(
    title: str,
    text: str,
    button: str,
    form: type[BaseDialogForm] = BaseDialogForm,
    **options: Any,
) -> Any:
    """Decorate an action that asks in a dialog: opening its URL changes nothing.

    `options` are those of unfold's `action`. A user who had it on a page that is out of
    date, or presses twice, reads so on the row's page.
    """
    asked: Any = {
        "title": title,
        "description": text,
        "form_class": form,
        "form_submit_text": button,
    }
    names = options.get("permissions", [])

    def decorate(view: Callable[..., HttpResponse]) -> Any:
        shown = action(dialog=asked, **options)(view)

        @wraps(shown)
        def answer(page: Any, request: HttpRequest, object_id: str) -> HttpResponse:
            try:
                return shown(page, request, object_id=object_id)
            except PermissionDenied:
                if not all(page.may_if_offered(request, name) for name in names):
                    raise
            page.message_user(request, NOT_OFFERED, messages.ERROR)
            return redirect_back(request, page.get_row(request, object_id))

        return answer

    return decorate


def dialog_verb(
    *asked: Any,
    audited: str = "",
    change: str = "",
    refusals: Any = None,
    **options: Any,
) -> Any:
    """Decorate the verb of a dialog, which is declared as by `dialog_action`.

    The method takes the request, the form and the row, and returns the text that the
    page shows. It runs in a transaction, and `refusals` (by default those of the page)
    are exceptions whose text the page shows. `audited` is the act in the audit trail,
    with the form's reason; `change` is the same in the page's history. A verb that
    writes the trail itself leaves out both.
    """

    def decorate(verb: Callable[..., str]) -> Any:
        @dialog_action(*asked, **options)
        @wraps(verb)
        def answer(page: Any, request: HttpRequest, form: Any, object_id: str) -> Any:
            row = page.get_row(request, object_id)

            def run() -> str:
                done = verb(page, request, form, row)
                if audited:
                    act = change or audited.replace("-", " ")
                    reason = form.cleaned_data.get("reason", "")
                    page.log_change(request, row, act, verb=audited, reason=reason)
                return done

            return page.run_dialog(request, row, run, refusals or page.refusals)

        return answer

    return decorate


def redirect_back(request: HttpRequest, obj: Model, url: str = "") -> HttpResponse:
    """Redirect to `url`, to the page that opened the dialog, or to the row's page."""
    meta = obj._meta
    name = f"admin:{meta.app_label}_{meta.model_name}_change"
    url = url or _dialog_page(request) or reverse(name, args=[quote(obj.pk)])
    if "HX-Request" in request.headers:
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def _dialog_page(request: HttpRequest) -> str:
    """Return the path of the admin page that htmx names; the host could be forged."""
    current = urlsplit(request.headers.get("HX-Current-URL", ""))
    if not current.path.startswith(reverse("admin:index")):
        return ""
    return f"{current.path}?{current.query}" if current.query else current.path


def cached_display(display: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Call a display method once for each row; the admin calls it twice a page."""

    @wraps(display)
    def cached(page: Any, obj: Any) -> Any:
        values = obj.__dict__.setdefault("_displayed", {})
        if display not in values:
            values[display] = display(page, obj)
        return values[display]

    return cached


def link(obj: Any, text: Any = None, reader: Any = None) -> str:
    """Return a link to the row's page in the admin.

    It is the text alone if the reader, a user, may not view that page.
    """
    meta, shown = obj._meta, str(text or obj)
    right = f"{meta.app_label}.{get_permission_codename('view', meta)}"
    if reader and not reader.has_perm(right):
        return shown
    return link_by_id(meta.label_lower, obj.pk, shown)


def link_by_id(label: str, pk: Any, text: str | None = None) -> str:
    """Return a link to a page without reading its row; `label` is "app.model".

    Its text is by default the number that papers have, or else the id.
    """
    url = reverse(f"admin:{label.replace('.', '_')}_change", args=[pk])
    if text is None and label in NUMBERED:
        text = number_of_id(NUMBERED[label], UUID(str(pk)))
    return format_html('<a href="{}">{}</a>', url, text or pk)


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return an HTML table. Cells are text, safe HTML, or times."""
    return format_html(
        '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        format_html_join("", "<th>{}</th>", ((h,) for h in headings)),
        format_html_join("", "<tr>{}</tr>", ((_cells(row),) for row in rows)),
    )


def _cells(row: Iterable[Any]) -> str:
    shown = (
        format_nairobi(cell, settings.DATETIME_FORMAT)
        if isinstance(cell, datetime)
        else cell
        for cell in row
    )
    return format_html_join("", "<td>{}</td>", ((cell,) for cell in shown))


def json_block(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html("<pre>{}</pre>", text)


WIDTH, HEIGHT = 480, 120


def bar_chart(label: str, values: Sequence[float], bad: Sequence[float] = ()) -> str:
    """Draw a bar for each value, with its `bad` part in another colour."""
    top = max([*values, 1])
    step = WIDTH / max(len(values), 1)
    marks = [_bar("good", i, value, top, step) for i, value in enumerate(values)]
    marks += [_bar("bad", i, value, top, step) for i, value in enumerate(bad) if value]
    return _draw_chart(label, format_html_join("", "{}", ((mark,) for mark in marks)))


def line_chart(label: str, *series: Sequence[float | None]) -> str:
    """Draw a line for each series, with gaps where a value is None."""
    top = max([v for values in series for v in values if v is not None], default=1) or 1
    drawn = [
        ("line-" + str(number), _path(values, top))
        for number, values in enumerate(series)
    ]
    path = '<path class="{}" d="{}" fill="none"/>'
    return _draw_chart(label, format_html_join("", path, drawn))


def _bar(kind: str, at: int, value: float, top: float, step: float) -> str:
    height = HEIGHT * value / top
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>',
        kind,
        round(at * step + step * 0.12, 1),
        round(HEIGHT - height, 1),
        round(step * 0.76, 1),
        round(height, 1),
    )


def _path(values: Sequence[float | None], top: float) -> str:
    step = WIDTH / max(len(values), 1)
    path, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = HEIGHT - (HEIGHT - 4) * value / top - 2
        # Level for most of its span, so that a single value is visible.
        path.append(f"{pen}{at * step:.1f} {y:.1f}h{step * 0.7:.1f}")
        pen = "L"
    return "".join(path)


def _draw_chart(label: str, marks: str) -> str:
    return format_html(
        '<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}" '
        'preserveAspectRatio="none">{}</svg>',
        label,
        WIDTH,
        HEIGHT,
        marks,
    )
