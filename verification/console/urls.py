"""URLs of the console: `/console/<workspace>/<environment>/...`.

A page is added to `PAGES` here, and to `NAVIGATION` in `base.py`.
"""

from django.urls import include, path, register_converter

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
    webhooks,
    workspace,
)

app_name = "console"


class EnvironmentConverter:
    regex = "sandbox|production"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(EnvironmentConverter, "environment")

PAGES = [
    path("", home.dashboard, name="dashboard"),
    path("keys/", access.list_keys, name="keys"),
    path("keys/new", access.create_key, name="keys-create"),
    path("keys/<uuid:key>/rotate", access.rotate_key, name="keys-rotate"),
    path("keys/<uuid:key>/revoke", access.revoke_key, name="keys-revoke"),
    path("exports/", exports.overview, name="exports"),
    path("figures/", figures.overview, name="figures"),
    path("figures/days.csv", figures.download, name="figures-csv"),
    path("requests/", api_requests.listing, name="requests"),
    path("reports/", reports.listing, name="reports"),
    path("reports/new", order_pages.order, name="reports-new"),
    path("reports/<uuid:report>", reports.detail, name="reports-detail"),
    path("reports/<uuid:report>/pdf", reports.pdf, name="reports-pdf"),
    path("reports/<uuid:report>/decide", reports.decide, name="reports-decide"),
    path(
        "decisions/<uuid:decision>/confirm",
        decision_pages.confirm,
        name="reports-confirm",
    ),
    path(
        "decisions/<uuid:decision>/refuse", decision_pages.refuse, name="reports-refuse"
    ),
    path(
        "decisions/<uuid:decision>/withdraw",
        decision_pages.withdraw,
        name="reports-withdraw",
    ),
    path("notices/<uuid:notice>/pdf", decline_notices.pdf, name="notices-pdf"),
    path("notices/<uuid:notice>/resend", decline_notices.resend, name="notices-resend"),
    path(
        "notices/<uuid:notice>/hand-over",
        decline_notices.hand_over,
        name="notices-hand-over",
    ),
    path("reports/<uuid:report>/again", order_pages.repeat, name="reports-again"),
    path("reports/<uuid:report>/edit", order_pages.edit, name="reports-edit"),
    path("reports/<uuid:report>/launch", report_actions.launch, name="reports-launch"),
    path("reports/<uuid:report>/cancel", report_actions.cancel, name="reports-cancel"),
    path("reports/<uuid:report>/retry", report_actions.retry, name="reports-retry"),
    path(
        "reports/<uuid:report>/consent-link",
        report_actions.resend_consent,
        name="reports-consent-link",
    ),
    path(
        "reports/<uuid:report>/payment-link",
        report_actions.resend_payment,
        name="reports-payment-link",
    ),
    path("batches/", batch_pages.listing, name="reports-batches"),
    path("batches/new", batch_pages.upload, name="reports-batch-new"),
    path(
        "batches/template.csv",
        batch_pages.template,
        {"format": "csv"},
        name="reports-batch-template-csv",
    ),
    path(
        "batches/template.xlsx",
        batch_pages.template,
        {"format": "xlsx"},
        name="reports-batch-template-xlsx",
    ),
    path("batches/<uuid:batch>", batch_pages.show, name="reports-batch"),
    path(
        "batches/<uuid:batch>/launch", batch_pages.launch, name="reports-batch-launch"
    ),
    path(
        "batches/<uuid:batch>/results.csv",
        batch_pages.results,
        {"format": "csv"},
        name="reports-batch-results-csv",
    ),
    path(
        "batches/<uuid:batch>/results.xlsx",
        batch_pages.results,
        {"format": "xlsx"},
        name="reports-batch-results-xlsx",
    ),
    path(
        "erasures/<uuid:erasure>/certificate",
        reports.certificate,
        name="erasures-certificate",
    ),
    path("queue/", case_pages.listing, name="queue"),
    path("queue/notices", decline_notices.listing, name="queue-notices"),
    path("queue/next", case_pages.take_next, name="queue-next"),
    path("queue/<uuid:report>/assign", case_pages.assign, name="queue-assign"),
    path("queue/<uuid:report>/notes", case_pages.add_note, name="queue-note"),
    path("policy/", policy.overview, name="policy"),
    path("policy/new", policy.open_draft, name="policy-open"),
    path("policy/<uuid:version>", policy.version, name="policy-version"),
    path("policy/<uuid:version>/on", policy.activate, name="policy-activate"),
    path("policy/<uuid:version>/off", policy.switch_off, name="policy-off"),
    path("policy/<uuid:version>/discard", policy.discard, name="policy-discard"),
    path("policy/<uuid:version>/rules/new", policy.add_rule, name="policy-rule-add"),
    path(
        "policy/<uuid:version>/rules/<int:number>",
        policy.edit_rule,
        name="policy-rule",
    ),
    path(
        "policy/<uuid:version>/rules/<int:number>/up",
        policy.move_rule,
        name="policy-rule-up",
    ),
    path(
        "policy/<uuid:version>/rules/<int:number>/remove",
        policy.remove_rule,
        name="policy-rule-remove",
    ),
    path("corrections/", correction_pages.listing, name="corrections"),
    path(
        "corrections/people/<uuid:asked>",
        correction_pages.join,
        name="corrections-join",
    ),
    path(
        "corrections/<uuid:correction>",
        correction_pages.detail,
        name="corrections-detail",
    ),
    path(
        "corrections/<uuid:correction>/take",
        correction_pages.take,
        name="corrections-take",
    ),
    path(
        "corrections/<uuid:correction>/run",
        correction_pages.rerun,
        name="corrections-run",
    ),
    path(
        "corrections/<uuid:correction>/documents/<uuid:file>",
        correction_pages.document,
        name="corrections-document",
    ),
    path(
        "reports/<uuid:report>/data-link",
        reports.send_data_link,
        name="reports-data-link",
    ),
    path("balance/", workspace.balance, name="money"),
    path(
        "balance/<str:month>.csv",
        workspace.statement,
        {"kind": "csv"},
        name="money-csv",
    ),
    path(
        "balance/<str:month>.pdf",
        workspace.statement,
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
    path("sandbox/", sandbox_pages.list_test_subjects, name="sandbox"),
    path("mailbox/", sandbox_pages.list_messages, name="mailbox"),
    path("mailbox/<uuid:message>", sandbox_pages.show_message, name="mailbox-message"),
    path("mailbox/addresses/", sandbox_pages.edit_addresses, name="mailbox-addresses"),
    path(
        "mailbox/addresses/<uuid:address>/confirm",
        sandbox_pages.confirm_address,
        name="mailbox-confirm",
    ),
    path(
        "mailbox/addresses/<uuid:address>/remove",
        sandbox_pages.remove_address,
        name="mailbox-remove",
    ),
    path("messages/", member_messages.choose, name="messages"),
    path("members/", access.list_members, name="members"),
    path("members/leave", access.leave, name="members-leave"),
    path("members/<uuid:member>/role", access.change_role, name="members-role"),
    path("members/<uuid:member>/remove", access.remove_member, name="members-remove"),
    path(
        "members/invitations/<uuid:invitation>/withdraw",
        access.withdraw_invitation,
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
    path("settings/", workspace.edit_settings, name="settings"),
    path("settings/name", workspace.edit_names, name="settings-name"),
    path(
        "settings/name/withdraw",
        workspace.withdraw_names,
        name="settings-name-withdraw",
    ),
    path("settings/decisions", decision_pages.edit_settings, name="settings-decisions"),
    path(
        "settings/decisions/notices",
        decline_notices.edit_rule,
        name="settings-notices",
    ),
    path(
        "settings/decisions/reasons/new",
        decision_pages.add_reason,
        name="settings-reason-add",
    ),
    path(
        "settings/decisions/reasons/<uuid:reason>",
        decision_pages.edit_reason,
        name="settings-reason",
    ),
    path("settings/queue", case_pages.edit_settings, name="settings-queue"),
    path("settings/brand", brand.edit, name="settings-brand"),
    path("settings/brand/preview", brand.preview, name="settings-brand-preview"),
    path("settings/packages/", packages.list_packages, name="settings-packages"),
    path("settings/packages/new", packages.create, name="settings-packages-create"),
    path(
        "settings/packages/<uuid:package>",
        packages.edit,
        name="settings-packages-edit",
    ),
    path(
        "settings/packages/<uuid:package>/deactivate",
        packages.deactivate,
        name="settings-packages-deactivate",
    ),
    path(
        "settings/packages/<uuid:package>/activate",
        packages.activate,
        name="settings-packages-activate",
    ),
    path("settings/close", workspace.close, name="settings-close"),
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
