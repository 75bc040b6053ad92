from django.apps import AppConfig


class PrivacyConfig(AppConfig):
    name = "verification.privacy"
    label = "privacy"
    verbose_name = "Data subjects"

    def ready(self) -> None:
        from verification.consents.decisions import withdrawal_hooks
        from verification.privacy.corrections import stop_reruns

        withdrawal_hooks.append(stop_reruns)
