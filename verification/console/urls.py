"""The console's addresses: `/console/<workspace>/<environment>/...`.

A page is added to `PAGES` here, and to `NAVIGATION` in `places.py`.
"""

from django.urls import include, path, register_converter

from verification.console import (
    golive,
    home,
    keys,
    mailbox,
    members,
    money,
    monitoring,
    reports,
    webhooks,
    workspace_settings,
)
from verification.console import home as console_home

app_name = "console"


class EnvironmentConverter:
    regex = "sandbox|production"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(EnvironmentConverter, "environment")

PAGES = [
    path("", console_home.dashboard, name="dashboard"),
    path("keys/", keys.listing, name="keys"),
    path("keys/new", keys.create, name="keys-create"),
    path("keys/<uuid:key>/rotate", keys.rotate, name="keys-rotate"),
    path("keys/<uuid:key>/revoke", keys.revoke, name="keys-revoke"),
    path("reports/", reports.listing, name="reports"),
    path("reports/<uuid:report>", reports.detail, name="reports-detail"),
    path("reports/<uuid:report>/pdf", reports.pdf, name="reports-pdf"),
    path("balance/", money.balance, name="money"),
    path(
        "balance/<str:month>.csv",
        money.statement,
        {"kind": "csv"},
        name="money-csv",
    ),
    path(
        "balance/<str:month>.pdf",
        money.statement,
        {"kind": "pdf"},
        name="money-pdf",
    ),
    path("webhooks/", webhooks.overview, name="webhooks"),
    path("webhooks/configure", webhooks.configure, name="webhooks-configure"),
    path("webhooks/remove", webhooks.remove, name="webhooks-remove"),
    path("webhooks/test", webhooks.test, name="webhooks-test"),
    path(
        "webhooks/deliveries/<uuid:delivery>",
        webhooks.delivery,
        name="webhooks-delivery",
    ),
    path(
        "webhooks/deliveries/<uuid:delivery>/redeliver",
        webhooks.redeliver,
        name="webhooks-redeliver",
    ),
    path("monitoring/", monitoring.rules, name="monitoring"),
    path("monitoring/alerts/", monitoring.alerts, name="monitoring-alerts"),
    path("monitoring/alerts/read", monitoring.read_all, name="monitoring-read-all"),
    path("monitoring/alerts/<uuid:alert>", monitoring.alert, name="monitoring-alert"),
    path(
        "monitoring/alerts/<uuid:alert>/read",
        monitoring.mark_read,
        name="monitoring-read",
    ),
    path("monitoring/<uuid:rule>", monitoring.rule, name="monitoring-rule"),
    path("monitoring/<uuid:rule>/pause", monitoring.pause, name="monitoring-pause"),
    path("monitoring/<uuid:rule>/resume", monitoring.resume, name="monitoring-resume"),
    path("sandbox/", workspace_settings.sandbox, name="sandbox"),
    path("mailbox/", mailbox.listing, name="mailbox"),
    path("mailbox/<uuid:message>", mailbox.message, name="mailbox-message"),
    path("mailbox/addresses/", mailbox.addresses, name="mailbox-addresses"),
    path(
        "mailbox/addresses/<uuid:address>/confirm",
        mailbox.confirm,
        name="mailbox-confirm",
    ),
    path(
        "mailbox/addresses/<uuid:address>/remove",
        mailbox.remove,
        name="mailbox-remove",
    ),
    path("members/", members.listing, name="members"),
    path("members/leave", members.leave, name="members-leave"),
    path("members/<uuid:member>/role", members.change_role, name="members-role"),
    path("members/<uuid:member>/remove", members.remove, name="members-remove"),
    path(
        "members/invitations/<uuid:invitation>/withdraw",
        members.withdraw,
        name="members-withdraw",
    ),
    path("go-live/", golive.overview, name="golive"),
    path("go-live/company", golive.company, name="golive-company"),
    path("go-live/again", golive.begin_again, name="golive-again"),
    path("go-live/submit", golive.submit, name="golive-submit"),
    path(
        "go-live/documents/<slug:kind>/hand-in",
        golive.upload_document,
        name="golive-hand-in",
    ),
    path(
        "go-live/documents/<uuid:document>",
        golive.document,
        name="golive-document",
    ),
    path("settings/", workspace_settings.settings, name="settings"),
    path("settings/name", workspace_settings.name, name="settings-name"),
    path(
        "settings/name/withdraw",
        workspace_settings.withdraw_name,
        name="settings-name-withdraw",
    ),
    path("settings/close", workspace_settings.confirm_closing, name="settings-close"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("new", home.create_workspace, name="create"),
    path("invitations/<str:token>", home.invitation, name="invitation"),
    path("<uuid:workspace>/<environment:environment>/", include(PAGES)),
]
