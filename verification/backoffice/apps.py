from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "verification.backoffice"
    label = "backoffice"
