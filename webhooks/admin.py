import json

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Q

from verification.backoffice.model_admin import ReadOnlyAdmin, choice_filter
from verification.backoffice.widgets import (
    cached_display,
    dialog_action,
    link,
    redirect_back,
    table,
)
from verification.values.clock import now
from verification.values.masking import DOTS
from webhooks.configuration import NotConfigured
from webhooks.events import envelope
from webhooks.models import Configuration, Delivery, Event
from webhooks.redelivery import (
    ConfigurationDisabled,
    EventPurged,
    EventRestricted,
    check_redeliverable,
    redeliver,
)

REFUSALS = {
    NotConfigured: "its workspace has no configuration.",
    ConfigurationDisabled: "its configuration is disabled.",
    EventPurged: "its payload is purged.",
    EventRestricted: "the subject objected.",
}


def _refusal(delivery):
    """Return why the delivery cannot be sent again, or ""."""
    where = delivery.workspace_id, delivery.environment
    try:
        check_redeliverable(*where, delivery.pk)
    except tuple(REFUSALS) as e:
        return REFUSALS[type(e)]
    return ""


@admin.display(description="name")
def event_name(row):
    """Return the name that clients know, in place of its meaning."""
    return row.name


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = [
        event_name,
        "workspace",
        "environment",
        "report_page",
        "created_at",
    ]
    list_filter = ["environment", "name"]
    list_select_related = ["workspace"]
    search_ids = ("id", "report_id")
    # The payload holds personal data and is shown to nobody.
    fields = [
        "id",
        "name",
        "workspace",
        "environment",
        "report_page",
        "cause",
        "created_at",
        "delivered",
    ]

    @admin.display(description="Delivery")
    def delivered(self, event):
        delivery = Delivery.objects.filter(pk=event.pk).first()
        return link(delivery, delivery.status) if delivery else "-"


def failing(configurations):
    """Return configurations with failures and disabled ones."""
    return configurations.filter(
        Q(failures_in_row__gt=0) | Q(disabled_at__isnull=False)
    )


HealthFilter = choice_filter(
    "trouble",
    "trouble",
    {
        "any": ("failing or disabled", failing),
        "failing": ("failing", lambda rows: rows.filter(failures_in_row__gt=0)),
        "resting": ("resting", lambda rows: rows.filter(resting_until__gt=now())),
        "disabled": (
            "disabled by the service",
            lambda rows: rows.filter(disabled_at__isnull=False),
        ),
    },
)


@admin.register(Configuration)
class ConfigurationAdmin(ReadOnlyAdmin):
    list_display = [
        "url",
        "workspace",
        "environment",
        "enabled",
        "health",
        "updated_at",
    ]
    list_filter = ["environment", "enabled", HealthFilter]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    search_exact = ("url",)
    # The secrets are shown to nobody.
    fields = [
        "id",
        "workspace",
        "environment",
        "url",
        "enabled",
        "enabled_events",
        "health",
        "failures_in_row",
        "failing_since",
        "resting_until",
        "disabled_at",
        "disabled_reason",
        "previous_secret_ends_at",
        "created_at",
        "updated_at",
    ]

    @admin.display
    def health(self, configuration):
        if configuration.disabled_reason:
            return f"disabled: {configuration.get_disabled_reason_display()}"
        if configuration.resting_until and configuration.resting_until > now():
            return f"resting after {configuration.failures_in_row} failures in a row"
        if configuration.failures_in_row:
            return f"{configuration.failures_in_row} failures in a row"
        return "well"


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = [
        "event_id",
        event_name,
        "workspace",
        "status",
        "attempts",
        "created_at",
    ]
    list_filter = ["status", "environment", "name"]
    list_select_related = ["workspace"]
    search_ids = ("event_id", "event__report_id")
    ordering = ["-event"]
    actions = ["redeliver"]
    actions_detail = ["redeliver_this", "reveal"]
    confirm = {"redeliver": "The receiver gets it again, on a new schedule."}
    fields = [
        "event_link",
        "configuration_link",
        "workspace",
        "environment",
        "name",
        "status",
        "failures",
        "attempts",
        "status_code",
        "next_attempt_at",
        "leased_until",
        "delivered_at",
        "created_at",
        "redelivery",
        "attempts_made",
    ]
    personal_fields = ("decrypted_payload",)
    # Answers may repeat personal data of the payload.
    also_revealed = ("answers",)

    @admin.display(description="Redelivery")
    def redelivery(self, delivery):
        refusal = _refusal(delivery)
        return f"Not possible: {refusal}" if refusal else "Possible"

    @admin.display(description="Attempts, oldest first")
    @cached_display
    def attempts_made(self, delivery):
        attempts = delivery.attempt_set.all()
        if not delivery.is_revealed:
            attempts = attempts.defer("answer")
        headings = ["no.", "started", "to", "answer", "took", "error", "said"]
        rows = [
            (
                attempt.number,
                attempt.started_at,
                attempt.url,
                attempt.status_code or "-",
                f"{attempt.duration_ms:,} ms",
                attempt.get_error_display() or "-",
                (attempt.answer or "-") if delivery.is_revealed else DOTS,
            )
            for attempt in attempts
        ]
        return table(headings, rows) if rows else "None yet"

    @admin.display(description="Payload, as the receiver gets it")
    @cached_display
    def decrypted_payload(self, delivery):
        event = Event.objects.get(pk=delivery.pk)
        return None if event.payload is None else json.loads(envelope(event))

    @admin.display(description="Event")
    def event_link(self, delivery):
        event = Event.objects.defer("payload").get(pk=delivery.pk)
        return link(event, str(delivery.pk))

    @admin.display(description="Configuration")
    def configuration_link(self, delivery):
        return link(delivery.configuration) if delivery.configuration else "-"

    def has_redeliver_permission(self, request, object_id=None):
        """Hide the button of a delivery's page if the delivery cannot be sent again."""
        if not self.has_act_permission(request):
            return False
        delivery = self.get_object(request, object_id) if object_id else None
        return delivery is None or not _refusal(delivery)

    @dialog_action(
        "Send it again",
        confirm["redeliver"],
        "Redeliver",
        description="Redeliver",
        icon="replay",
        permissions=["redeliver"],
    )
    def redeliver_this(self, request, form, object_id):
        delivery = self.get_row(request, object_id)
        self._redeliver(request, delivery)
        return redirect_back(request, delivery)

    @admin.action(description="Redeliver", permissions=["redeliver"])
    def redeliver(self, request, deliveries):
        for delivery in deliveries:
            self._redeliver(request, delivery)

    def _redeliver(self, request, delivery):
        where = delivery.workspace_id, delivery.environment
        try:
            with transaction.atomic():
                sent = redeliver(*where, delivery.pk)
                if not sent.leased_until:
                    change = "redelivered"
                    self.log_change(request, delivery, change, verb=change)
        except tuple(REFUSALS) as e:
            text = f"{delivery} was not sent again: {REFUSALS[type(e)]}"
            self.message_user(request, text, messages.ERROR)
            return
        if sent.leased_until:
            text = f"{delivery} is being sent at this moment."
            self.message_user(request, text, messages.INFO)
            return
        self.message_user(request, f"{delivery} is sent again.", messages.SUCCESS)
