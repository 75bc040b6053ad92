from django.urls import include, path
from rest_framework.routers import SimpleRouter

from verification.api.checks import (
    CheckDefinitionViewSet,
    PackageViewSet,
    SandboxSubjectViewSet,
)
from verification.api.corrections import CorrectionViewSet
from verification.api.erasures import ErasureViewSet
from verification.api.exports import ExportViewSet
from verification.api.monitoring import AlertViewSet, MonitoringViewSet
from verification.api.policies import PolicyViewSet
from verification.api.provider_callbacks import PaymentEventView
from verification.api.reports import ReportViewSet
from verification.api.webhooks import (
    DeliveryViewSet,
    WebhookConfigurationViewSet,
    WebhookSendingViewSet,
)

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("reports", ReportViewSet, basename="report")
router.register("erasures", ErasureViewSet, basename="erasure")
router.register("checks/definitions", CheckDefinitionViewSet, basename="check")
router.register("packages", PackageViewSet, basename="package")
router.register("sandbox/subjects", SandboxSubjectViewSet, basename="sandbox-subject")
router.register("corrections", CorrectionViewSet, basename="correction")
router.register("policy/versions", PolicyViewSet, basename="policy-version")
router.register("exports", ExportViewSet, basename="export")
router.register("monitoring/alerts", AlertViewSet, basename="alert")
router.register("monitoring", MonitoringViewSet, basename="rule")
router.register("webhooks/deliveries", DeliveryViewSet, basename="delivery")
router.register("webhooks", WebhookSendingViewSet, basename="webhook")

configuration = WebhookConfigurationViewSet.as_view(
    {"get": "retrieve", "post": "create", "delete": "destroy"}
)
urlpatterns = [
    path("", include(router.urls)),
    path("webhooks/config", configuration),
    path("webhooks/payment-provider", PaymentEventView.as_view()),
]
