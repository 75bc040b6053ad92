from uuid import UUID

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from verification.hosted.cookies import VisitCookie

ROW = UUID(int=7)
KIND = VisitCookie("/c/v/", "hosted.consent", seconds=60)


def request_after(kind, row=ROW, value=1):
    """A request that brings the cookie of a visit to `row`."""
    response = HttpResponse()
    kind.remember(response, row, value)
    request = RequestFactory().get("/")
    request.COOKIES = {name: m.value for name, m in response.cookies.items()}
    return request


def test_a_visit_is_read_as_it_was_remembered():
    assert KIND.value_of(request_after(KIND, value={"a": 1}), ROW) == {"a": 1}


@pytest.mark.parametrize(
    "other",
    [
        VisitCookie("/c/v/", "hosted.payment", seconds=60),
        VisitCookie("/c/v/", "hosted.consent", seconds=-1),
    ],
)
def test_a_visit_of_another_kind_or_one_that_is_over_is_none(other):
    assert other.value_of(request_after(KIND), ROW) is None


def test_a_visit_to_another_row_is_none():
    assert KIND.value_of(request_after(KIND), UUID(int=8)) is None
