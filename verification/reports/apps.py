from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "verification.reports"
    label = "reports"
