from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "monitoring"

    def ready(self) -> None:
        from monitoring.pauses import pause_for_withdrawal
        from verification.consents.decisions import withdrawal_hooks

        withdrawal_hooks.append(pause_for_withdrawal)
