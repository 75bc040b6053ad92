"""The service's URLs, the pages of a developer's machine, and each error page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from verification.console.styles import styles
from verification.hosted.hosted_pages import too_large
from verification.urls import handler400 as handler400
from verification.urls import handler403 as handler403
from verification.urls import handler404 as handler404
from verification.urls import handler500 as handler500
from verification.urls import urlpatterns as served
from verification.web import pages


def too_many(request: HttpRequest) -> HttpResponse:
    return render(request, "429.html", status=429)


ERRORS = {
    "400": pages.bad_request,
    "403": pages.forbidden,
    "403-csrf": pages.csrf_failure,
    "404": pages.not_found,
    "413": pages.private_page(too_large),
    "429": pages.private_page(too_many),
    "500": pages.server_error,
    "503": pages.unavailable,
}
urlpatterns = [
    *(path(f"errors/{name}", view) for name, view in ERRORS.items()),
    path("console/styles/", styles),
    path("dev/", include("verification.development.local_pages")),
    *served,
]
