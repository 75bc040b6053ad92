from django.apps import AppConfig
from django.core.checks import Tags, register


class WatchlistsConfig(AppConfig):
    name = "verification.watchlists"
    label = "watchlists"

    def ready(self) -> None:
        from verification.watchlists.system_checks import check_lists, check_settings

        register(check_settings)
        register(check_lists, Tags.database)
