"""E-mails to the owners of a workspace whose receiver fails."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string

from webhooks.models import Configuration


def tell_failing(configuration_id: str) -> None:
    """Unless it has recovered, was replaced or was removed since."""
    configuration = _found(configuration_id)
    if configuration and configuration.failures_in_row:
        _tell(configuration, "Your webhook receiver fails", "email/webhook_failing.txt")


def tell_disabled(configuration_id: str) -> None:
    """Unless it was enabled again or removed since."""
    configuration = _found(configuration_id)
    if configuration and configuration.disabled_at:
        _tell(configuration, "Your webhooks are disabled", "email/webhook_disabled.txt")


def _found(configuration_id: str) -> Configuration | None:
    found = Configuration.objects.select_related("workspace")
    return found.filter(pk=configuration_id).first()


def _tell(configuration: Configuration, subject: str, template: str) -> None:
    context: dict[str, Any] = {
        "configuration": configuration,
        "workspace": configuration.workspace,
        "docs_url": f"{settings.BASE_URL}/api/v1/docs",
    }
    text = render_to_string(template, context)
    send_mail(subject, text, None, [configuration.workspace.owner_email])
