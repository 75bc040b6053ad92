from django.apps import AppConfig
from django.core.checks import Tags, register


class BackupsConfig(AppConfig):
    name = "verification.backups"
    label = "backups"

    def ready(self) -> None:
        from verification.backups import checks

        register(checks.check_deployment, deploy=True)
        register(checks.check_database, Tags.database, deploy=True)
