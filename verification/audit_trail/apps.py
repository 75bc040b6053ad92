from django.apps import AppConfig


class AuditTrailConfig(AppConfig):
    name = "verification.audit_trail"
    label = "audit_trail"
