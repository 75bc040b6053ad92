from django.apps import AppConfig


class ConsentsConfig(AppConfig):
    name = "verification.consents"
    label = "consents"
