"""What a member sees first: where to begin, and how it goes."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse

from monitoring.listing import alerts_of
from verification.console.places import Place, opened
from verification.reports.listing import Filters, list_reports
from webhooks.listing import list_deliveries
from webhooks.models import Configuration, DeliveryStatus
from workspaces.models import ApiKey, Workspace


@opened()
def dashboard(place: Place) -> HttpResponse:
    keys = ApiKey.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    reports = list_reports(*place.where, Filters(), page=0, size=5)
    configured = Configuration.objects.filter(
        workspace=place.workspace, environment=place.environment
    )
    failed = list_deliveries(*place.where, status=DeliveryStatus.FAILED, page=0, size=1)
    shown = {
        "has_key": keys.exists(),
        "has_report": reports.total > 0,
        "has_webhook": configured.exists(),
        "reports": reports,
        "unread": alerts_of(place.client).filter(read=False).count(),
        "failed": failed.total,
        "base_url": settings.BASE_URL,
        "go_live": place.workspace.go_live,
        "is_live": place.workspace.go_live == Workspace.GoLive.APPROVED,
    }
    return place.show("dashboard", shown)
