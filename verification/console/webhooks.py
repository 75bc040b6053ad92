"""Webhooks: the configuration, the deliveries, and sending one again."""

import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from verification.api.webhooks import (
    SELECTABLE_EVENTS,
    validate_secret,
    validate_url,
)
from verification.console.base import (
    Place,
    Refusals,
    Text,
    member_required,
    post_required,
    refusal_text,
)
from verification.console.charts import duration_text
from verification.console.fields import FilterForm, filter_field, text_field
from verification.console.words import choices_of
from verification.reports.models import Report
from verification.reports.numbers import find_reports_by_number
from verification.values.clock import now
from webhooks import configuration, redelivery
from webhooks.attempts import RETRY_DELAYS
from webhooks.events import RETENTION, envelope_members, masked_members
from webhooks.models import (
    Attempt,
    Configuration,
    Event,
    deliveries_of,
    list_deliveries,
)
from workspaces.members import Permission

INVALID_SECRET = _("Enter a secret of 16 to 128 letters, digits and signs")
STATUS_CODES = {status.value for status in HTTPStatus}


class DeliveryFilters(FilterForm):
    event = filter_field(_("Event"), ((n, n) for n in Event.Name.values))
    status = filter_field(_("Status"), choices_of("delivery"))
    report_id = text_field(_("Report number or ID"), 40, required=False)


class ReasonForm(forms.Form):
    reason = text_field(_("Why you need to see it"), 500)


