from django.apps import AppConfig


class PrivacyConfig(AppConfig):
    name = "verification.privacy"
    label = "privacy"
    verbose_name = "Data subjects"
