from django.apps import AppConfig
from django.conf import settings

from verification.providers import registry


class ChecksConfig(AppConfig):
    name = "verification.checks"
    label = "checks"

    def ready(self) -> None:
        registry.configure(settings.PROVIDERS)
