import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from tests.api.small import bearer, new_key
from tests.api.small import small_api as small_api
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.problems import MemberError, pointer, validation_failed

pytestmark = pytest.mark.django_db


def problem(response: Any) -> dict[str, Any]:
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    kind = PROBLEM_KINDS[body["code"]]
    assert body["status"] == response.status_code == kind.status
    assert body["title"] == kind.title
    assert body["type"] == f"{settings.BASE_URL}/problems/{kind.code}"
    assert body["requestId"] == response["X-Request-Id"]
    assert body["detail"]
    return body


@pytest.fixture
def text() -> str:
    return new_key()[1]


@pytest.fixture
def unreachable_database() -> Iterator[None]:
    where = connection.settings_dict
    kept = dict(where)
    connection.close()
    where |= {"HOST": "127.0.0.1", "PORT": "1"}
    yield
    where.clear()
    where.update(kept)
    connection.close()


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/", "/api", "/api/v2/things"])
def test_wrong_url_of_the_api_is_a_problem(client: Client, path: str) -> None:
    body = problem(client.get(path))

    assert body["code"] == "not-found"
    assert body["instance"] == path


def test_instance_is_a_valid_reference_without_the_query(client: Client) -> None:
    body = problem(client.get("/api/v1/né ant?name=Wanjiku"))

    assert body["instance"] == "/api/v1/n%C3%A9%20ant"


def test_wrong_method_is_a_problem_with_the_allowed_methods(
    client: Client, text: str
) -> None:
    response = client.put("/api/v1/things", headers=bearer(text))

    assert problem(response)["code"] == "method-not-allowed"
    assert response["Allow"] == "GET, HEAD, POST"


def test_wrong_method_of_a_plain_view_is_the_same_problem(client: Client) -> None:
    response = client.get("/api/v1/hook")

    assert problem(response)["code"] == "method-not-allowed"
    assert response["Allow"] == "POST"


def test_too_many_parameters_are_refused(client: Client, text: str) -> None:
    query = "&".join(f"name{n}=1" for n in range(1001))

    body = problem(client.get(f"/api/v1/things?{query}", headers=bearer(text)))

    assert body["code"] == "validation-failed"


def test_crash_discloses_only_its_request_id(text: str) -> None:
    client = Client(raise_request_exception=False)

    response = client.get("/api/v1/things/crash", headers=bearer(text))

    assert problem(response)["code"] == "internal-error"
    assert b"Canary" not in response.content
    assert b"KeyError" not in response.content


def test_crash_is_logged_with_its_place_and_without_values(
    text: str, log_lines: LogLines
) -> None:
    client = Client(raise_request_exception=False)

    client.get("/api/v1/things/crash", headers=bearer(text))

    line = next(line for line in log_lines() if line["level"] == "ERROR")
    assert "builtins.KeyError" in line["exc_info"]
    assert "small.py" in line["exc_info"]
    assert "Canary" not in str(log_lines())


@pytest.mark.parametrize("name", ["slow", "away"])
def test_problem_is_unavailable_when_the_database_is_away(
    client: Client, text: str, name: str
) -> None:
    response = client.get(f"/api/v1/things/{name}", headers=bearer(text))

    assert problem(response)["code"] == "unavailable"
    assert int(response["Retry-After"]) > 0


@pytest.mark.django_db(transaction=True)
def test_authentication_is_unavailable_without_a_database(
    client: Client, text: str, unreachable_database: None
) -> None:
    response = client.get("/api/v1/things", headers=bearer(text))

    assert problem(response)["code"] == "unavailable"
    assert int(response["Retry-After"]) > 0


