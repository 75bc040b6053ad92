"""The inspection of one PDF, within the process of `inspector`.

pypdf reads the file, so no parser in C or C++ meets a stranger's bytes. With pikepdf
this module was half as long, needed twice the memory for a PDF of 49,000 objects, and
had no limit for packed tables and object streams.
"""

import io
import re
import zlib
from collections.abc import Iterator
from typing import Any

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

from verification.files.inspection import Fault, Unacceptable

MAX_OBJECTS = 50_000
MAX_PAGES = 200
MAX_DEPTH = 60
# Unpacked size of all streams of a document, and of one stream.
MAX_UNPACKED_BYTES = 400 * 1024 * 1024
MAX_STREAM_BYTES = 120 * 1024 * 1024
# Unpacked size of the cross-reference table, and of all object streams (below). pypdf
# keeps these in memory during the inspection.
MAX_TABLE_BYTES = 4 * 1024 * 1024
# Each change of a PDF may add a table.
MAX_TABLES = 64
MAX_OBJECT_STREAM_BYTES = 32 * 1024 * 1024
# Filters that writers of PDF use for such streams.
PLAIN_FILTERS: list[list[str]] = [[], ["/FlateDecode"]]
STEP = 1024 * 1024
# Bytes that may follow the end of the document.
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
    # Another file, or a URL.
    "/Filespec",
}
# A link that runs code, or opens a file on this device or in a network
ACTIVE_LINK = re.compile(
    r"\s*(javascript:|vbscript:|file:|smb:|//|\\\\)", re.IGNORECASE
)
# In the dictionary of a stream: the content is in another file.
EXTERNAL_KEYS = {"/F", "/Ref", "/OPI"}
ACTIVE_PATTERN = re.compile(rb"/(?:JavaScript|Launch|EmbeddedFiles?|RichMedia|XFA)\b")


class LimitedReader(PdfReader):
    """A reader that limits number and size of packed cross-reference tables."""

    tables = 0
    is_bomb = False

    def cache_indirect_object(
        self, generation: int, idnum: int, obj: PdfObject | None
    ) -> PdfObject | None:
        if isinstance(obj, StreamObject) and obj.get("/Type") == "/XRef":
            self.tables += 1
            if self.tables > MAX_TABLES or not _is_small_table(obj):
                # Set as well, because pypdf ignores errors here and goes on.
                self.is_bomb = True
                raise LimitReachedError
        return super().cache_indirect_object(generation, idnum, obj)


def refuse_harmful_pdf(content: bytes) -> None:
    """Raise Unacceptable for a PDF that is active, damaged, encrypted or a bomb."""
    if b"%%EOF" not in content[-MAX_TRAILING_BYTES:]:
        raise Unacceptable(Fault.DAMAGED)
    if ACTIVE_PATTERN.search(content):
        # A viewer may find objects that the cross-reference table leaves out.
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
    # pypdf raises many kinds of errors for malicious bytes.
    except Exception:
        raise Unacceptable(Fault.DAMAGED) from None


def _limit_output(size: int) -> Configuration:
    """Return limits for the output of each of pypdf's filters."""
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
    for obj in _objects(reader):
        _refuse_active(obj)
        if isinstance(obj, StreamObject):
            opened += _unpacked_size(obj)
            if opened > MAX_UNPACKED_BYTES:
                raise Unacceptable(Fault.BOMB)


def _refuse_packed_bombs(reader: PdfReader) -> None:
    """Raise Unacceptable if unpacking the object streams needs too much memory."""
    opened = 0
    for number in {packed[0] for packed in reader.xref_objStm.values()}:
        if number in reader.xref_objStm:
            # The standard forbids a stream inside an object stream.
            raise Unacceptable(Fault.DAMAGED)
        obj = reader.get_object(IndirectObject(number, 0, reader))
        if not isinstance(obj, StreamObject) or _filters(obj) not in PLAIN_FILTERS:
            raise Unacceptable(Fault.BOMB)
        opened += _unpacked_size(obj)
        if opened > MAX_OBJECT_STREAM_BYTES:
            raise Unacceptable(Fault.BOMB)


