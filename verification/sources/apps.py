from django.apps import AppConfig


class SourcesConfig(AppConfig):
    name = "verification.sources"
    label = "sources"
