from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "verification.api"
    label = "api"

    def ready(self) -> None:
        from verification.api.refusals import register_refusals

        register_refusals()
