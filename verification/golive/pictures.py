"""Pictures, drawn anew: only what is seen is kept."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps

from verification.golive.inspecting import Fault, Unacceptable

# Twice what a good scan of A4 has; more is not drawn.
MOST_PIXELS = 40_000_000
# Of the longer side: small print of a scan is still read.
LONGEST = 4_000
QUALITY = 88


def drawn_anew(content: bytes, kind: str) -> bytes:
    """Without places, times, names and whatever else stood beside the picture."""
    try:
        with warnings.catch_warnings():
            # Of more pixels than Pillow likes; we look ourselves.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=[kind]) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise Unacceptable(Fault.BOMB)
                return _drawn(picture, kind)
    except (Unacceptable, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise Unacceptable(Fault.BOMB) from None
    # Pillow raises nearly anything for bytes that were made to break it.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _drawn(picture: Image.Image, kind: str) -> bytes:
    # First of all, as each step below has another copy of it in memory.
    picture.thumbnail((LONGEST, LONGEST))
    upright = ImageOps.exif_transpose(picture)
    plain = upright.convert("L" if upright.mode in {"1", "L"} else "RGB")
    # A new picture takes nothing along but what is seen.
    clean = Image.new(plain.mode, plain.size)
    clean.paste(plain)
    written = io.BytesIO()
    options = {"quality": QUALITY} if kind == "JPEG" else {"compress_level": 6}
    clean.save(written, kind, **options)
    return written.getvalue()
