"""The process that inspects one file, within limits of memory and time.

    python -m verification.files.inspector application/pdf <cr12.pdf

Its answer is the redrawn picture, which has only the visible pixels. A PDF is stored
unchanged, because many are signed. After `image/png;logo` it is a PNG of the size that
pages show.
"""

import io
import warnings
from collections.abc import Callable

from PIL import Image, ImageOps

from verification.files.inspection import (
    AS_LOGO,
    JPEG,
    PDF,
    Fault,
    Unacceptable,
    answer_within_limits,
)


def _inspect(kind: str, content: bytes) -> bytes:
    content_type = kind.removesuffix(AS_LOGO)
    if content_type == PDF:
        # It loads pypdf, which takes as long as all the rest for a picture.
        from verification.files.pdf_inspector import refuse_harmful_pdf

        refuse_harmful_pdf(content)
        return b""
    draw = _draw_logo if kind.endswith(AS_LOGO) else _redraw
    return redraw_picture(content, "JPEG" if content_type == JPEG else "PNG", draw)


# Twice the pixels of a good A4 scan; larger pictures are refused.
MAX_PIXELS = 40_000_000
# A progressive JPEG has a dozen, and each costs the time of a whole picture. Data of
# other kinds behind it, such as a phone's video, may hold the same two bytes.
MAX_SCANS, SCAN = 500, b"\xff\xda"
# Pixels of the longer side, in which small print is still readable.
MAX_SIDE = 4_000
QUALITY = 88


def redraw_picture(
    content: bytes, kind: str, draw: Callable[[Image.Image, str], bytes]
) -> bytes:
    """Return the picture without metadata. Raises Unacceptable."""
    try:
        with warnings.catch_warnings():
            # Pillow warns about large pictures; MAX_PIXELS decides.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=[kind]) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise Unacceptable(Fault.BOMB)
                if kind == "JPEG" and content.count(SCAN) > MAX_SCANS:
                    raise Unacceptable(Fault.BOMB)
                if picture.mode != "I;16":
                    return draw(picture, kind)
                # Pillow would make almost all of its 65,536 shades white.
                return draw(picture.point(lambda shade: shade / 256), kind)
    except (Unacceptable, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise Unacceptable(Fault.BOMB) from None
    # Pillow raises many kinds of errors for malicious bytes.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _redraw(picture: Image.Image, kind: str) -> bytes:
    # First, because each later step makes another copy in memory.
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    upright = ImageOps.exif_transpose(picture)
    mode = "L" if upright.mode in {"1", "L"} else "RGB"
    # A new picture copies the pixels and no metadata. Text is dark, so it is on white.
    clean = Image.new(mode, upright.size, "white")
    mask = upright.convert("RGBA") if upright.has_transparency_data else None
    clean.paste(upright.convert(mode), mask=mask)
    written = io.BytesIO()
    options = {"quality": QUALITY} if kind == "JPEG" else {"compress_level": 6}
    clean.save(written, kind, **options)
    return written.getvalue()


# Twice the CSS pixels that a logo has at most, for sharp screens
LOGO_BOX = (320, 112)
# So that a page with its logo stays below 40 KB
MAX_LOGO_OUTPUT = 10 * 1024
LOGO_COLOURS = (256, 64, 16)
MAX_LOGO_PIXELS = 16_000_000


def _draw_logo(picture: Image.Image, kind: str) -> bytes:
    """Return a PNG that fits into LOGO_BOX, on white, of MAX_LOGO_OUTPUT at most.

    A picture that has more details gets fewer colours, and becomes smaller after that.
    """
    if picture.width * picture.height > MAX_LOGO_PIXELS:
        raise Unacceptable(Fault.BOMB)
    picture.draft("RGB", LOGO_BOX)
    upright = ImageOps.exif_transpose(picture).convert("RGBA")
    upright.thumbnail(LOGO_BOX)
    # A dark logo is visible on dark pages, too.
    logo = Image.new("RGB", upright.size, "white")
    logo.paste(upright, mask=upright)
    while True:
        for number in LOGO_COLOURS:
            written = io.BytesIO()
            few = logo.quantize(number, dither=Image.Dither.NONE)
            few.save(written, "PNG", optimize=True)
            if written.tell() <= MAX_LOGO_OUTPUT:
                return written.getvalue()
        logo.thumbnail((logo.width * 3 // 4, logo.height * 3 // 4))


if __name__ == "__main__":
    answer_within_limits(_inspect)
