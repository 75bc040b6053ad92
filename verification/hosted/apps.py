from django.apps import AppConfig


class HostedConfig(AppConfig):
    name = "verification.hosted"
    label = "hosted"
