"""URLs of the console: `/console/<workspace>/<environment>/...`.

A page is added to `PAGES` here, and to `SECTIONS` in `navigation.py`.
"""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.urls.converters import StringConverter

from verification.console import (
    access,
    api_requests,
    batch_pages,
    brand,
    case_pages,
    correction_pages,
    decision_pages,
    decline_notices,
    exports,
    figures,
    finder,
    golive,
    home,
    member_messages,
    monitoring,
    order_pages,
    packages,
    policy,
    report_actions,
    reports,
    sandbox_pages,
    styles,
    webhooks,
    workspace,
)

Addresses = list[URLPattern | URLResolver]
app_name = "console"


class EnvironmentConverter(StringConverter):
    regex = "sandbox|production"


class SheetConverter(StringConverter):
    regex = "csv|xlsx"


register_converter(EnvironmentConverter, "environment")
register_converter(SheetConverter, "sheet")

REPORT = [
    path("progress", reports.progress, name="reports-progress"),
    path("pdf", reports.pdf, name="reports-pdf"),
    path("decide", reports.decide, name="reports-decide"),
    path("again", order_pages.repeat, name="reports-again"),
    path("edit", order_pages.edit, name="reports-edit"),
    path("launch", report_actions.launch, name="reports-launch"),
    path("cancel", report_actions.cancel, name="reports-cancel"),
    path("retry", report_actions.retry, name="reports-retry"),
    path("consent-link", report_actions.resend_consent, name="reports-consent-link"),
    path("payment-link", report_actions.resend_payment, name="reports-payment-link"),
    path("data-link", reports.send_data_link, name="reports-data-link"),
]
POLICY_VERSION = [
    path("on", policy.activate, name="policy-activate"),
    path("off", policy.switch_off, name="policy-off"),
    path("discard", policy.discard, name="policy-discard"),
    path("rules/new", policy.edit_rule, name="policy-rule-add"),
    path("rules/<int:number>", policy.edit_rule, name="policy-rule"),
    path("rules/<int:number>/up", policy.move_rule, name="policy-rule-up"),
    path("rules/<int:number>/remove", policy.remove_rule, name="policy-rule-remove"),
]
CORRECTION = [
    path("take", correction_pages.take, name="corrections-take"),
    path("run", correction_pages.rerun, name="corrections-run"),
    path(
        "documents/<uuid:file>", correction_pages.document, name="corrections-document"
    ),
]
CORRECTIONS: Addresses = [
    path("", correction_pages.listing, name="corrections"),
    path("people/<uuid:asked>", correction_pages.join, name="corrections-join"),
    path("<uuid:correction>", correction_pages.detail, name="corrections-detail"),
    path("<uuid:correction>/", include(CORRECTION)),
]
NOTICE = [
    path("pdf", decline_notices.pdf, name="notices-pdf"),
    path("resend", decline_notices.resend, name="notices-resend"),
    path("hand-over", decline_notices.hand_over, name="notices-hand-over"),
]
DECISION = [
    path("confirm", decision_pages.confirm, name="reports-confirm"),
    path("refuse", decision_pages.refuse, name="reports-refuse"),
    path("withdraw", decision_pages.withdraw, name="reports-withdraw"),
]
PACKAGES = [
    path("", packages.list_packages, name="settings-packages"),
    path("new", packages.create, name="settings-packages-create"),
    path("<uuid:package>", packages.edit, name="settings-packages-edit"),
    path(
        "<uuid:package>/deactivate",
        packages.switch,
        {"active": False},
        name="settings-packages-deactivate",
    ),
    path(
        "<uuid:package>/activate",
        packages.switch,
        {"active": True},
        name="settings-packages-activate",
    ),
]
MAILBOX = [
    path("", sandbox_pages.list_messages, name="mailbox"),
    path("<uuid:message>", sandbox_pages.show_message, name="mailbox-message"),
    path("<uuid:message>/html", sandbox_pages.show_html, name="mailbox-html"),
    path("addresses/", sandbox_pages.edit_addresses, name="mailbox-addresses"),
    path(
        "addresses/<uuid:address>/confirm",
        sandbox_pages.confirm_address,
        name="mailbox-confirm",
    ),
    path(
        "addresses/<uuid:address>/remove",
        sandbox_pages.remove_address,
        name="mailbox-remove",
    ),
]
BATCHES = [
    path("", batch_pages.listing, name="reports-batches"),
    path("new", batch_pages.upload, name="reports-batch-new"),
    path(
        "template.<sheet:format>", batch_pages.template, name="reports-batch-template"
    ),
    path("<uuid:batch>", batch_pages.show, name="reports-batch"),
    path("<uuid:batch>/launch", batch_pages.launch, name="reports-batch-launch"),
    path("<uuid:batch>/remind", batch_pages.remind, name="reports-batch-remind"),
    path(
        "<uuid:batch>/results.<sheet:format>",
        batch_pages.results,
        name="reports-batch-results",
    ),
]
GO_LIVE = [
    path("", golive.overview, name="golive"),
    path("company", golive.company, name="golive-company"),
    path("again", golive.begin_again, name="golive-again"),
    path("submit", golive.submit, name="golive-submit"),
    path(
        "documents/<slug:kind>/hand-in", golive.upload_document, name="golive-hand-in"
    ),
    path("documents/<uuid:document>", golive.document, name="golive-document"),
]
MONITORING = [
    path("", monitoring.rules, name="monitoring"),
    path("alerts/", monitoring.alerts, name="monitoring-alerts"),
    path("alerts/read", monitoring.read_all, name="monitoring-read-all"),
    path("alerts/<uuid:alert>", monitoring.alert, name="monitoring-alert"),
    path("alerts/<uuid:alert>/read", monitoring.mark_read, name="monitoring-read"),
    path("<uuid:rule>", monitoring.rule, name="monitoring-rule"),
    path("new", monitoring.create, name="monitoring-new"),
    path("<uuid:rule>/change", monitoring.change, name="monitoring-change"),
    path("<uuid:rule>/delete", monitoring.delete, name="monitoring-delete"),
    path("<uuid:rule>/pause", monitoring.pause, name="monitoring-pause"),
    path("<uuid:rule>/resume", monitoring.resume, name="monitoring-resume"),
]
WEBHOOKS = [
    path("", webhooks.overview, name="webhooks"),
    path("configure", webhooks.configure, name="webhooks-configure"),
    path("remove", webhooks.remove, name="webhooks-remove"),
    path("test", webhooks.test, name="webhooks-test"),
    path("recover", webhooks.recover, name="webhooks-recover"),
    path("deliveries/<uuid:delivery>", webhooks.delivery, name="webhooks-delivery"),
    path(
        "deliveries/<uuid:delivery>/redeliver",
        webhooks.redeliver,
        name="webhooks-redeliver",
    ),
]
MEMBERS = [
    path("", access.list_members, name="members"),
    path("leave", access.leave, name="members-leave"),
    path("<uuid:member>/role", access.change_role, name="members-role"),
    path("<uuid:member>/remove", access.remove_member, name="members-remove"),
    path(
        "invitations/<uuid:invitation>/withdraw",
        access.withdraw_invitation,
        name="members-withdraw",
    ),
]
BALANCE = [
    path("", workspace.balance, name="money"),
    path("<str:month>.csv", workspace.statement, {"kind": "csv"}, name="money-csv"),
    path("<str:month>.pdf", workspace.statement, {"kind": "pdf"}, name="money-pdf"),
]
SETTINGS: Addresses = [
    path("", workspace.edit_settings, name="settings"),
    path("name", workspace.edit_names, name="settings-name"),
    path("name/withdraw", workspace.withdraw_names, name="settings-name-withdraw"),
    path("decisions", decision_pages.edit_settings, name="settings-decisions"),
    path("decisions/notices", decline_notices.edit_rule, name="settings-notices"),
    path(
        "decisions/reasons/new", decision_pages.add_reason, name="settings-reason-add"
    ),
    path(
        "decisions/reasons/<uuid:reason>",
        decision_pages.edit_reason,
        name="settings-reason",
    ),
    path("queue", case_pages.edit_settings, name="settings-queue"),
    path("brand", brand.edit, name="settings-brand"),
    path("brand/preview", brand.preview, name="settings-brand-preview"),
    path("close", workspace.close, name="settings-close"),
    path("packages/", include(PACKAGES)),
]
PAGES: Addresses = [
    path("", home.dashboard, name="dashboard"),
    path("keys/", access.list_keys, name="keys"),
    path("keys/new", access.create_key, name="keys-create"),
    path("keys/<uuid:key>/networks", access.set_networks, name="keys-networks"),
    path("keys/<uuid:key>/rotate", access.rotate_key, name="keys-rotate"),
    path("keys/<uuid:key>/revoke", access.revoke_key, name="keys-revoke"),
    path("exports/", exports.overview, name="exports"),
    path("find/", finder.find, name="find"),
    path("figures/", figures.overview, name="figures"),
    path("figures/days.csv", figures.download, name="figures-csv"),
    path("requests/", api_requests.listing, name="requests"),
    path("reports/", reports.listing, name="reports"),
    path("reports/chosen", report_actions.act, name="reports-chosen"),
    path("reports/new", order_pages.order, name="reports-new"),
    path("reports/<uuid:report>", reports.detail, name="reports-detail"),
    path("reports/<uuid:report>/", include(REPORT)),
    path("decisions/<uuid:decision>/", include(DECISION)),
    path("notices/<uuid:notice>/", include(NOTICE)),
    path("batches/", include(BATCHES)),
    path(
        "erasures/<uuid:erasure>/certificate",
        reports.certificate,
        name="erasures-certificate",
    ),
    path("queue/", case_pages.listing, name="queue"),
    path("queue/notices", case_pages.list_notices, name="queue-notices"),
    path("queue/next", case_pages.take_next, name="queue-next"),
    path("queue/approve", case_pages.approve, name="queue-approve"),
    path("queue/<uuid:report>/assign", case_pages.assign, name="queue-assign"),
    path("queue/<uuid:report>/notes", case_pages.add_note, name="queue-note"),
    path("policy/", policy.overview, name="policy"),
    path("policy/new", policy.open_draft, name="policy-open"),
    path("policy/<uuid:version>", policy.version, name="policy-version"),
    path("policy/<uuid:version>/", include(POLICY_VERSION)),
    path("corrections/", include(CORRECTIONS)),
    path("balance/", include(BALANCE)),
    path("webhooks/", include(WEBHOOKS)),
    path("monitoring/", include(MONITORING)),
    path("sandbox/", sandbox_pages.list_test_subjects, name="sandbox"),
    path("mailbox/", include(MAILBOX)),
    path("messages/", member_messages.choose, name="messages"),
    path("members/", include(MEMBERS)),
    path("go-live/", include(GO_LIVE)),
    path("settings/", include(SETTINGS)),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("new", home.create_workspace, name="create"),
    path("invitations/<str:token>", access.show_invitation, name="invitation"),
    path("messages", member_messages.choose_workspace, name="messages-workspaces"),
    path(
        "messages/off/<uuid:member>/<slug:what>/<str:token>",
        member_messages.turn_off,
        name="messages-off",
    ),
    path("<uuid:workspace>/<environment:environment>/", include(PAGES)),
]
if settings.DEBUG:
    urlpatterns.append(path("styles/", styles.styles, name="styles"))
