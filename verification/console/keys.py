"""Keys: made, replaced and ended. A key's text is on one page, once."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _

from verification.console import forms
from verification.console.base import Place, member_required
from workspaces import keys
from workspaces.members import Permission
from workspaces.models import ApiKey

MANAGE = Permission.MANAGE_KEYS


@member_required()
def listing(place: Place) -> HttpResponse:
    found = ApiKey.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    return place.render("keys/list", {"keys": found.order_by("-id")[:200]})


@member_required(MANAGE)
def create(place: Place) -> HttpResponse:
    """In the sandbox alone: a production key comes with the approval."""
    if not place.is_sandbox:
        return place.render("not_allowed", status=403)
    form = forms.KeyForm(place.request.POST or None)
    if not form.is_valid():
        return place.render("keys/create", {"form": form})
    with transaction.atomic():
        key, text = keys.issue(
            place.workspace,
            environment=place.environment,
            name=form.cleaned_data["name"],
            scopes=form.cleaned_data["scopes"],
            expires_at=form.expires_at,
        )
        place.record("api-key.created", key)
    return _show_once(place, key, text)


@member_required(MANAGE)
def rotate(place: Place, key: UUID) -> HttpResponse:
    found = _get_key(place, key)
    form = forms.RotationForm(place.request.POST or None)
    if not form.is_valid():
        return place.render("keys/rotate", {"form": form, "key": found})
    try:
        with transaction.atomic():
            successor, text = keys.rotate(found, old_ends_at=form.old_ends_at)
            place.record("api-key.rotated", found)
            place.record("api-key.created", successor)
    except keys.KeyHasEnded:
        told = _("This key has ended, or was replaced already.")
        messages.error(place.request, told)
        return place.to("keys")
    return _show_once(place, successor, text)


@member_required(MANAGE)
def revoke(place: Place, key: UUID) -> HttpResponse:
    found = _get_key(place, key)
    if place.request.method != "POST":
        return place.render("keys/revoke", {"key": found})
    with transaction.atomic():
        if keys.revoke(found):
            place.record("api-key.revoked", found)
    messages.success(place.request, _("The key is revoked."))
    return place.to("keys")


def _get_key(place: Place, key: UUID) -> ApiKey:
    return ApiKey.objects.get(
        pk=key, workspace=place.workspace, environment=place.environment
    )


def _show_once(place: Place, key: ApiKey, text: str) -> HttpResponse:
    # Not after a redirect: nothing that remembers it is in between.
    shown = {"key": key, "text": text}
    return place.render("keys/shown", shown)
