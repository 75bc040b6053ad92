"""Masking of personal data in the admin, until staff give a reason to see it.

A reveal shows the values of one page for ten minutes in one session. The audit trail
records the actor, the fields and the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action

from verification.backoffice import audit
from verification.backoffice.dialogs import ReasonForm, dialog, redirect_back
from verification.backoffice.widgets import json_block
from verification.values.masking import DOTS, mask

REVEAL_SECONDS = 600
SESSION_KEY = "revealed"
REVEAL = "backoffice.reveal_personal"
REVEAL_NOTICE = "Who you are, what you open and the reason are recorded for good."


class RevealingAdmin(ModelAdmin):
    """An admin page with masked values.

    `personal_fields` names encrypted fields, and methods that return data, not HTML.
    """

    personal_fields: tuple[str, ...] = ()
    # Names for the audit trail of other values that a reveal shows.
    also_revealed: tuple[str, ...] = ()
    actions_detail: Any = ["reveal"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for name in self.personal_fields:
            setattr(
                self,
                name,
                _mask_until_revealed(getattr(self, name, None), self.model, name),
            )

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Model | None:
        obj = super().get_object(request, object_id, from_field)
        if obj is not None:
            may = request.user.has_perm(REVEAL)
            obj.is_revealed = may and is_revealed(request, obj)
        return obj

    def has_reveal_permission(
        self, request: HttpRequest, object_id: str | None = None
    ) -> bool:
        return (
            bool(self.personal_fields)
            and self.has_view_permission(request)
            and request.user.has_perm(REVEAL)
        )

    @action(
        description="Reveal personal data",
        icon="visibility",
        permissions=["reveal"],
        dialog=dialog(
            "Reveal personal data",
            f"{REVEAL_NOTICE} It is shown for ten minutes.",
            "Reveal",
            ReasonForm,
        ),
    )
    def reveal(
        self, request: HttpRequest, form: ReasonForm, object_id: str
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is None:
            raise Http404
        reason = form.cleaned_data["reason"]
        names = [name.removesuffix("_opened") for name in self.personal_fields]
        names += self.also_revealed
        act = f"{audit.noun(obj)}.revealed"
        audit.record(act, audit.actor_of(request), obj, fields=names, reason=reason)
        remember_reveal(request, obj)
        return redirect_back(request, obj)


def is_revealed(request: HttpRequest, obj: Model) -> bool:
    return request.session.get(SESSION_KEY, {}).get(_name(obj), 0) > time.time()


def remember_reveal(request: HttpRequest, obj: Model) -> None:
    now = time.time()
    open_pages = {
        k: end for k, end in request.session.get(SESSION_KEY, {}).items() if end > now
    }
    request.session[SESSION_KEY] = {**open_pages, _name(obj): now + REVEAL_SECONDS}


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
