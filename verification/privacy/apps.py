from django.apps import AppConfig


class PrivacyConfig(AppConfig):
    name = "verification.privacy"
    label = "privacy"
    verbose_name = "Data subjects"

    def ready(self) -> None:
        from verification.privacy.objections import newest_objections
        from verification.reports.objections import objection_hooks

        objection_hooks.append(newest_objections)
