from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "verification.notifications"
    label = "notifications"
