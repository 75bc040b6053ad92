from django.apps import AppConfig
from django.db.models.signals import post_migrate


class BackofficeConfig(AppConfig):
    name = "verification.backoffice"
    label = "backoffice"

    def ready(self) -> None:
        # Imported here: these need the models of users.
        from verification.backoffice.models import ensure_probe, refuse_wrong_keys
        from verification.backoffice.roles import after_migrate

        post_migrate.connect(after_migrate, dispatch_uid="roles")
        post_migrate.connect(ensure_probe, sender=self, dispatch_uid="probe")
        refuse_wrong_keys()
