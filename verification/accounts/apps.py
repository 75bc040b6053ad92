from django.apps import AppConfig
from django.core.checks import Tags, register


class AccountsConfig(AppConfig):
    name = "verification.accounts"
    label = "accounts"

    def ready(self) -> None:
        from verification.accounts import provider_grants, signals  # noqa: F401

        register(provider_grants.check_workspaces, Tags.database, deploy=True)