def test_refused_host_is_a_problem_that_names_the_header(
    client: Client, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["verify.example.com"]

    body = problem(client.get("/api/v1/things", headers={"Host": "evil.example"}))

    assert body["code"] == "validation-failed"
    assert body["errors"][0]["header"] == "Host"


def test_errors_of_the_api_are_problems_when_debug_is_on(
    client: Client, settings: Any
) -> None:
    settings.DEBUG = True

    assert problem(client.get("/api/v1/nothing"))["code"] == "not-found"


ACCEPTED = [
    "*/*",
    "application/*",
    "application/json; charset=utf-8",
    "application/problem+json",
    "text/html, application/json;q=0.1",
    "text/html, */*;q=0.1",
    "",
]
NOT_ACCEPTABLE = [
    "text/html",
    "application/json;q=0, application/problem+json;q=0, */*",
    "application/xml, text/*",
]


def test_accept_header_must_allow_json(client: Client, text: str) -> None:
    def get(accept: str) -> Any:
        return client.get("/api/v1/things", headers=bearer(text) | {"Accept": accept})

    for accept in ACCEPTED:
        response = get(accept)
        assert response.status_code == 200, accept
        assert response["Content-Type"] == "application/json"
    for accept in NOT_ACCEPTABLE:
        assert problem(get(accept))["code"] == "not-acceptable", accept


def test_every_answer_of_the_api_forbids_caching(client: Client, text: str) -> None:
    fine = client.get("/api/v1/things", headers=bearer(text))
    refused = client.get("/api/v1/nothing")

    for response in (fine, refused):
        assert response["Cache-Control"] == "no-store"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Security-Policy"].startswith("default-src 'none'")


def test_problem_lists_at_most_a_hundred_errors() -> None:
    errors = [
        MemberError("required", "Needed.", pointer=pointer("a", i)) for i in range(150)
    ]

    body = validation_failed(errors).body("/api/v1/things", "id")

    assert len(body["errors"]) == 100
    assert body["detail"] == "a[0]: Needed, and more than 99 more."


def test_pointer_escapes_special_characters() -> None:
    assert pointer() == "#"
    assert pointer("reports", 17, "subject") == "#/reports/17/subject"
    assert pointer("a/b", "c~d") == "#/a~1b/c~0d"
    assert pointer("jina kamili", "ü", "%", "#") == "#/jina%20kamili/%C3%BC/%25/%23"
    assert pointer("\ud800") == "#/%3F"


def test_every_problem_has_a_page(client: Client) -> None:
    for code, kind in PROBLEM_KINDS.items():
        response = client.get(f"/problems/{code}?lang=en")

        html = unescape(response.content.decode())
        assert response.status_code == 200
        assert code in html
        assert f"<p>{kind.explanation}</p>" in html, code


def test_page_of_a_problem_is_in_kiswahili(client: Client) -> None:
    # All words are in the catalogue: test_translations.
    response = client.get("/problems/not-found?lang=sw")

    html = unescape(response.content.decode())
    assert '<html lang="sw">' in html
    assert response["Content-Language"] == "sw"
    assert f"<p>{PROBLEM_KINDS['not-found'].explanation}</p>" not in html


def test_page_of_a_problem_shows_the_members_that_it_has(client: Client) -> None:
    for code, member in (
        ("validation-failed", "errors"),
        ("insufficient-scope", "requiredScope"),
        ("report-not-launchable", "reasons"),
        ("report-not-editable", "reportStatus"),
        ("report-not-cancellable", "reportStatus"),
        ("report-not-retryable", "reportStatus"),
    ):
        page = unescape(client.get(f"/problems/{code}").content.decode())
        assert f'"{member}"' in page, code


def test_page_uses_the_browsers_language_until_one_is_chosen(
    client: Client,
) -> None:
    browser = {"Accept-Language": "sw-KE, en;q=0.5"}

    assert client.get("/problems/", headers=browser)["Content-Language"] == "sw"
    chosen = client.get("/problems/?lang=en", headers=browser)
    assert chosen["Content-Language"] == "en"
    assert client.get("/problems/?lang=xx")["Content-Language"] == "en"


def test_list_of_problems_links_to_each(client: Client) -> None:
    html = client.get("/problems/?lang=sw").content.decode()

    for code in PROBLEM_KINDS:
        assert f'href="/problems/{code}?lang=sw"' in html


def test_unknown_problem_has_no_page(client: Client) -> None:
    response = client.get("/problems/no-such-thing")

    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    "path", ["/problems/", "/problems/not-found", "/docs/reference", "/docs/try"]
)
def test_pages_have_no_inline_script_and_no_foreign_files(
    client: Client, path: str
) -> None:
    response = client.get(path)

    html = response.content.decode()
    assert "unsafe" not in response["Content-Security-Policy"]
    assert "<style" not in html
    assert "<script>" not in html
    assert "style=" not in html
    assert not re.search(r'(?:src|href)="https?:', html)


def test_stylesheet_of_the_pages_exists(client: Client) -> None:
    response = client.get("/static/verification/hosted.css")

    assert response.status_code == 200
    response.close()
