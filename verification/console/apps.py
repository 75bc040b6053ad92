from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "verification.console"
    label = "console"
