"""Where events go, how that went, and sending them again."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from verification.console import forms
from verification.console.base import (
    PAGE_SIZE,
    Page,
    Place,
    member_required,
    page_number,
)
from verification.values.personal import mask
from webhooks import configuration, redelivery
from webhooks.events import envelope
from webhooks.models import Configuration, Event, deliveries_of, list_deliveries
from workspaces.members import Permission

MANAGE = Permission.MANAGE_WEBHOOKS
NOT_CONFIGURED = gettext_lazy("There is no address that events are sent to.")
# Of sending again.
REFUSALS = (
    configuration.NotConfigured,
    redelivery.ConfigurationDisabled,
    redelivery.EventPurged,
)


@member_required()
def overview(place: Place) -> HttpResponse:
    """The configuration, and the deliveries below it."""
    form = forms.DeliveryFilters(place.request.GET)
    chosen = form.cleaned_data if form.is_valid() else {}
    number = page_number(place.request)
    found = list_deliveries(
        *place.where,
        event=chosen.get("event") or None,
        status=chosen.get("status") or None,
        page=number,
        size=PAGE_SIZE,
    )
    shown = {
        "configuration": _find_configuration(place),
        "form": form,
        "page": Page(found.deliveries, found.total, number),
    }
    return place.render("webhooks/overview", shown)


@member_required(MANAGE)
def configure(place: Place) -> HttpResponse:
    found = _find_configuration(place)
    # Never the secret: it is written and not read.
    present = (
        {
            "url": found.url,
            "enabled": found.enabled,
            "enabled_events": found.enabled_events,
        }
        if found
        else {"enabled_events": [name for name, _label in forms.EVENT_CHOICES]}
    )
    form = forms.WebhookForm(
        place.request.POST or None, initial=present, has_secret=found is not None
    )
    if not form.is_valid():
        return place.render("webhooks/configure", {"form": form, "is_new": not found})
    typed = form.cleaned_data
    try:
        with transaction.atomic():
            made, _new = configuration.configure(
                *place.where,
                url=typed["url"],
                enabled=typed["enabled"],
                events=typed["enabled_events"],
                secret=typed["secret"],
            )
            place.record("configuration.changed", made, *form.changed_data)
    except configuration.SecretRequired:
        form.add_error(
            "secret", _("Enter a secret of 16 to 128 letters, digits and signs")
        )
        return place.render("webhooks/configure", {"form": form, "is_new": True})
    messages.success(place.request, _("Events go to this address from now on."))
    return place.to("webhooks")


@member_required(MANAGE)
def remove(place: Place) -> HttpResponse:
    if place.request.method != "POST":
        shown = {"configuration": _find_configuration(place)}
        return place.render("webhooks/remove", shown)
    try:
        with transaction.atomic():
            if found := _find_configuration(place):
                place.record("configuration.removed", found)
            configuration.remove(*place.where)
        messages.success(place.request, _("No events are sent any more."))
    except configuration.NotConfigured:
        _show_not_configured(place)
    return place.to("webhooks")


@require_POST
@member_required(MANAGE)
def test(place: Place) -> HttpResponse:
    try:
        redelivery.send_test(*place.where)
        messages.success(place.request, _("A test event is on its way."))
    except (configuration.NotConfigured, redelivery.ConfigurationDisabled):
        _show_not_configured(place)
    except redelivery.TooManyTests:
        messages.error(place.request, _("Wait a minute before the next test."))
    return place.to("webhooks")


@member_required(while_suspended=True)
def delivery(place: Place, delivery: UUID) -> HttpResponse:
    """The payload is masked; the form's reason shows it, in its answer alone."""
    found = deliveries_of(*place.where).get(pk=delivery)
    event = Event.objects.get(pk=found.pk)
    payload = None if event.payload is None else json.loads(envelope(event))
    form = forms.ReasonForm(place.request.POST or None)
    is_shown = payload is not None and form.is_valid()
    if is_shown:
        reason = form.cleaned_data["reason"]
        place.record("delivery.revealed", found, "payload", reason=reason)
    shown = {
        "delivery": found,
        "attempts": found.attempt_set.all(),
        "payload": payload and _format_json(payload if is_shown else mask(payload)),
        "is_shown": is_shown,
        "form": form,
        "refusal": _redelivery_refusal(place, delivery),
    }
    return place.render("webhooks/delivery", shown)


@member_required(MANAGE)
def redeliver(place: Place, delivery: UUID) -> HttpResponse:
    if place.request.method != "POST":
        found = deliveries_of(*place.where).get(pk=delivery)
        return place.render("webhooks/redeliver", {"delivery": found})
    try:
        with transaction.atomic():
            sent = redelivery.redeliver(*place.where, delivery)
            place.record("delivery.redelivered", sent)
        messages.success(place.request, _("It is sent again."))
    except REFUSALS:
        messages.error(place.request, _redelivery_refusal(place, delivery))
    return place.to("webhooks-delivery", delivery=delivery)


def _redelivery_refusal(place: Place, delivery: UUID) -> str:
    try:
        redelivery.check_redeliverable(*place.where, delivery)
    except redelivery.EventPurged:
        return _("What it said is kept no longer, so it cannot be sent again.")
    except REFUSALS:
        return str(NOT_CONFIGURED)
    return ""


def _format_json(payload: Any) -> str:
    return json.dumps(payload, indent=2, ensure_ascii=False)


def _find_configuration(place: Place) -> Configuration | None:
    return Configuration.objects.filter(
        workspace=place.workspace, environment=place.environment
    ).first()


def _show_not_configured(place: Place) -> None:
    messages.error(place.request, NOT_CONFIGURED)
