"""Keys: made, replaced and ended. A key's text is on one page, once."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _

from verification.console import forms
from verification.console.base import Place, opened
from workspaces import keys
from workspaces.members import Permission
from workspaces.models import ApiKey

MANAGE = Permission.MANAGE_KEYS


@opened()
def listing(place: Place) -> HttpResponse:
    found = ApiKey.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    return place.show("keys/list", {"keys": found.order_by("-id")[:200]})


@opened(MANAGE)
def create(place: Place) -> HttpResponse:
    """In the sandbox alone: a production key comes with the approval."""
    if not place.is_sandbox:
        return place.show("not_allowed", status=403)
    form = forms.NewKey(place.request.POST or None)
    if not form.is_valid():
        return place.show("keys/create", {"form": form})
    with transaction.atomic():
        key, text = keys.issue(
            place.workspace,
            environment=place.environment,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.expires_at,
        )
        place.record("api-key.created", key)
    return _shown_once(place, key, text)


@opened(MANAGE)
def rotate(place: Place, key: UUID) -> HttpResponse:
    found = _theirs(place, key)
    form = forms.Rotation(place.request.POST or None)
    if not form.is_valid():
        return place.show("keys/rotate", {"form": form, "key": found})
    try:
        with transaction.atomic():
            successor, text = keys.rotate(found, old_ends_at=form.old_ends_at)
            place.record("api-key.rotated", found)
            place.record("api-key.created", successor)
    except keys.KeyHasEnded:
        told = _("This key has ended, or was replaced already.")
        messages.error(place.request, told)
        return place.to("keys")
    return _shown_once(place, successor, text)


@opened(MANAGE)
def revoke(place: Place, key: UUID) -> HttpResponse:
    found = _theirs(place, key)
    if place.request.method != "POST":
        return place.show("keys/revoke", {"key": found})
    with transaction.atomic():
        if keys.revoke(found):
            place.record("api-key.revoked", found)
    messages.success(place.request, _("The key is revoked."))
    return place.to("keys")


def _theirs(place: Place, key: UUID) -> ApiKey:
    return ApiKey.objects.get(
        pk=key, workspace=place.workspace, environment=place.environment
    )


def _shown_once(place: Place, key: ApiKey, text: str) -> HttpResponse:
    # Not after a redirect: nothing that remembers it is in between.
    shown = {"key": key, "text": text}
    return place.show("keys/shown", shown)
