from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register


class WorkspacesConfig(AppConfig):
    name = "workspaces"

    def ready(self) -> None:
        register(check_operator)


def check_operator(**options: Any) -> list[CheckMessage]:
    """Refuse to start without OPERATOR_CONTACT; a check of `manage.py check`."""
    if settings.OPERATOR_CONTACT.strip():
        return []
    text = "OPERATOR_CONTACT is not set; people would not know whom to ask."
    hint = (
        "Set OPERATOR_CONTACT to the e-mail address or phone number at which people "
        "ask about their details; every page, mail and receipt shows it."
    )
    return [Error(text, hint=hint, id="workspaces.E001")]
