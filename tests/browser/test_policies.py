"""Pages with scripts obey their security policy; the fixture checks that."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DESK, take_picture

pytestmark = pytest.mark.slow


def test_commands_of_the_documentation_fit_their_column(page, service):
    page.set_viewport_size(DESK)
    page.goto(f"{service.url}/docs")

    overflow = "all => all.map(one => one.scrollWidth - one.clientWidth)"
    assert set(page.eval_on_selector_all("pre", overflow)) == {0}


def test_reference_of_the_api_is_dark_in_the_dark(page, service):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{service.url}/docs/try")
    expect(page.get_by_text("/api/v1/reports", exact=True).first).to_be_visible()
    take_picture(page, "docs-try-dark")

    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate(
        "getComputedStyle(document.querySelector('.opblock-summary-path')).color"
    )
    assert brightness(ground) < 60 < 150 < brightness(ink)


def brightness(colour):
    return max(map(int, re.findall(r"\d+", colour)[:3]))
