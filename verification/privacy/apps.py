from django.apps import AppConfig


class PrivacyConfig(AppConfig):
    name = "verification.privacy"
    label = "privacy"
    verbose_name = "Data subjects"

    def ready(self) -> None:
        from verification.consents.subject_decisions import withdrawal_hooks
        from verification.privacy.corrections import stop_reruns
        from verification.privacy.objections import newest_objections, pause_rules
        from verification.reports.objections import objection_hooks

        withdrawal_hooks += [pause_rules, stop_reruns]
        objection_hooks.append(newest_objections)
