"""The company's face, which owners and administrators edit, and its preview."""

from html import unescape
from itertools import count

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.files.samples import pdf
from tests.world.brands import HOST, logo, picture, save_brand
from tests.world.clients import approve_workspace
from tests.world.subject import visible_text
from verification.backoffice.models import AuditEvent
from verification.console import brand as brand_pages
from verification.files import inspection
from verification.files.inspection import DOCUMENTS, NEWCOMERS
from verification.reports.models import Report
from workspaces import rate_limits
from workspaces.brands import bar_brand
from workspaces.models import Brand

FORM = {
    "colour": "#0a7a3c",
    "contact_line": "Monday to Friday",
    "contact_line_sw": "Jumatatu hadi Ijumaa",
    "return_hosts": f"{HOST}\r\nwww.acacia.example",
    "return_url": f"https://{HOST}/done",
}
PAGE, PREVIEW = "settings-brand", "settings-brand-preview"


def uploaded(content=None, name="logo.png", declared="image/png"):
    return SimpleUploadedFile(name, content or picture(), declared)


def shown(answer) -> str:
    return visible_text(answer.content.decode())


def test_owner_saves_the_face(owner):
    assert owner.messages_after(PAGE, {**FORM, "logo": uploaded()}) == ["Saved."]

    brand = Brand.objects.get()
    assert brand.workspace == owner.workspace
    assert brand.colour == "#0a7a3c"
    assert brand.return_hosts == [HOST, "www.acacia.example"]
    assert (brand.logo_width, brand.logo_height) == (320, 100)
    event = AuditEvent.objects.get(action="brand.changed")
    assert event.workspace_id == owner.workspace.pk
    assert set(event.fields) >= {"logo", "colour", "return_hosts"}


def test_unchanged_form_changes_nothing(owner):
    owner.post(PAGE, {**FORM, "logo": uploaded()})

    owner.post(PAGE, FORM)

    assert Brand.objects.get().logo_digest
    assert AuditEvent.objects.filter(action="brand.changed").count() == 1


def test_logo_is_dropped(owner):
    owner.post(PAGE, {**FORM, "logo": uploaded()})

    owner.post(PAGE, {**FORM, "drop_logo": "on"})

    assert Brand.objects.get().logo is None


WRONG_FIELDS = [
    ({"colour": "teal"}, "such as #0f766e"),
    ({"colour": "#ffd100"}, "its contrast is 1.2:1 and must be 4.5:1"),
    ({"contact_line": "See acacia.example"}, "Use no links"),
    ({"contact_line_sw": "Tuma PIN"}, "Do not mention PINs"),
    ({"return_hosts": "127.0.0.1"}, "This is not one: 127.0.0.1"),
    ({"return_url": "https://evil.example/"}, "List its host above first"),
    ({"return_url": f"http://{HOST}/"}, "Enter a public https address"),
    ({"logo": "svg"}, "This file is not a PNG or JPEG"),
    ({"logo": "pdf"}, "This file is not a PNG or JPEG"),
    ({"logo": "narrow"}, "too narrow"),
]


def test_wrong_field_is_refused_with_the_reason(owner):
    for wrong, said in WRONG_FIELDS:
        files = {
            "svg": uploaded(b"<svg onload='alert(1)'/>", "logo.svg", "image/svg+xml"),
            "pdf": uploaded(pdf(), "logo.pdf", "application/pdf"),
            "narrow": uploaded(picture((2000, 20))),
        }
        fields = {name: files.get(value, value) for name, value in wrong.items()}

        html = owner.post(PAGE, {**FORM, **fields}).content.decode()

        assert "<title>Error:" in html, said
        assert said in unescape(html), said
        assert not Brand.objects.exists(), said


def test_file_beside_another_fault_has_to_be_chosen_again(owner):
    answer = owner.post(PAGE, {**FORM, "colour": "#ffffff", "logo": uploaded()})

    assert "Choose the file again" in answer.content.decode()
    assert not Brand.objects.exists()


