from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "verification.jobs"
    label = "jobs"
    verbose_name = "Jobs"
