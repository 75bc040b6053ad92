import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from django.urls import URLResolver, include, path
from rest_framework.routers import SimpleRouter

from verification.api.checks import CheckDefinitionViewSet, PackageViewSet
from verification.api.corrections import CorrectionViewSet
from verification.api.erasures import ErasureViewSet
from verification.api.exports import ExportViewSet
from verification.api.me import BalanceViewSet, MeViewSet
from verification.api.monitoring import AlertViewSet, MonitoringViewSet
from verification.api.policies import PolicyViewSet
from verification.api.provider_callbacks import PaymentEventView
from verification.api.pulled_events import PulledEventViewSet
from verification.api.reports import ReportViewSet
from verification.api.sandbox import SandboxReportViewSet, SandboxSettingViewSet
from verification.api.sandbox_skips import (
    DeliverySkipViewSet,
    ReportSkipViewSet,
    RuleSkipViewSet,
)
from verification.api.webhooks import (
    DeliveryViewSet,
    WebhookConfigurationViewSet,
    WebhookSendingViewSet,
)
from workspaces.models import ApiRequest

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("reports", ReportViewSet, basename="report")
router.register("erasures", ErasureViewSet, basename="erasure")
router.register("checks/definitions", CheckDefinitionViewSet, basename="check")
router.register("packages", PackageViewSet, basename="package")
router.register("sandbox", SandboxSettingViewSet, basename="sandbox-setting")
router.register("sandbox/reports", SandboxReportViewSet, basename="sandbox-report")
router.register("sandbox/reports", ReportSkipViewSet, basename="report-skip")
router.register("sandbox/monitoring", RuleSkipViewSet, basename="rule-skip")
router.register("sandbox/deliveries", DeliverySkipViewSet, basename="delivery-skip")
router.register("corrections", CorrectionViewSet, basename="correction")
router.register("policy/versions", PolicyViewSet, basename="policy-version")
router.register("exports", ExportViewSet, basename="export")
router.register("monitoring/alerts", AlertViewSet, basename="alert")
router.register("monitoring", MonitoringViewSet, basename="rule")
router.register("webhooks/deliveries", DeliveryViewSet, basename="delivery")
router.register("webhooks", WebhookSendingViewSet, basename="webhook")
router.register("events", PulledEventViewSet, basename="event")

configuration = WebhookConfigurationViewSet.as_view(
    {"get": "retrieve", "post": "create", "delete": "destroy"}
)
urlpatterns = [
    path("", include(router.urls)),
    path("webhooks/config", configuration),
    path("me", MeViewSet.as_view({"get": "retrieve"})),
    path("balance", BalanceViewSet.as_view({"get": "retrieve"})),
    path("webhooks/payment-provider", PaymentEventView.as_view()),
]

START = re.compile(r"/?(api/)?(v\d+/)?")
PARAMETER = re.compile("<[^>]+>")
# A step of a path that is a value: an id, or a name with a digit
VALUE = re.compile(r"[0-9a-fA-F-]{32,36}|\w*\d\w*", re.ASCII)
# The longest path for which a nearest address is looked for
MAX_PATH = 200


@cache
def addresses() -> dict[str, str]:
    """Return the addresses as the documentation writes them, by their routes."""
    found = sorted(f"api/v1/{route}" for route in _routes(urlpatterns))
    return {route: ApiRequest(route=route).address for route in found}


def _routes(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            for route in _routes(pattern.url_patterns):
                yield f"{pattern.pattern}{route}"
        else:
            yield str(pattern.pattern)


def nearest_address(path: str) -> str:
    """Return the address that is most like a wrong path, or "".

    It compares addresses, and reads no objects.
    """
    steps = START.sub("", path[:MAX_PATH], count=1).rstrip("/").split("/")
    text = "/".join("{}" if VALUE.fullmatch(step) else step for step in steps)
    known = {
        START.sub("", PARAMETER.sub("{}", route), count=1): address
        for route, address in addresses().items()
    }
    nearest = (
        get_close_matches(text, known, n=1, cutoff=0.85)
        # A value that is no id
        or [route for route in known if _fits(text, route)]
        or get_close_matches(text, known, n=1, cutoff=0.5)
    )
    return known[nearest[0]] if nearest else ""


def _fits(text: str, route: str) -> bool:
    pattern = re.escape(route).replace(r"\{\}", "[^/]+")
    return bool(re.fullmatch(pattern, text))
