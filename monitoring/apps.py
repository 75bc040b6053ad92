from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "monitoring"

    def ready(self) -> None:
        from monitoring.pausing import pause_for_withdrawal
        from verification.ordering.consenting import on_withdrawal

        on_withdrawal.append(pause_for_withdrawal)
