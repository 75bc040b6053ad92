from django.apps import AppConfig


class ReferencesConfig(AppConfig):
    name = "verification.references"
    label = "references"
