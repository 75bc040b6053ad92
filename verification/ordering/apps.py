from django.apps import AppConfig


class OrderingConfig(AppConfig):
    name = "verification.ordering"
    label = "ordering"