def test_viewer_neither_sees_nor_changes_it(viewer):
    assert viewer.get(PAGE).status_code == 403
    assert viewer.get(PREVIEW).status_code == 403
    assert viewer.post(PAGE, FORM).status_code == 403
    assert "Logo, colour, contact line" not in viewer.page("settings")
    assert not Brand.objects.exists()


def test_stranger_finds_no_page(owner, stranger):
    assert stranger.http.get(owner.url(PAGE)).status_code == 404
    assert stranger.http.get(owner.url(PREVIEW)).status_code == 404


def test_page_says_what_is_not_shown_yet(owner):
    assert "until you are live" in owner.page(PAGE)
    approve_workspace(owner.workspace)
    assert "until you are live" not in owner.page(PAGE)


def test_members_read_why_staff_removed_it(owner):
    save_brand(owner.workspace, contact_line="Here")
    bar_brand(owner.workspace.pk, "It is the logo of a bank")

    assert "It is the logo of a bank" in owner.page(PAGE)
    html = owner.post(PAGE, FORM).content.decode()
    assert "We have removed the logo and the line" in html
    # The rest can still be put right.
    lines = {"contact_line": "", "contact_line_sw": ""}
    assert owner.messages_after(PAGE, {**FORM, **lines}) == ["Saved."]


def test_preview_is_the_consent_page_and_stores_nothing(owner):
    save_brand(owner.workspace, logo(), colour="#0a7a3c", contact_line="Kimathi Street")

    answer = owner.get(PREVIEW)
    text = shown(answer)

    assert "Acacia Lenders wants to check your details" in text
    assert "Kimathi Street" in text
    assert "/brand/0a7a3c-" in answer.content.decode()
    assert not Report.objects.exists()


def test_preview_speaks_the_chosen_language(owner):
    answer = owner.get(PREVIEW, query={"in": "sw"})

    assert "inataka kuhakiki taarifa zako" in shown(answer)


def test_preview_shows_the_form_before_it_is_saved(owner):
    answer = owner.post(PREVIEW, {**FORM, "logo": uploaded()})
    html = answer.content.decode()

    assert "/brand/0a7a3c-" in html
    assert "data:image/png;base64," in html
    assert "data:" in answer["Content-Security-Policy"]
    assert "Monday to Friday" in html
    assert not Brand.objects.exists()


def test_preview_opens_in_frames_of_our_pages_only(owner):
    page, preview = owner.get(PAGE), owner.get(PREVIEW)

    assert "frame-src 'self'" in page["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in preview["Content-Security-Policy"]
    assert preview["X-Frame-Options"] == "SAMEORIGIN"
    assert 'sandbox="allow-same-origin"' in page.content.decode()
    assert "script-src" not in preview["Content-Security-Policy"]


@pytest.mark.usefixtures("new_minute")
def test_logos_are_limited_by_the_minute(owner, monkeypatch):
    monkeypatch.setattr(brand_pages, "LOGOS_PER_MINUTE", 1)
    owner.post(PAGE, {**FORM, "logo": uploaded()})

    for page in (PAGE, PREVIEW):
        assert owner.post(page, {**FORM, "logo": uploaded()}).status_code == 429
    assert owner.messages_after(PAGE, FORM)[-1] == "Saved."


@pytest.mark.usefixtures("new_minute")
def test_seconds_of_a_logo_count_as_logos(owner, monkeypatch):
    monkeypatch.setattr(brand_pages, "LOGOS_PER_MINUTE", 2)
    monkeypatch.setattr(rate_limits, "monotonic", count().__next__)

    statuses = [
        owner.post(PREVIEW, {**FORM, "logo": uploaded()}).status_code for _ in range(2)
    ]

    assert statuses == [200, 429]


@pytest.mark.parametrize("inspector", [NEWCOMERS, DOCUMENTS])
def test_logo_is_refused_while_the_machine_is_busy(owner, inspector, monkeypatch):
    if inspector == DOCUMENTS:
        approve_workspace(owner.workspace)
    with inspector.machine_lock():
        monkeypatch.setattr(inspection, "WAIT_SECONDS", 0)
        refused = owner.post(PAGE, {**FORM, "logo": uploaded()})

    assert refused.status_code == 503
    assert refused["Retry-After"] == "60"
    assert not Brand.objects.exists()
