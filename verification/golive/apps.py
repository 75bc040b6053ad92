from django.apps import AppConfig


class GoLiveConfig(AppConfig):
    name = "verification.golive"
    label = "golive"
    verbose_name = "Go-live"
