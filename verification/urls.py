from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path

from verification.api import clients, docs, provider_callbacks
from verification.staff import search
from verification.web import health, metrics, pages

# Processes of jobs install `SimpleAdminConfig`, which leaves this to the URLs.
admin.autodiscover()

SEARCH = path("search", admin.site.admin_view(search.search_page), name="search")
urlpatterns = [
    # PostgreSQL refuses texts with NUL, so no view looks one up.
    re_path("\0", pages.raise_not_found),
    # Paths are compared in this order, and most requests are of the API.
    path("api/v1/schema", docs.SchemaView.as_view(), name="schema"),
    path("api/v1/", include("verification.api.urls")),
    path("", pages.landing, name="landing"),
    # The app name `admin` makes the guards of the admin hold for this page. Its name is
    # `office:search`.
    path("admin/", include(([SEARCH], "admin"), namespace="office")),
    path("admin/", admin.site.urls),
    path("accounts/", include("verification.accounts.urls")),
    path("console/", include("verification.console.urls")),
    path("", include("verification.hosted.urls")),
    path("callbacks/smile-id", provider_callbacks.smile_id, name="smile-id-callback"),
    path(
        "callbacks/smile-id-v3",
        provider_callbacks.smile_id_v3,
        name="smile-id-v3-callback",
    ),
    path("docs", docs.guide, name="docs"),
    path("docs/search", docs.search, name="docs-search"),
    path("docs/try", docs.TryView.as_view(), name="docs-try"),
    path("docs/clients", clients.docs_clients, name="docs-clients"),
    path("docs/clients/<str:name>", clients.client_file, name="docs-client-file"),
    path("docs/reference", docs.reference, name="docs-reference"),
    path("docs/reference/<str:name>", docs.reference_operation, name="docs-operation"),
    path("docs/llms.txt", docs.llms),
    path("llms.txt", docs.llms, name="llms"),
    path("docs/<slug:name>.md", docs.guide_markdown, name="docs-markdown"),
    path("docs/<slug:name>", docs.guide, name="docs-guide"),
    path("problems/", docs.problem_index, name="problems"),
    path("problems/<str:code>", docs.problem_detail, name="problem"),
    path("livez", health.livez, name="livez"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
]
if settings.DEBUG:
    urlpatterns.append(path("dev/", include("verification.development.local_pages")))
# `ProblemMiddleware` turns the error pages of the API into problems.
handler400 = "verification.web.pages.bad_request"
handler403 = "verification.web.pages.forbidden"
handler404 = "verification.web.pages.not_found"
handler500 = "verification.web.pages.server_error"
