from django.apps import AppConfig
from django.core.checks import register


class PaymentsConfig(AppConfig):
    name = "verification.payments"
    label = "payments"

    def ready(self) -> None:
        from verification.payments.registry import check_configuration

        register(check_configuration)
