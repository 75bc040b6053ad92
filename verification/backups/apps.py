from django.apps import AppConfig


class BackupsConfig(AppConfig):
    name = "verification.backups"
    label = "backups"
