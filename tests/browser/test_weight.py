"""The size of pages, and secrets in the log."""

import pytest
import requests

from tests.browser.conftest import HOSTED_PAGE_BYTES, hosted_bytes
from tests.browser.test_consent import confirm, link_of, sees

pytestmark = pytest.mark.slow


def test_heaviest_page_is_light(page, ask):
    page.goto(link_of(ask()))
    confirm(page)
    sees(page, "Acacia wants to check your details")

    assert 5000 < hosted_bytes(page) < HOSTED_PAGE_BYTES


def test_form_of_10_mb_is_refused_at_once(page, ask):
    page.goto(link_of(ask()))

    answer = requests.post(f"{page.url}grant", b"x=" + b"y" * 10_000_000, timeout=10)

    assert answer.status_code == 413


def test_log_keeps_no_token(page, ask, service):
    link = link_of(ask())
    page.goto(link)
    page.goto(f"{link}x")

    log = service.log()

    assert '"c/<str:token>"' in log
    assert link.rsplit("/", 1)[1] not in log
