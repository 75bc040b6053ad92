from django.apps import AppConfig


class DevelopmentConfig(AppConfig):
    name = "verification.development"
    label = "development"
