from django.apps import AppConfig
from django.core.checks import Tags, register


class BackupsConfig(AppConfig):
    name = "verification.backups"
    label = "backups"

    def ready(self) -> None:
        from verification.backups import checks

        register(checks.check_deployment, deploy=True)
        register(checks.check_databases, Tags.database, deploy=True)
        register(checks.check_keys, Tags.database, deploy=True)
        register(checks.check_role, Tags.database, deploy=True)
        register(checks.check_backups, Tags.database, deploy=True)
        register(checks.check_redundancy, Tags.database, deploy=True)
