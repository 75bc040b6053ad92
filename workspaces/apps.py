from django.apps import AppConfig
from django.core.checks import register


class WorkspacesConfig(AppConfig):
    name = "workspaces"

    def ready(self) -> None:
        from workspaces.operator import check_operator

        register(check_operator)