def _objects(reader: PdfReader) -> Iterator[Any]:
    """Yield every object of the file, unreferenced ones included."""
    yield from _walk(reader.trailer)
    numbers = {
        (number, generation)
        for generation, entries in reader.xref.items()
        for number in entries
    } | {(number, 0) for number in reader.xref_objStm}
    for number, generation in numbers:
        try:
            obj = reader.get_object(IndirectObject(number, generation, reader))
        except Exception as e:
            # A free or wrong entry, which no viewer can read. Our own limits, however,
            # have to stop the inspection.
            if isinstance(e, RecursionError | MemoryError | LimitReachedError):
                raise
            continue
        yield from _walk(obj)


def _walk(obj: Any, depth: int = 0) -> Iterator[Any]:
    """Yield an object and the objects inside it, without following references."""
    if depth > MAX_DEPTH:
        raise Unacceptable(Fault.DAMAGED)
    yield obj
    if isinstance(obj, DictionaryObject):
        below: Any = obj.values()
    else:
        below = obj if isinstance(obj, ArrayObject) else ()
    for each in below:
        if isinstance(each, DictionaryObject | ArrayObject):
            yield from _walk(each, depth + 1)


def _refuse_active(obj: Any) -> None:
    # A value of a dictionary may be a separate object.
    words = {str(obj)} if isinstance(obj, NameObject) else set()
    if isinstance(obj, DictionaryObject):
        if ACTIVE_KEYS & obj.keys():
            raise Unacceptable(Fault.ACTIVE)
        words = {str(obj.get(name)) for name in ("/S", "/Subtype", "/Type")}
        if ACTIVE_LINK.match(str(obj["/URI"]) if "/URI" in obj else ""):
            raise Unacceptable(Fault.ACTIVE)
        if "/OpenAction" in obj:
            _refuse_action(obj["/OpenAction"])
        is_elsewhere = obj.get("/S") == "/Thread" and "/F" in obj
        if is_elsewhere or obj.get("/Type") == "/F":
            raise Unacceptable(Fault.ACTIVE)
    if isinstance(obj, StreamObject) and EXTERNAL_KEYS & obj.keys():
        raise Unacceptable(Fault.ACTIVE)
    if ACTIVE_VALUES & words:
        raise Unacceptable(Fault.ACTIVE)


def _refuse_action(obj: Any) -> None:
    """Raise Unacceptable if opening the document does more than show a place in it."""
    if not isinstance(obj, DictionaryObject):
        return
    if obj.get("/S") != "/GoTo" or "/Next" in obj:
        raise Unacceptable(Fault.ACTIVE)


def _unpacked_size(obj: StreamObject) -> int:
    """Return the unpacked size of a stream, in bytes, without keeping its data."""
    names = _filters(obj)
    if names.count("/FlateDecode") + names.count("/LZWDecode") > 1:
        # Honest writers do not compress a stream twice.
        raise Unacceptable(Fault.BOMB)
    if not names or names[0] != "/FlateDecode":
        return 0
    # The public methods of pypdf unpack a stream whole.
    return _inflated_size(obj._data)


def _filters(obj: StreamObject) -> list[str]:
    filters = obj.get("/Filter", ArrayObject()).get_object()
    each = filters if isinstance(filters, ArrayObject) else [filters]
    return [str(name.get_object()) for name in each]


def _is_small_table(obj: StreamObject) -> bool:
    return _filters(obj) in PLAIN_FILTERS and _unpacked_size(obj) <= MAX_TABLE_BYTES


def _inflated_size(packed: bytes) -> int:
    inflating, size, rest = zlib.decompressobj(), 0, packed
    try:
        while rest and not inflating.eof:
            size += len(inflating.decompress(rest, STEP))
            rest = inflating.unconsumed_tail
            if size > MAX_STREAM_BYTES:
                raise Unacceptable(Fault.BOMB)
    except zlib.error:
        # Some scanners write a damaged end, and viewers show the rest.
        return size
    return size
