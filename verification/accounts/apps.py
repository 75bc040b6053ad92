from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "verification.accounts"
    label = "accounts"

    def ready(self) -> None:
        from verification.accounts import signals  # noqa: F401
