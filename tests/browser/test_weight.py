"""The size of pages, and secrets in the log."""

import pytest
import requests

from tests.browser.test_consent import link_of

pytestmark = pytest.mark.slow


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
