from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "verification.payments"
    label = "payments"
