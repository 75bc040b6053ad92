"""Files for uploads: honest, damaged and hostile ones."""

import io
import struct
import zlib
from functools import cache

from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    StreamObject,
    TextStringObject,
)


def pdf(change=None) -> bytes:
    writer = PdfWriter()
    writer.add_blank_page(595, 842)
    if change:
        change(writer)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def picture(kind="JPEG", size=(60, 40), mode="RGB", **options) -> bytes:
    written = io.BytesIO()
    Image.new(mode, size, None if mode == "RGB" else 1).save(written, kind, **options)
    return written.getvalue()


def sent(content: bytes, name="cr12.pdf", declared="application/pdf"):
    """Return the file as a form sends it."""
    return {"file": SimpleUploadedFile(name, content, declared)}


def photo_with_place() -> bytes:
    """Return a JPEG of a phone, with location, device and orientation."""
    exif = Image.Exif()
    exif[0x010F] = "Acacia Phones"
    exif[0x0112] = 6
    exif[0x8825] = {1: "S", 2: (1.0, 17.0, 11.0), 3: "E", 4: (36.0, 49.0, 2.0)}
    return picture(exif=exif, comment=b"Taken at home")


def png_with_words() -> bytes:
    """Return a PNG with a text chunk, and an archive after the picture."""
    plain = picture("PNG")
    note = b"Comment\0Taken at home"
    chunk = b"tEXt" + note
    chunk = struct.pack(">I", len(note)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return plain[:33] + chunk + plain[33:] + b"PK\x03\x04 an archive"


def huge_picture() -> bytes:
    """Return a PNG of a few kilobytes with 30,000 by 30,000 pixels."""
    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * 100_000)
    chunks = [(b"IHDR", head), (b"IDAT", packed), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + name
        + data
        + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def pdf_with(member: str, **more: str) -> bytes:
    """Return a PDF with an unreferenced dictionary, such as {/S /JavaScript}."""

    def change(writer):
        words = {NameObject("/S"): NameObject(member)}
        words |= {NameObject(f"/{n}"): TextStringObject(v) for n, v in more.items()}
        writer._add_object(DictionaryObject(words))

    return pdf(change)


def pdf_with_object(written: str) -> bytes:
    """Return a PDF with an unreferenced object of this source text."""
    mark = b"(XXXX)"
    found = pdf(lambda writer: writer._add_object(TextStringObject("XXXX")))
    assert found.count(mark) == 1
    return found.replace(mark, written.encode())


def pdf_that_opens_with(action: str) -> bytes:
    found = pdf()
    assert found.count(b"/Catalog") == 1
    return found.replace(b"/Catalog", f"/Catalog /OpenAction {action}".encode())


def pdf_of_many_objects(body: bytes = b"[" + b"0 " * 60 + b"]") -> bytes:
    """Return a PDF of a few megabytes that needs half a minute to read."""
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        *[body] * 49_000,
    ]
    written, at = bytearray(b"%PDF-1.4\n"), []
    for n, each in enumerate(bodies, 1):
        at.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (n, each)
    rows = b"".join(b"%010d 00000 n \n" % each for each in at)
    size = len(bodies) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, rows)
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return bytes(written) + table + end % (size, len(written))


def pdf_that_carries_a_file() -> bytes:
    return pdf(lambda writer: writer.add_attachment("run.exe", b"MZ"))


def pdf_with_a_script_by_another_name() -> bytes:
    """Return a PDF with the escaped name /J#61vaScript, which is /JavaScript."""
    return pdf_with("/JavaXXript").replace(b"/JavaXXript", b"/J#61vaScript")


def pdf_with_a_script_beside_a_long_list() -> bytes:
    """Return a PDF that hides a script in a list too long to inspect."""

    def change(writer):
        words = {NameObject("/JS"): TextStringObject("app.alert(1)")}
        words[NameObject("/X")] = ArrayObject([NumberObject(0)] * 100_001)
        writer._add_object(DictionaryObject(words))

    return pdf(change)


