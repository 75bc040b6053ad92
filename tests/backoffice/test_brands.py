"""Staff take a misleading brand off all pages, with a reason."""

import pytest

from tests.world.brands import logo, save_brand
from tests.world.staff import change_url, press_button, read_page
from verification.backoffice.models import AuditEvent
from workspaces.models import Brand

pytestmark = pytest.mark.django_db


@pytest.fixture
def brand(api):
    return save_brand(api.workspace, logo(), contact_line="Kimathi Street 12")


def test_page_shows_logo_line_and_reviewed_name(superuser, brand):
    html = read_page(superuser, change_url(brand))

    assert f'<img src="/brand/{brand.logo_digest}.png" alt="The logo">' in html
    assert "Kimathi Street 12" in html
    assert "Acacia Lenders" in html


def test_staff_remove_a_brand_with_a_reason(superuser, brand):
    reason = "It is the logo of a bank"

    assert press_button(superuser, "remove", brand, reason=reason) == [
        "The brand is removed."
    ]

    removed = Brand.objects.get()
    assert (removed.logo, removed.contact_line) == (None, "")
    assert removed.barred_reason == reason
    event = AuditEvent.objects.get(action="brand.removed")
    assert event.reason == reason
    assert event.workspace_id == brand.workspace_id


def test_brand_is_not_removed_without_a_reason(superuser, brand):
    press_button(superuser, "remove", brand, reason="")

    assert not Brand.objects.get().is_barred


def test_staff_allow_a_brand_again(superuser, brand):
    press_button(superuser, "remove", brand, reason="A mistake")

    assert press_button(superuser, "allow", brand) == ["The brand is allowed again."]

    assert not Brand.objects.get().is_barred
    assert AuditEvent.objects.filter(action="brand.allowed").exists()


def test_brand_is_removed_once(superuser, brand):
    press_button(superuser, "remove", brand, reason="A mistake")

    press_button(superuser, "remove", brand, reason="Another one")

    assert Brand.objects.get().barred_reason == "A mistake"
    assert AuditEvent.objects.filter(action="brand.removed").count() == 1
