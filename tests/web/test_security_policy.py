"""Security headers of every answer, and refusals of plain HTTP."""

import sys

import pytest
from django.test import Client
from django.views.debug import technical_500_response

from verification.development.local_pages import ReporterFilter

PATHS = ["/", "/nowhere", "/api/v1/reports", "/api/v1/nowhere", "/healthz", "/admin/"]
HEADERS = ["X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy"]


@pytest.fixture
def behind_tls(settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 60
    settings.SECURE_REDIRECT_EXEMPT = ["^healthz$"]
    return Client()


@pytest.mark.parametrize("path", [*PATHS, "/api/v1/reports/%00"])
def test_every_answer_is_protected(db, behind_tls, path):
    answer = behind_tls.get(path, secure=True)

    assert [name for name in HEADERS if name not in answer.headers] == []
    assert answer["Strict-Transport-Security"] == "max-age=60"
    assert "X-Request-Id" in answer.headers


def test_error_of_the_api_is_protected_too(db, behind_tls, monkeypatch):
    behind_tls.raise_request_exception = False
    monkeypatch.setattr("verification.web.health._migrations", 1 / 1)

    answer = behind_tls.get("/readyz", secure=True)

    assert answer.status_code == 500
    assert answer["Strict-Transport-Security"] == "max-age=60"
    assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize(
    "path", ["/api/v1/reports", "/api/v1/nowhere", "/metrics", "/callbacks/smile-id"]
)
def test_api_is_refused_over_plain_http(db, behind_tls, path):
    answer = behind_tls.get(path, headers={"Authorization": "Bearer vrf_test_x"})

    assert (answer.status_code, answer.json()["code"]) == (403, "https-required")
    assert "Location" not in answer.headers


def test_metrics_are_answered_over_plain_http_where_the_operator_allows_it(
    db, behind_tls, settings
):
    settings.METRICS_OVER_HTTP, settings.METRICS_TOKEN = True, "t"

    answer = behind_tls.get("/metrics", headers={"Authorization": "Bearer t"})

    assert answer.status_code == 200


def test_page_is_redirected_to_https(db, behind_tls):
    answer = behind_tls.get("/console/")

    assert answer.status_code == 301
    assert answer["Location"].startswith("https://")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/checks/definitions/%00",
        "/api/v1/reports/%00",
        "/accounts/password/reset/key/1-%00/",
        "/admin/reports/report/%00/change/",
        "/c/%00/",
        "/%00",
    ],
)
def test_path_with_a_nul_is_not_found(client, admin_client, path):
    for one in (client, admin_client):
        answer = one.get(path)

        assert answer.status_code == 404
        is_problem = path.startswith("/api/")
        assert ("application/problem+json" in answer["Content-Type"]) == is_problem


def test_debug_page_shows_no_settings_or_environment(rf, settings):
    settings.DEBUG = True
    request = rf.get("/", HOSTING_PASSPHRASE="hush")
    request.exception_reporter_filter = ReporterFilter()
    try:
        raise ValueError("broken")
    except ValueError:
        shown = technical_500_response(request, *sys.exc_info()).content.decode()

    assert "broken" in shown
    assert "HOSTING_PASSPHRASE</td>" not in shown
    assert settings.OPERATOR_CONTACT not in shown
