from django.apps import AppConfig


class TestJobsConfig(AppConfig):
    name = "tests.jobs"
    label = "test_jobs"
