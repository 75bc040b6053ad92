"""Pictures, drawn anew: only what is seen is kept.

PDFs that only show something. They are kept as they came: many are signed.
"""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

from PIL import Image, ImageOps
from pypdf import Configuration, PdfReader, apply_configuration
from pypdf.errors import LimitReachedError
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    IndirectObject,
    NameObject,
    PdfObject,
    StreamObject,
)

from verification.golive.inspection import Fault, Unacceptable

# Twice what a good scan of A4 has; more is not drawn.
MAX_PIXELS = 40_000_000
# Of the longer side: small print of a scan is still read.
MAX_SIDE = 4_000
QUALITY = 88


def redraw_picture(content: bytes, kind: str) -> bytes:
    """Without places, times, names and whatever else stood beside the picture."""
    try:
        with warnings.catch_warnings():
            # Of more pixels than Pillow likes; we look ourselves.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=[kind]) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise Unacceptable(Fault.BOMB)
                return _redraw(picture, kind)
    except (Unacceptable, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise Unacceptable(Fault.BOMB) from None
    # Pillow raises nearly anything for bytes that were made to break it.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _redraw(picture: Image.Image, kind: str) -> bytes:
    # First of all, as each step below has another copy of it in memory.
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    upright = ImageOps.exif_transpose(picture)
    plain = upright.convert("L" if upright.mode in {"1", "L"} else "RGB")
    # A new picture takes nothing along but what is seen.
    clean = Image.new(plain.mode, plain.size)
    clean.paste(plain)
    written = io.BytesIO()
    options = {"quality": QUALITY} if kind == "JPEG" else {"compress_level": 6}
    clean.save(written, kind, **options)
    return written.getvalue()


MAX_OBJECTS = 50_000
MAX_PAGES = 200
MAX_DEPTH = 60
# What all streams of a document may become, and one of them.
MAX_UNPACKED_BYTES = 400 * 1024 * 1024
MAX_STREAM_BYTES = 120 * 1024 * 1024
# What the table of its objects, and all streams that hold objects, may become: unlike
# others these are opened and kept while we look.
MAX_TABLE_BYTES = 4 * 1024 * 1024
# Each time that a PDF is changed it may get another table.
MAX_TABLES = 64
MAX_OBJECT_STREAM_BYTES = 32 * 1024 * 1024
# How such streams are packed by everybody.
PLAIN_FILTERS: list[list[str]] = [[], ["/FlateDecode"]]
STEP = 1024 * 1024
# What may follow the end of the document.
MAX_TRAILING_BYTES = 2048

ACTIVE_KEYS = {"/JS", "/EF", "/EmbeddedFiles", "/XFA", "/RichMediaContent", "/AA"}
ACTIVE_VALUES = {
    "/JavaScript",
    "/Launch",
    "/SubmitForm",
    "/ImportData",
    "/Rendition",
    "/Movie",
    "/Sound",
    "/GoToE",
    "/GoToR",
    "/RichMedia",
    "/3D",
    "/FileAttachment",
    # A file beside this one, or at an address.
    "/Filespec",
}
# In the dictionary of a stream: its content, or what stands in its place, is another
# file.
EXTERNAL_KEYS = {"/F", "/Ref", "/OPI"}
ACTIVE_PATTERN = re.compile(rb"/(?:JavaScript|Launch|EmbeddedFiles?|RichMedia|XFA)\b")


class LimitedReader(PdfReader):
    """Keeps packed tables open, as any reader here, but not any number of them."""

    tables = 0
    is_bomb = False

    def cache_indirect_object(
        self, generation: int, idnum: int, obj: PdfObject | None
    ) -> PdfObject | None:
        if isinstance(obj, StreamObject) and obj.get("/Type") == "/XRef":
            self.tables += 1
            if self.tables > MAX_TABLES or not _is_small_table(obj):
                # Remembered, as pypdf goes on without what raises.
                self.is_bomb = True
                raise LimitReachedError
        return super().cache_indirect_object(generation, idnum, obj)


def refuse_harmful_pdf(content: bytes) -> None:
    """Raise Unacceptable if the document does more than show something."""
    if b"%%EOF" not in content[-MAX_TRAILING_BYTES:]:
        raise Unacceptable(Fault.DAMAGED)
    if ACTIVE_PATTERN.search(content):
        # Also where our table of its objects leads nowhere: readers make their own.
        raise Unacceptable(Fault.ACTIVE)
    try:
        with apply_configuration(_limit_output(MAX_TABLE_BYTES)):
            reader = LimitedReader(io.BytesIO(content), strict=False)
        with apply_configuration(_limit_output(MAX_OBJECT_STREAM_BYTES)):
            _inspect_pdf(reader)
    except (Unacceptable, MemoryError):
        raise
    except LimitReachedError:
        raise Unacceptable(Fault.BOMB) from None
    # pypdf raises nearly anything for bytes that were made to break it.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _limit_output(size: int) -> Configuration:
    """For what pypdf opens, by whatever it is packed with."""
    return Configuration(
        zlib_maximum_output_length=size,
        lzw_maximum_output_length=size,
        run_length_maximum_output_length=size,
        brotli_maximum_output_length=size,
    )


def _inspect_pdf(reader: LimitedReader) -> None:
    if reader.is_bomb:
        raise Unacceptable(Fault.BOMB)
    if reader.is_encrypted:
        raise Unacceptable(Fault.ENCRYPTED)
    known = sum(len(numbers) for numbers in reader.xref.values())
    if known + len(reader.xref_objStm) > MAX_OBJECTS:
        raise Unacceptable(Fault.BOMB)
    _refuse_packed_bombs(reader)
    if len(reader.pages) > MAX_PAGES:
        raise Unacceptable(Fault.TOO_LONG)
    if not len(reader.pages):
        raise Unacceptable(Fault.DAMAGED)
    opened = 0
    for found in _objects(reader):
        _refuse_active(found)
        if isinstance(found, StreamObject):
            opened += _unpacked_size(found)
            if opened > MAX_UNPACKED_BYTES:
                raise Unacceptable(Fault.BOMB)


def _refuse_packed_bombs(reader: PdfReader) -> None:
    """Streams that hold objects are opened by whoever looks for these."""
    opened = 0
    for number in {packed[0] for packed in reader.xref_objStm.values()}:
        if number in reader.xref_objStm:
            # Within another one, as no stream can be.
            raise Unacceptable(Fault.DAMAGED)
        found = reader.get_object(IndirectObject(number, 0, reader))
        if not isinstance(found, StreamObject) or _filters(found) not in PLAIN_FILTERS:
            raise Unacceptable(Fault.BOMB)
        opened += _unpacked_size(found)
        if opened > MAX_OBJECT_STREAM_BYTES:
            raise Unacceptable(Fault.BOMB)


def _objects(reader: PdfReader) -> Iterator[Any]:
    """Every object of the file, also those that nothing leads to."""
    yield from _walk(reader.trailer)
    numbers = {
        (number, generation)
        for generation, found in reader.xref.items()
        for number in found
    } | {(number, 0) for number in reader.xref_objStm}
    for number, generation in numbers:
        try:
            found = reader.get_object(IndirectObject(number, generation, reader))
        except Exception as e:
            # A free entry, or a wrong one: no reader gets anything from it either.
            # Not so where it is we who stop early.
            if isinstance(e, RecursionError | MemoryError | LimitReachedError):
                raise
            continue
        yield from _walk(found)


def _walk(found: Any, depth: int = 0) -> Iterator[Any]:
    """This and what stands in it; what is only referred to comes by itself."""
    if depth > MAX_DEPTH:
        raise Unacceptable(Fault.DAMAGED)
    yield found
    if isinstance(found, DictionaryObject):
        below: Any = found.values()
    else:
        below = found if isinstance(found, ArrayObject) else ()
    for each in below:
        if isinstance(each, DictionaryObject | ArrayObject):
            yield from _walk(each, depth + 1)


def _refuse_active(found: Any) -> None:
    # The value of a dictionary may be an object of its own.
    words = {str(found)} if isinstance(found, NameObject) else set()
    if isinstance(found, DictionaryObject):
        if ACTIVE_KEYS & found.keys():
            raise Unacceptable(Fault.ACTIVE)
        words = {str(found.get(name)) for name in ("/S", "/Subtype", "/Type")}
        if "/OpenAction" in found:
            _refuse_action(found["/OpenAction"])
        is_elsewhere = found.get("/S") == "/Thread" and "/F" in found
        if is_elsewhere or found.get("/Type") == "/F":
            raise Unacceptable(Fault.ACTIVE)
    if isinstance(found, StreamObject) and EXTERNAL_KEYS & found.keys():
        raise Unacceptable(Fault.ACTIVE)
    if ACTIVE_VALUES & words:
        raise Unacceptable(Fault.ACTIVE)


def _refuse_action(found: Any) -> None:
    """Raise Unacceptable if opening the document does more than show a place in it."""
    if not isinstance(found, DictionaryObject):
        return
    if found.get("/S") != "/GoTo" or "/Next" in found:
        raise Unacceptable(Fault.ACTIVE)


def _unpacked_size(found: StreamObject) -> int:
    """How much a packed stream holds, counted and not kept."""
    names = _filters(found)
    if names.count("/FlateDecode") + names.count("/LZWDecode") > 1:
        # Packed twice, as nobody does who has nothing to hide.
        raise Unacceptable(Fault.BOMB)
    if not names or names[0] != "/FlateDecode":
        return 0
    return _inflated_size(found._data)


def _filters(found: StreamObject) -> list[str]:
    filters = found.get("/Filter", ArrayObject()).get_object()
    each = filters if isinstance(filters, ArrayObject) else [filters]
    return [str(name.get_object()) for name in each]


def _is_small_table(found: StreamObject) -> bool:
    return _filters(found) in PLAIN_FILTERS and _unpacked_size(found) <= MAX_TABLE_BYTES


def _inflated_size(packed: bytes) -> int:
    inflating, size, rest = zlib.decompressobj(), 0, packed
    try:
        while rest and not inflating.eof:
            size += len(inflating.decompress(rest, STEP))
            rest = inflating.unconsumed_tail
            if size > MAX_STREAM_BYTES:
                raise Unacceptable(Fault.BOMB)
    except zlib.error:
        # Damaged at its end, as some scanners write it: readers show what they can.
        return size
    return size