class WebhookForm(forms.Form):
    url = text_field(
        _("Address"),
        2048,
        widget=forms.URLInput,
        help_text=_("https, port 443 or 8443, and a public host name"),
    )
    enabled_events = forms.MultipleChoiceField(
        label=_("Events"),
        choices=[(name, name) for name in SELECTABLE_EVENTS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        strip=False,
    )
    enabled = forms.BooleanField(label=_("Send events"), required=False, initial=True)

    def __init__(self, *args: Any, has_secret: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.has_secret = has_secret
        self.fields["secret"].help_text = (
            _("Leave it empty to keep the present one. It is never shown.")
            if has_secret
            else _("16 to 128 characters, by which your receiver knows us")
        )

    def clean_url(self) -> str:
        try:
            return validate_url(self.cleaned_data["url"])
        except ValueError:
            raise forms.ValidationError(
                _("Enter a public https address, such as https://hooks.example.com/")
            ) from None

    def clean_secret(self) -> str | None:
        secret: str = self.cleaned_data["secret"]
        if not secret and self.has_secret:
            return None
        try:
            return validate_secret(secret)
        except ValueError:
            raise forms.ValidationError(INVALID_SECRET) from None


# The page says "more than" beyond it.
COUNTED_DELIVERIES = 10_000
REFUSALS: Refusals = {
    configuration.NotConfigured: _("There is no address that events are sent to."),
    redelivery.ConfigurationDisabled: _("Sending events is switched off."),
    redelivery.EventPurged: _(
        "Its content is no longer kept, so it cannot be sent again."
    ),
    redelivery.EventRestricted: _(
        "The person objected to further use, so it cannot be sent again."
    ),
    redelivery.TooManyTests: _("Wait a minute before the next test."),
}


@member_required(Permission.SEE_ADMINISTRATION)
def overview(place: Place) -> HttpResponse:
    """The configuration, and the deliveries below it."""
    form = DeliveryFilters(place.request.GET)
    found = _find_configuration(place)
    may_manage = Permission.MANAGE_WEBHOOKS in place.offered
    asked = form.chosen | place.paging
    number = asked.pop("report_id")
    page = list_deliveries(
        *place.where,
        **asked,
        report_ids=find_reports_by_number(number) if number else None,
        count_up_to=COUNTED_DELIVERIES,
    )
    ids = [delivery.pk for delivery in page.rows]
    newest = Attempt.objects.filter(delivery__in=ids).order_by("delivery", "-number")
    shown = {
        "configuration": found,
        "may_recover": bool(
            found and found.enabled and may_manage and place.waiting.get("webhooks")
        ),
        "form": form,
        "page": page,
        "errors": dict(newest.distinct("delivery").values_list("delivery", "error")),
    }
    return place.render("webhooks/overview", shown)


@member_required(Permission.MANAGE_WEBHOOKS)
def configure(place: Place) -> HttpResponse:
    found = _find_configuration(place)
    initial = {"enabled_events": SELECTABLE_EVENTS}
    if found:
        # Without the secret, which no page shows.
        initial = model_to_dict(found, ["url", "enabled", "enabled_events"])
    form = WebhookForm(place.posted, initial=initial, has_secret=found is not None)
    if not form.is_valid():
        return place.render("webhooks/configure", {"form": form, "is_new": not found})
    typed = form.cleaned_data
    try:
        changed = configuration.configure(
            *place.where,
            url=typed["url"],
            enabled=typed["enabled"],
            events=typed["enabled_events"],
            secret=typed["secret"],
            actor=place.by.actor,
        )
    except configuration.SecretRequired:
        form.add_error("secret", INVALID_SECRET)
        return place.render("webhooks/configure", {"form": form, "is_new": True})
    is_on = changed.enabled and changed.enabled_events
    done = _("Events go to this address from now on.") if is_on else _("Saved.")
    return place.to("webhooks", success=done)


@member_required(Permission.MANAGE_WEBHOOKS)
def remove(place: Place) -> HttpResponse:
    if place.request.method != "POST":
        shown = {"configuration": _find_configuration(place)}
        return place.render("webhooks/remove", shown)
    with place.refusing(REFUSALS, "webhooks"):
        configuration.remove(*place.where, place.by.actor)
    return place.to("webhooks", success=_("No events are sent any more."))


@post_required(Permission.MANAGE_WEBHOOKS)
def test(place: Place) -> HttpResponse:
    with place.refusing(REFUSALS, "webhooks"):
        redelivery.send_test(*place.where)
    return place.to("webhooks", success=_("A test event is on its way."))


@member_required(Permission.SEE_ADMINISTRATION, while_suspended=True)
def delivery(place: Place, delivery: UUID) -> HttpResponse:
    """Show a delivery with a masked payload; a POST with a reason shows all of it."""
    found = deliveries_of(*place.where).get(pk=delivery)
    event = Event.objects.get(pk=found.pk)
    about = Report.objects.filter(pk__in=filter(None, [event.report_id]))
    form = ReasonForm(place.posted)
    is_shown = event.payload is not None and form.is_valid()
    if is_shown:
        reason = form.cleaned_data["reason"]
        place.record("delivery.revealed", found, "payload", reason=reason)
    payload, next_at = None, found.next_attempt_at
    if event.payload is not None:
        read = envelope_members(event) if is_shown else masked_members(event)
        payload = json.dumps(read, indent=2, ensure_ascii=False)
    shown = {
        "delivery": found,
        "report": about.filter(**place.lookups).first(),
        "configuration": found.configuration,
        "attempts": [
            describe_attempt(one) for one in reversed(found.attempt_set.all())
        ],
        "most": len(RETRY_DELAYS) + 1,
        # One that is due waits for its turn: the receiver rests, or others are first.
        "next_at": next_at if next_at and next_at > now() else None,
        "payload": payload,
        "is_shown": is_shown,
        "form": form,
        "refusal": _redelivery_refusal(place, delivery),
    }
    return place.render("webhooks/delivery", shown)


def describe_attempt(attempt: Attempt) -> dict[str, Any]:
    """Return what the page of a delivery shows of an attempt."""
    status = attempt.status_code
    phrase = HTTPStatus(status).phrase if status in STATUS_CODES else ""
    return {
        "row": attempt,
        "is_taken": not attempt.error and status is not None and status < 300,
        "phrase": phrase,
        "took": duration_text(timedelta(milliseconds=attempt.duration_ms)),
    }


@member_required(Permission.MANAGE_WEBHOOKS)
def recover(place: Place) -> HttpResponse:
    """Ask first, and then send all failed deliveries again."""
    if place.request.method != "POST":
        return place.render("webhooks/recover", {"days": RETENTION.days})
    with place.refusing(REFUSALS, "webhooks"), transaction.atomic():
        count = redelivery.recover(*place.where, now() - RETENTION)
        if found := _find_configuration(place):
            place.record("deliveries.recovered", found)
    sent = ngettext(
        "%(count)s event is sent again.", "%(count)s events are sent again.", count
    )
    return place.to("webhooks", success=sent % {"count": f"{count:,}"})


@post_required(Permission.MANAGE_WEBHOOKS)
def redeliver(place: Place, delivery: UUID) -> HttpResponse:
    page = place.refusing(REFUSALS, "webhooks-delivery", delivery=delivery)
    with page, transaction.atomic():
        sent = redelivery.redeliver(*place.where, delivery)
        if not sent.leased_until:
            place.record("delivery.redelivered", sent)
    if sent.leased_until:
        error = _("Nothing was done: the event is being sent at this moment.")
        return place.to("webhooks-delivery", error=error, delivery=delivery)
    success = _("The event is sent again.")
    return place.to("webhooks-delivery", success=success, delivery=delivery)


def _redelivery_refusal(place: Place, delivery: UUID) -> Text:
    """Return why a delivery cannot be sent again, or an empty text."""
    try:
        redelivery.check_redeliverable(*place.where, delivery)
    except tuple(REFUSALS) as e:
        return refusal_text(REFUSALS, e)
    return ""


def _find_configuration(place: Place) -> Configuration | None:
    return Configuration.objects.filter(**place.lookups).first()
