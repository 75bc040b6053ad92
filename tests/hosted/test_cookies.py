import zlib
from base64 import urlsafe_b64decode
from uuid import UUID

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from verification.hosted.pages import VisitCookie

ROW = UUID(int=7)
KIND = VisitCookie("/c/v/", "hosted.consent", seconds=60)


def request_after(kind, row=ROW, value=1):
    """A request that brings the cookie of a visit to `row`."""
    response = HttpResponse()
    kind.remember(response, row, value)
    request = RequestFactory().get("/")
    request.COOKIES = {name: m.value for name, m in response.cookies.items()}
    return request


def test_cookie_returns_the_stored_visit():
    assert KIND.value_of(request_after(KIND, value={"a": 1}), ROW) == {"a": 1}


def test_cookie_is_sealed():
    (cookie,) = request_after(KIND, value={"name": "Wanjiku" * 9}).COOKIES.values()

    for text in (cookie.encode(), urlsafe_b64decode(cookie)):
        assert b"Wanjiku" not in text
        with pytest.raises(zlib.error):
            zlib.decompress(text)


@pytest.mark.parametrize("cookie", ["", "x", "AQJrMQ==", "é", "A" * 200])
def test_foreign_cookie_is_ignored(cookie):
    request = RequestFactory().get("/")
    request.COOKIES = {"visit": cookie}

    assert KIND.value_of(request, ROW) is None


def test_secure_cookie_has_the_secure_prefix(settings):
    settings.SESSION_COOKIE_SECURE = True

    assert list(request_after(KIND).COOKIES) == ["__Secure-visit"]


@pytest.mark.parametrize(
    "other",
    [
        VisitCookie("/c/v/", "hosted.payment", seconds=60),
        VisitCookie("/c/v/", "hosted.consent", seconds=-1),
    ],
)
def test_cookie_of_another_kind_or_too_old_is_ignored(other):
    assert other.value_of(request_after(KIND), ROW) is None


def test_cookie_of_another_row_is_ignored():
    assert KIND.value_of(request_after(KIND), UUID(int=8)) is None
