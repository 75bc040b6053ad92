"""Uploaded logos: what passes is redrawn small, and the rest is refused."""

import io
import zlib

import pytest
from PIL import Image, PngImagePlugin

from tests.files.samples import pdf
from tests.files.samples import picture as plain
from tests.world.brands import picture
from verification.files.inspection import (
    MAX_LOGO_BYTES,
    Fault,
    Unacceptable,
    inspect_logo,
)
from verification.files.inspector import LOGO_BOX, MAX_LOGO_OUTPUT

SCRIPT = b"<script>alert(document.domain)</script>"


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def inspected(content: bytes, name="logo.png", declared="image/png") -> bytes:
    return inspect_logo(name, declared, content)


def test_logo_is_redrawn_in_the_size_that_pages_show():
    logo = opened(inspected(picture((1000, 300))))

    assert logo.format == "PNG"
    assert logo.size == (320, 96)


def test_small_logo_is_not_enlarged():
    assert opened(inspected(picture((60, 40)))).size == (60, 40)


def test_jpeg_becomes_a_png():
    logo = inspected(plain("JPEG"), "logo.jpg", "image/jpeg")

    assert opened(logo).format == "PNG"


def test_transparent_parts_become_white():
    logo = opened(inspected(picture((100, 100)))).convert("RGB")

    assert logo.getpixel((0, 0)) == (255, 255, 255)
    assert logo.getpixel((50, 50)) == (10, 122, 60)


def test_logo_full_of_details_is_light():
    noise = Image.effect_noise((1600, 560), 120).convert("RGB")
    written = io.BytesIO()
    noise.save(written, "JPEG", quality=80)

    logo = inspected(written.getvalue(), "logo.jpg", "image/jpeg")

    assert len(logo) <= MAX_LOGO_OUTPUT
    assert opened(logo).width <= LOGO_BOX[0]


def test_metadata_and_appended_files_are_gone():
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "Wanjiku Kamau", zip=False)
    polyglot = picture(pnginfo=text) + SCRIPT + b"PK\x03\x04" + pdf()

    logo = inspected(polyglot)

    for hidden in (b"Wanjiku", b"<script", b"PK\x03\x04", b"%PDF", b"tEXt"):
        assert hidden in polyglot
        assert hidden not in logo
    assert logo.endswith(b"IEND\xaeB`\x82")


def test_logo_bomb_is_refused():
    header = b"\0\0\xff\xff" * 2 + b"\x01\0\0\0\0"

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data).to_bytes(4)
        return len(data).to_bytes(4) + kind + data + crc

    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1_000_000)))
        + chunk(b"IEND", b"")
    )

    with pytest.raises(Unacceptable) as refused:
        inspected(bomb)

    assert refused.value.fault == Fault.BOMB


def test_jpeg_of_many_scans_is_refused():
    """Each costs the time of a whole picture."""
    scan = plain("JPEG", progressive=True)
    last = scan[scan.rindex(b"\xff\xda") : -2]

    with pytest.raises(Unacceptable) as refused:
        inspected(scan[:-2] + last * 500 + scan[-2:], "logo.jpg", "image/jpeg")

    assert refused.value.fault == Fault.BOMB


@pytest.mark.parametrize(
    ("content", "name", "declared", "fault"),
    [
        (b"", "logo.png", "image/png", Fault.EMPTY),
        (b"\x89PNG\r\n\x1a\n" * MAX_LOGO_BYTES, "a.png", "image/png", Fault.TOO_LARGE),
        (b"<svg onload='alert(1)'/>", "a.svg", "image/svg+xml", Fault.UNKNOWN),
        (b"GIF89a" + SCRIPT, "logo.gif", "image/gif", Fault.UNKNOWN),
        (pdf(), "logo.pdf", "application/pdf", Fault.UNKNOWN),
        (plain("PNG"), "logo.html", "text/html", Fault.LIES),
        (plain("PNG"), "logo.jpg", "image/jpeg", Fault.LIES),
        (plain("PNG")[:60], "logo.png", "image/png", Fault.DAMAGED),
        (b"\x89PNG\r\n\x1a\n" + SCRIPT, "logo.png", "image/png", Fault.DAMAGED),
    ],
)
def test_what_is_no_logo_is_refused(content, name, declared, fault):
    with pytest.raises(Unacceptable) as refused:
        inspected(content, name, declared)

    assert refused.value.fault == fault
