"""Dialogs of the admin: their forms, texts and the page after them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from verification.backoffice import audit

Facts = list[tuple[str, Any]]


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
        max_length=audit.MAX_REASON_LENGTH, widget=UnfoldAdminTextInputWidget
    )


def dialog(
    title: str,
    description: str,
    button: str,
    form: type[BaseDialogForm] = BaseDialogForm,
) -> Any:
    """Return the `dialog=` of an action, so that opening its URL changes nothing."""
    return {
        "title": title,
        "description": description,
        "form_class": form,
        "form_submit_text": button,
    }


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
