"""All pages for people: wrong links, errors, languages."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from tests.api.test_problems import unreachable_database as unreachable_database
from tests.references.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, Api, person
from tests.world.employer import create_reference
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.payments import candidate_item
from tests.world.subject import visible_text
from verification import links
from verification.urls import handler500 as handler500
from verification.urls import urlpatterns as all_urls

pytestmark = pytest.mark.django_db
ENDINGS = ["/", ".", ")", ">", ",", "/.", "%20", ").", "%22", "%E2%80%9D", "!%0A"]


def crash(request: HttpRequest) -> HttpResponse:
    name = "Wanjiku Canary"
    raise KeyError(name)


urlpatterns = [*all_urls, path("crash", crash)]


@pytest.fixture
def visitor() -> Client:
    return Client(raise_request_exception=False)


@pytest.fixture
def hosted_links(api: Api, paying_api: Api) -> dict[str, str]:
    """Path by kind of link."""
    consent = api.create({**person(), "consent": HOSTED})
    payment = api.create(candidate_item())
    reference = create_reference(paying_api)
    urls = {
        "consent": consent["consentState"]["consentUrl"],
        "payment": payment["paymentState"]["paymentUrl"],
        "reference": links.reference_url(reference.pk, reference.generation),
        "top-up": links.top_up_url(api.account.pk),
        "genuine": links.genuine_url(consent["id"]),
    }
    return {kind: url.removeprefix(settings.BASE_URL) for kind, url in urls.items()}


def test_link_with_a_wrong_end_redirects_to_its_page(
    hosted_links: dict[str, str], visitor: Client
) -> None:
    for link in hosted_links.values():
        assert visitor.get(link).status_code in {200, 303}
        for ending in ENDINGS:
            answer = visitor.get(link + ending)

            assert (answer.status_code, answer["Location"]) == (302, link)
            assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("asked_for", "page"),
    [
        ("/docs/", "/docs"),
        ("/problems", "/problems/"),
        ("/problems/not-found/?lang=sw", "/problems/not-found?lang=sw"),
        ("/accounts/login", "/accounts/login/"),
        ("/accounts/login/.", "/accounts/login/"),
        ("/console", "/console/"),
        ("/console/.", "/console/"),
        ("/admin", "/admin/"),
        ("/accounts/confirm-email/MQ:1x:sig/).", "/accounts/confirm-email/MQ:1x:sig/"),
    ],
)
def test_page_is_found_with_or_without_its_slash(
    visitor: Client, asked_for: str, page: str
) -> None:
    answer = visitor.get(asked_for)

    assert (answer.status_code, answer["Location"]) == (302, page)


def test_unknown_page_is_not_found_without_a_redirect_loop(visitor: Client) -> None:
    for page in [
        "/c/unknown",
        "/none",
        "/none/",
        "/%2Fevil.test/",
        "/admin/x/",
        "/api/v1/x/",
    ]:
        answer = visitor.get(page, follow=True)

        # The admin asks a stranger to log in, whatever the page is.
        assert answer.status_code == (200 if page.startswith("/admin") else 404), page
        assert all(
            to.startswith("/") and to[1] != "/" for to, _ in answer.redirect_chain
        ), page
        assert len(answer.redirect_chain) <= 2, page


def test_wrong_url_of_the_api_is_not_redirected(api: Api) -> None:
    assert api.get("/reports/").status_code == 404


@pytest.mark.parametrize(
    ("debug", "language", "said"),
    [(True, "en", "Not found"), (False, "sw", "Haikupatikana")],
)
@pytest.mark.parametrize("path", ["/none", "/problems/none", "/static/none.css"])
def test_missing_page_looks_like_the_product(
    visitor: Client, settings: Any, debug: bool, language: str, said: str, path: str
) -> None:
    settings.DEBUG = debug
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "Hakiki Ltd", "help@hakiki.test"

    answer = visitor.get(path, headers={"Accept-Language": language})

    html = answer.content.decode()
    assert answer.status_code == 404
    assert said in visible_text(html)
    assert "Hakiki Ltd, help@hakiki.test" in visible_text(html)
    assert "verification/hosted.css" in html
    assert "urlpatterns" not in html


@pytest.mark.parametrize(
    "path", ["/", "/none", "/my-data", "/accounts/login/", "/docs/search"]
)
def test_page_with_too_many_parameters_is_a_bad_request(path: str) -> None:
    query = "&".join(f"name{n}=1" for n in range(1001))

    answer = Client().get(f"{path}?{query}", headers={"Accept-Language": "sw"})

    assert answer.status_code == 400
    assert answer["Content-Language"] == "sw"


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "made an error that is not your fault"), ("sw", "kosa ambalo si lako")],
)
def test_error_page_looks_like_the_product_and_is_logged(
    visitor: Client, settings: Any, log_lines: LogLines, language: str, said: str
) -> None:
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "Hakiki Ltd", "help@hakiki.test"

    answer = visitor.get("/crash", headers={"Accept-Language": language})

    html = answer.content.decode()
    assert answer.status_code == 500
    assert said in visible_text(html)
    assert answer["X-Request-Id"] in html
    assert "Hakiki Ltd, help@hakiki.test" in visible_text(html)
    assert "Canary" not in html
    line = next(line for line in log_lines() if line["message"] != "request")
    assert "builtins.KeyError" in line["exc_info"]
    assert "Canary" not in str(log_lines())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("language", "debug", "said"),
    [
        ("en", True, "Please try again in a minute"),
        ("sw", False, "jaribu tena baada ya dakika moja"),
    ],
)
def test_page_without_database_says_when_to_try_again(
    visitor: Client,
    settings: Any,
    unreachable_database: None,
    language: str,
    debug: bool,
    said: str,
) -> None:
    settings.DEBUG = debug
    settings.OPERATOR_NAME = "Hakiki Ltd"
    visitor.cookies[settings.SESSION_COOKIE_NAME] = "k" * 32

    for page in ("/c/unknown", "/console/", "/admin/", "/accounts/login/"):
        answer = visitor.get(page, headers={"Accept-Language": language})

        assert answer.status_code == 503, page
        assert answer["Retry-After"] == "60"
        assert answer["Cache-Control"] == "no-store"
        assert said in visible_text(answer.content.decode())
        assert "Hakiki Ltd" in visible_text(answer.content.decode())


@pytest.mark.parametrize("path", ["/accounts/signup/", "/my-data", "/"])
def test_page_links_to_the_privacy_notice_of_the_operator(
    visitor: Client, settings: Any, path: str
) -> None:
    settings.PRIVACY_NOTICE_URL = "https://hakiki.test/privacy"

    page = visitor.get(path).content.decode()

    assert '<a href="https://hakiki.test/privacy"' in page


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["How to tell that it is genuine", "Getting started with the API"]),
        ("sw", ["Jinsi ya kujua kwamba ni wa kweli", "Kuanza kutumia API"]),
    ],
)
def test_front_page_describes_the_service_and_its_address(
    visitor: Client, settings: Any, language: str, texts: list[str]
) -> None:
    settings.OPERATOR_NAME, settings.OPERATOR_CONTACT = "Hakiki Ltd", "help@hakiki.test"
    settings.DEFAULT_FROM_EMAIL = "Hakiki <no-reply@hakiki.test>"

    answer = visitor.get(f"/?lang={language}")

    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    html = answer.content.decode()
    page = visible_text(html)
    title = re.search(r"<title>(.*) - Hakiki Ltd</title>", html)
    assert title
    assert title[1] != "Verification reports"
    for text in [
        *texts,
        f"{settings.BASE_URL}/",
        "no-reply@hakiki.test",
        "Hakiki Ltd, help@hakiki.test",
    ]:
        assert text in page
    assert "noindex" not in html
    assert re.search(r"<script|<style|style=|(src|href)=.https?:", html) is None
    for link in re.findall(r'<a [^>]*href="(/[^"]*)"', html):
        assert visitor.get(link).status_code in {200, 302, 503}, link


def test_documentation_names_the_addresses_of_this_installation(
    visitor: Client, settings: Any
) -> None:
    settings.BASE_URL = "https://verify.hakiki.test"
    settings.SANDBOX_HOST = "sandbox.hakiki.test"

    html = visitor.get("/docs").content.decode()
    markdown = visitor.get("/docs/going-live.md").content.decode()

    assert "curl -s https://sandbox.hakiki.test/api/v1/reports" in html
    assert "https://verify.hakiki.test/api/v1" in markdown
    assert "localhost" not in html + markdown
    assert re.findall(r'(?:src|href)="http[^"]*"', html) == []
