"""Settings of unfold: names, colours, and the pages of the admin by topic."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from verification import __version__

# Group: title, icon and model of each page
PAGES: dict[str, list[tuple[str, str, str]]] = {
    "Reports": [
        ("Reports", "description", "reports.report"),
        ("Check results", "fact_check", "checks.checkresult"),
        ("Consents", "how_to_reg", "consents.consent"),
        ("Consent records", "history_edu", "consents.consentrecord"),
        ("Decisions", "gavel", "decisions.decision"),
        ("References", "reviews", "references.reference"),
        ("Checks and prices", "sell", "checks.checkdefinition"),
        ("Packages", "inventory_2", "checks.checkpackage"),
        ("Live sources", "cell_tower", "sources.source"),
        ("Calls of sources", "call_made", "sources.call"),
    ],
    "Money": [
        ("Payments", "payments", "payments.payment"),
        ("Checkouts", "point_of_sale", "payments.checkout"),
        ("Refunds", "undo", "payments.refund"),
        ("Disputes", "credit_card_off", "payments.dispute"),
        ("Provider events", "receipt_long", "payments.paymentevent"),
        ("Operator alerts", "report", "payments.operatoralert"),
        ("Accounts", "account_balance", "workspaces.account"),
        ("Ledger", "menu_book", "workspaces.ledgerentry"),
        ("Entries by staff", "edit_note", "workspaces.staffentry"),
    ],
    "Workspaces": [
        ("Go-live", "rocket_launch", "golive.application"),
        ("Name changes", "badge", "golive.namechange"),
        ("Workspaces", "business", "workspaces.workspace"),
        ("Brands", "palette", "workspaces.brand"),
        ("Members", "group", "workspaces.member"),
        ("API keys", "key", "workspaces.apikey"),
        ("Blocked by recipients", "block", "notifications.block"),
    ],
    "Data subjects": [
        ("Register of requests", "contact_mail", "privacy.subjectrequest"),
        ("Corrections", "fact_check", "privacy.correction"),
        ("Holds", "lock_clock", "privacy.hold"),
        ("Disclosures", "visibility", "privacy.disclosure"),
        ("Erasures", "verified_user", "privacy.erasure"),
        ("Erasures by staff", "delete_forever", "privacy.stafferasure"),
        ("Runs of the retention", "auto_delete", "privacy.retentionrun"),
    ],
    "Webhooks": [
        ("Receivers", "webhook", "webhooks.configuration"),
        ("Deliveries", "local_shipping", "webhooks.delivery"),
        ("Events", "bolt", "webhooks.event"),
    ],
    "Monitoring": [
        ("Rules", "event_repeat", "monitoring.rule"),
        ("Runs", "play_circle", "monitoring.run"),
        ("Alerts", "notifications_active", "monitoring.alert"),
    ],
    "System": [
        ("Notifications", "mail", "notifications.notification"),
        ("Jobs", "pending_actions", "jobs.job"),
        ("Schedules", "schedule", "django_q.schedule"),
        ("Sanctions lists", "fact_check", "watchlists.edition"),
        ("Audit trail", "policy", "backoffice.auditevent"),
        ("Staff", "badge", "accounts.colleague"),
        ("Roles", "admin_panel_settings", "auth.group"),
    ],
}
# White on 600, and 500 on the dark background, have the contrast of WCAG AA.
TEAL = {
    "50": "#f0fdfa",
    "100": "#ccfbf1",
    "200": "#99f6e4",
    "300": "#5eead4",
    "400": "#2dd4bf",
    "500": "#14b8a6",
    "600": "#0f766e",
    "700": "#115e59",
    "800": "#134e4a",
    "900": "#123f3c",
    "950": "#042f2e",
}


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the menu: only pages that the user may view."""
    home = {
        "title": "Dashboard",
        "icon": "dashboard",
        "link": reverse("admin:index"),
    }
    groups: list[dict[str, Any]] = [{"title": "", "items": [home]}]
    for title, pages in PAGES.items():
        items = [
            {"title": name, "icon": icon, "link": _list_of(label)}
            for name, icon, label in pages
            if _page_of(label).has_view_or_change_permission(request)
        ]
        if items:
            groups.append({"title": title, "separator": True, "items": items})
    return groups


def _list_of(label: str) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_changelist")


def _page_of(label: str) -> admin.ModelAdmin[Any]:
    return admin.site.get_model_admin(apps.get_model(label))


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Back office",
    "SITE_HEADER": "Verification reports",
    "SITE_SUBHEADER": f"Back office {__version__}",
    "SITE_ICON": lambda request: static("verification/mark.svg"),
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda request: static("verification/mark.svg"),
        }
    ],
    "STYLES": [lambda request: static("verification/office.css")],
    "SCRIPTS": [lambda request: static("verification/office.js")],
    "COLORS": {"primary": TEAL},
    "BORDER_RADIUS": "6px",
    "SHOW_BACK_BUTTON": True,
    "DASHBOARD_CALLBACK": "verification.staff.dashboard.callback",
    "SIDEBAR": {
        # This search would put the term into a URL; the header's uses POST.
        "show_search": False,
        "navigation": "verification.backoffice.navigation.navigation",
    },
}
