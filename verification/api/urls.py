from django.urls import include, path
from rest_framework.routers import SimpleRouter

from verification.api.checks import CheckDefinitionViewSet, SandboxSubjectViewSet
from verification.api.reports import ReportViewSet

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("reports", ReportViewSet, basename="report")
router.register("checks/definitions", CheckDefinitionViewSet, basename="check")
router.register("sandbox/subjects", SandboxSubjectViewSet, basename="sandbox-subject")

urlpatterns = [path("", include(router.urls))]
