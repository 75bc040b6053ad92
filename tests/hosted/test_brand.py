"""The client's brand on consent and payment pages, its files, and the way back."""

import io
import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from PIL import Image

from tests.world.brands import ADDRESS, HOST, logo, save_brand
from tests.world.clients import approve_workspace, erase
from tests.world.payer import create_payer, poll_providers
from verification.files.inspection import inspect_logo
from verification.notifications.models import Kind, Notification
from verification.notifications.templates import write_email
from workspaces.brands import bar_brand
from workspaces.models import Brand

pytestmark = pytest.mark.django_db
LINE = "Monday to Friday, Kimathi Street 12"
LINE_SW = "Jumatatu hadi Ijumaa, Kimathi Street 12"
COLOUR = "#8a1c7c"


@pytest.fixture
def brand(api):
    return save_brand(
        api.workspace, logo(), colour=COLOUR, contact_line=LINE, contact_line_sw=LINE_SW
    )


def addresses(html: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/brand/[^"]+)"', html)


def returns(html: str) -> list[str]:
    return re.findall(r'<a class="button other" href="(https:[^"]+)"', html)


def test_consent_page_shows_logo_name_colour_and_line(ask, brand):
    visitor = ask()
    html = visitor.enter().content.decode()

    sheet, picture = addresses(html)
    assert sheet.startswith("/brand/8a1c7c-")
    assert picture == f"/brand/{brand.logo_digest}.png"
    name = "<strong><bdi>Acacia Lenders</bdi></strong>"
    assert f'width="160" height="50"><span>{name}' in html
    assert f"<br><bdi>{LINE}</bdi>" in html
    # No other site is asked, and nothing is inline.
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    assert "<style" not in html
    assert " style=" not in html
    css = Client().get(sheet).content.decode()
    assert css.startswith("@media screen{:root{--accent:#8a1c7c;--on-accent:#ffffff;")
    assert "prefers-color-scheme:dark" in css
    assert "url(" not in css
    # The line is shown in the language of the page.
    html = visitor.get(lang="sw").content.decode()
    assert LINE_SW in html
    assert LINE not in html


def test_logo_stands_beside_the_reviewed_name(api, ask, brand):
    visitor = ask()
    assert "We have not reviewed this name." in visitor.enter().content.decode()

    approve_workspace(api.workspace, "Acacia Lenders Limited", "Acacia")

    html = visitor.get().content.decode()
    assert "<strong><bdi>Acacia Lenders Limited (Acacia)</bdi></strong></span>" in html


def test_line_in_one_language_is_shown_in_both(api, ask):
    save_brand(api.workspace, contact_line=LINE)
    visitor = ask()
    visitor.prove()

    assert LINE in visitor.get(lang="sw").content.decode()


def test_markup_in_the_line_is_text(api, ask, brand):
    # The form refuses it; a row that came another way does no harm either.
    Brand.objects.update(contact_line="<script>alert(1)</script>")

    html = ask().enter().content.decode()

    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_payment_page_shows_the_brand(api, brand):
    payer = create_payer(api)
    payer.open()

    assert len(addresses(payer.text())) == 2


def test_page_without_a_brand_has_no_trace_of_one(ask):
    html = ask().enter().content.decode()

    assert "/brand/" not in html
    assert 'class="face"' not in html


def test_whole_page_with_the_heaviest_logo_is_small(api, ask):
    written = io.BytesIO()
    Image.effect_noise((640, 224), 120).convert("RGB").save(written, "PNG")
    heavy = inspect_logo("logo.png", "image/png", written.getvalue())
    save_brand(api.workspace, heavy, colour=COLOUR, contact_line="x" * 120)
    visitor = ask()
    page = visitor.enter()

    size = len(page.content)
    for name in ("verification/hosted.css", "verification/mark.svg"):
        with open(finders.find(name), "rb") as file:
            size += len(file.read())
    for path in addresses(page.content.decode()):
        size += len(visitor.browser.get(path).content)

    assert size < 40 * 1024


def test_files_are_kept_for_ever_and_depend_on_nobody(ask, brand):
    visitor = ask()
    sheet, picture = addresses(visitor.enter().content.decode())

    for path, kind in ((sheet, "text/css; charset=utf-8"), (picture, "image/png")):
        answer = visitor.browser.get(path, headers={"Accept-Language": "sw"})
        assert answer.status_code == 200
        assert answer["Content-Type"] == kind
        assert answer["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert "Cookie" not in answer.get("Vary", "")
        assert not answer.cookies
        assert answer.content == Client().get(f"{path}?x=1").content


def test_unknown_file_is_not_found(brand):
    for path in (
        # A colour that fails, a digest of another sheet, a logo of nobody
        "/brand/ffffff-0000000000000000.css",
        "/brand/8a1c7c-0000000000000000.css",
        f"/brand/{'0' * 64}.png",
        "/brand/8a1c7c}*{display:none}-0000000000000000.css",
        "/brand/../brand/x.png",
    ):
        answer = Client().get(path)

        assert answer.status_code == 404, path
        assert "immutable" not in answer.get("Cache-Control", ""), path


def test_old_address_ends_with_a_new_logo(api, ask, brand):
    old = f"/brand/{brand.logo_digest}.png"
    new = save_brand(api.workspace, logo((200, 200)))

    assert Client().get(old).status_code == 404
    assert Client().get(f"/brand/{new.logo_digest}.png").status_code == 200


def test_removed_brand_leaves_pages_at_once(api, ask, brand):
    visitor = ask()
    visitor.prove()
    bar_brand(api.workspace.pk, "It is the logo of a bank")

    html = visitor.get().content.decode()

    assert addresses(html) == []
    assert LINE not in html
    assert Client().get(f"/brand/{brand.logo_digest}.png").status_code == 404


def test_production_page_shows_the_brand_of_a_live_workspace_only(paying_api, live_ask):
    save_brand(paying_api.workspace, colour=COLOUR)
    visitor = live_ask()
    visitor.prove()
    paying_api.workspace.go_live = "NONE"
    paying_api.workspace.set_reviewed_names("", "")
    paying_api.workspace.name = "Acacia Lenders"
    paying_api.workspace.save()
    assert addresses(visitor.get().content.decode()) == []

    approve_workspace(paying_api.workspace)

    assert len(addresses(visitor.get().content.decode())) == 1


def test_mails_carry_the_line_and_no_picture(api, ask, brand):
    ask(subject={"email": "wanjiku@acacia.test"})
    message = Notification.objects.get(kind=Kind.CONSENT_REQUEST, channel="EMAIL")

    for language, line in (("en", LINE), ("sw", LINE_SW)):
        message.language = language
        letter = write_email(message)
        assert f"\n--\nAcacia Lenders: {line}\n\n" in letter.text
        assert "/brand/" not in letter.text
        assert letter.attachments == []
    bar_brand(api.workspace.pk, "It misleads people")
    assert LINE_SW not in write_email(message).text


def test_page_leads_back_after_consent(api, ask):
    save_brand(api.workspace)
    visitor = ask(returnUrl=ADDRESS)
    assert returns(visitor.enter().content.decode()) == []

    visitor.grant()

    html = visitor.text()
    assert returns(html) == [f"{ADDRESS}&amp;report={visitor.report_id}"]
    assert 'rel="noreferrer"' in html
    assert "Return to <bdi>Acacia Lenders</bdi>" in html
    assert f"It opens {HOST}, which is not our page." in html


def test_page_leads_back_after_a_refusal(api, ask):
    save_brand(api.workspace)
    visitor = ask(returnUrl=ADDRESS)
    visitor.prove()

    visitor.post("decline", reason="")

    assert len(returns(visitor.text())) == 1


def test_default_address_counts_for_reports_without_their_own(api, ask):
    save_brand(api.workspace, return_url=f"https://{HOST}/hello")
    visitor = ask()
    visitor.agree()
    visitor.prove()

    assert returns(visitor.text()) == [
        f"https://{HOST}/hello?report={visitor.report_id}"
    ]


def test_payer_is_led_back_after_the_payment(api):
    save_brand(api.workspace)
    payer = create_payer(api, returnUrl=ADDRESS)
    payer.open()
    assert returns(payer.text()) == []

    payer.come_back(payer.choose("pay"))
    poll_providers()

    assert len(returns(payer.text())) == 1


def test_address_that_lost_its_host_is_not_followed(api, ask):
    save_brand(api.workspace)
    visitor = ask(returnUrl=ADDRESS)
    visitor.agree()
    visitor.prove()
    assert returns(visitor.text())

    save_brand(api.workspace, return_hosts=["other.acacia.example"])

    html = visitor.text()
    assert returns(html) == []
    assert HOST not in html


def test_page_of_an_erased_report_leads_nowhere(api, ask):
    save_brand(api.workspace)
    visitor = ask(returnUrl=ADDRESS)
    visitor.agree()
    visitor.prove()

    erase(api, visitor.report_id)

    assert api.report(visitor.report_id)["returnUrl"] is None
    assert Brand.objects.get().return_hosts == [HOST]
