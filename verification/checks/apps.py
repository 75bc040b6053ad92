from django.apps import AppConfig
from django.conf import settings
from django.core.checks import register

from verification.providers import registry


class ChecksConfig(AppConfig):
    name = "verification.checks"
    label = "checks"

    def ready(self) -> None:
        from verification.checks.system_checks import check_sources

        register(check_sources)
        registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)