# A little more than a stream may unpack to
PACKED_ZEROS = cache(lambda: zlib.compress(b"\0" * 130_000_000, 9))


def pdf_bomb(times: int = 1) -> bytes:
    """Return a PDF with a stream of 130 MB, compressed `times` times."""
    packed = PACKED_ZEROS()
    for _ in range(times - 1):
        packed = zlib.compress(packed, 9)

    def change(writer):
        stream = StreamObject()
        stream._data = packed
        names = ["/FlateDecode"] * times
        stream[NameObject("/Filter")] = (
            NameObject(names[0])
            if times == 1
            else ArrayObject([NameObject(name) for name in names])
        )
        writer._add_object(stream)

    return pdf(change)


def pdf_with_packed_objects(streams: int, size: int, filters="/FlateDecode") -> bytes:
    """Return a PDF with object streams that unpack to `size` bytes each."""
    bodies = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
    }
    first, table = 4 + streams, 4 + 2 * streams
    rows = [(0, 0, 0)]
    for n in range(4, first):
        # The objects come before what holds them.
        head = b"%d 0 " % n
        packed = zlib.compress(head + b"null" + b" " * size, 9)
        told = f"/Type/ObjStm/N 1/First {len(head)}/Filter{filters}"
        bodies[n + streams] = (
            f"<<{told}/Length {len(packed)}>>stream\n".encode()
            + packed
            + b"\nendstream"
        )
    written, at = b"%PDF-1.5\n", {}
    for n in sorted(bodies):
        at[n] = len(written)
        written += b"%d 0 obj\n" % n + bodies[n] + b"\nendobj\n"
    at[table] = len(written)
    rows += [(1, at[n], 0) if n in at else (2, n + streams, 0) for n in range(1, table)]
    rows.append((1, at[table], 0))
    data = b"".join(struct.pack(">BIH", *row) for row in rows)
    told = f"/Type/XRef/Size {table + 1}/W[1 4 2]/Root 1 0 R/Length {len(data)}"
    written += f"{table} 0 obj\n<<{told}>>stream\n".encode() + data
    return written + f"\nendstream\nendobj\nstartxref\n{at[table]}\n%%EOF\n".encode()


def pdf_with_tables(count: int, size: int) -> bytes:
    """Return a PDF with a chain of tables; the oldest unpacks to `size` bytes."""
    written, at = b"%PDF-1.5\n", []
    for n, body in enumerate(
        (
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        ),
        1,
    ):
        at.append(len(written))
        written += b"%d 0 obj\n" % n + body + b"\nendobj\n"
    rows = b"".join(struct.pack(">BIH", 1, each, 0) for each in at)
    before = ""
    for n in range(4, 4 + count):
        start = len(written)
        packed = zlib.compress(rows + b"\0" * (size if n == 4 else 0), 9)
        told = f"/Type/XRef/Size 4/Index[1 3]/W[1 4 2]/Root 1 0 R{before}"
        told += f"/Filter/FlateDecode/Length {len(packed)}"
        written += f"{n} 0 obj\n<<{told}>>stream\n".encode() + packed
        written += b"\nendstream\nendobj\n"
        before = f"/Prev {start}"
    return written + f"startxref\n{start}\n%%EOF\n".encode()


def pdf_with_password() -> bytes:
    return pdf(lambda writer: writer.encrypt("secret", algorithm="RC4-128"))


def pdf_with_pages(count: int) -> bytes:
    return pdf(lambda w: [w.add_blank_page(10, 10) for _ in range(count - 1)])


def pdf_with_text(text: str) -> bytes:
    def change(writer):
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 24 Tf 72 760 Td ({text}) Tj ET".encode())
        page = writer.pages[0]
        page[NameObject("/Contents")] = writer._add_object(stream)
        face = {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
        fonts = DictionaryObject({NameObject("/F1"): DictionaryObject(face)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})

    return pdf(change)
