import gc
import html
import io
import resource
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from PIL import Image
from pypdf import PdfReader

from tests.files import samples as files
from tests.files.samples import pdf, picture
from tests.golive.applications import COMPANY
from verification.batches.spreadsheet import WORKBOOKS
from verification.console import golive
from verification.files import inspection, pdf_inspector
from verification.files.inspection import (
    DOCUMENTS,
    MAX_BYTES,
    NEWCOMERS,
    Busy,
    Fault,
    Unacceptable,
    inspect,
)
from verification.files.pdf_inspector import refuse_harmful_pdf
from verification.files.uploads import FAULT_MESSAGES

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
ZIP = b"PK\x03\x04" + b"\0" * 200


def fault(name: str, declared: str, content: bytes) -> str:
    with pytest.raises(Unacceptable) as refused:
        inspect(name, declared, content)
    return refused.value.fault


def fault_of_pdf(content: bytes) -> str:
    """Return the fault of a PDF, found without the process that inspects files.

    That takes a quarter of a second to start.
    """
    with pytest.raises(Unacceptable) as refused:
        refuse_harmful_pdf(content)
    return refused.value.fault


@pytest.mark.parametrize(
    ("name", "declared", "content"),
    [
        ("CR12.PDF", "application/octet-stream", pdf()),
        ("id.jpeg", "image/jpeg", picture()),
        ("id.jpg", "", picture("JPEG", mode="L")),
        ("id.png", "image/png", picture("PNG", mode="P")),
        ("id.png", "image/png; charset=binary", picture("PNG", mode="RGBA")),
        ("scan.png", "image/png", picture("PNG", mode="1")),
    ],
)
def test_valid_documents_are_accepted(name, declared, content):
    found = inspect(name, declared, content)

    assert found.content_type in {"application/pdf", "image/jpeg", "image/png"}
    assert found.content


def test_pdf_is_stored_unchanged():
    signed = files.pdf_with_text("Certificate of incorporation")

    assert inspect("c.pdf", "application/pdf", signed).content == signed
    assert len(PdfReader(io.BytesIO(signed)).pages) == 1


@pytest.mark.parametrize(
    ("name", "declared", "content", "why"),
    [
        ("cr12.pdf", "application/pdf", b"", Fault.EMPTY),
        ("cr12.pdf", "application/pdf", pdf() + b"\0" * MAX_BYTES, Fault.TOO_LARGE),
        ("logo.svg", "image/svg+xml", SVG, Fault.UNKNOWN),
        ("logo.png", "image/png", SVG, Fault.UNKNOWN),
        ("page.pdf", "application/pdf", b"<html><script>", Fault.UNKNOWN),
        ("all.zip", "application/zip", ZIP, Fault.UNKNOWN),
        ("cr12.pdf", "application/pdf", ZIP, Fault.UNKNOWN),
        ("id.gif", "image/gif", picture("GIF"), Fault.UNKNOWN),
        ("id.png", "image/png", picture("JPEG"), Fault.LIES),
        ("cr12.pdf", "application/pdf", picture("JPEG"), Fault.LIES),
        ("id.jpg", "image/jpeg", pdf(), Fault.LIES),
        ("id.jpg", "image/png", picture("JPEG"), Fault.LIES),
        ("run.exe", "application/pdf", pdf(), Fault.LIES),
        ("noname", "application/pdf", pdf(), Fault.LIES),
        ("id.jpg", "image/jpeg", picture("JPEG")[:200], Fault.DAMAGED),
        ("id.png", "image/png", picture("PNG")[:40], Fault.DAMAGED),
        ("a.pdf", "application/pdf", files.pdf_with("/JavaScript"), Fault.ACTIVE),
    ],
)
def test_wrong_type_or_content_is_refused(name, declared, content, why):
    assert fault(name, declared, content) == why


@pytest.mark.parametrize(
    "content", [b"%PDF-1.7 nothing", b"%PDF-1.7\n%%EOF", pdf() + ZIP * 20]
)
def test_damaged_pdf_is_refused(content):
    assert fault_of_pdf(content) == Fault.DAMAGED


@pytest.mark.parametrize(
    "content",
    [
        files.pdf_with("/JavaScript", JS="app.alert(1)"),
        files.pdf_with("/URI", JS="app.alert(1)"),
        files.pdf_with_a_script_by_another_name(),
        files.pdf_with("/Launch", F="calc.exe"),
        files.pdf_with("/SubmitForm", F="https://elsewhere.test/"),
        files.pdf_with("/GoToR", F="//elsewhere.test/share"),
        files.pdf_with("/URI", URI="//elsewhere.test/share"),
        files.pdf_with("/URI", URI=r"\\elsewhere.test\share"),
        files.pdf_with("/URI", URI=" File://elsewhere.test/share"),
        files.pdf_with("/URI", URI="javascript:app.alert(1)"),
        files.pdf_with("/URI", XFA="<xdp>"),
        files.pdf_that_carries_a_file(),
        files.pdf().replace(b"startxref", b"/JavaScript\nstartxref"),
    ],
)
def test_active_pdf_is_refused(content):
    assert fault_of_pdf(content) == Fault.ACTIVE


@pytest.mark.parametrize(
    "content",
    [
        files.pdf_that_opens_with("<</S/URI/URI(https://elsewhere.test/)>>"),
        files.pdf_that_opens_with("<</S/Named/N/Print>>"),
        files.pdf_that_opens_with("<</S/GoTo/D[3 0 R/Fit]/Next<</S/URI/URI(x)>>>>"),
        files.pdf_with_object("<</F(//elsewhere.test/a)/Length 0>>stream\n\nendstream"),
        files.pdf_with_object("<</Ref<</F(a.pdf)>>/Length 0>>stream\n\nendstream"),
        files.pdf_with_object("<</Type/Filespec/FS/URL/F(https://elsewhere.test)>>"),
        files.pdf_with_object("<</Type/F/F(//elsewhere.test/a)>>"),
        files.pdf_with_object("<</S/Thread/D 0/F(//elsewhere.test/a.pdf)>>"),
        # The value of another object's /S.
        files.pdf_with_object("/SubmitForm"),
    ],
)
def test_actions_on_opening_and_external_files_are_refused(content):
    assert fault_of_pdf(content) == Fault.ACTIVE


@pytest.mark.parametrize(
    "content",
    [
        files.pdf_that_opens_with("[3 0 R/XYZ null null 0]"),
        files.pdf_that_opens_with("<</S/GoTo/D[3 0 R/Fit]>>"),
        # The flags of an annotation, and a thread of articles.
        files.pdf_with_object("<</Subtype/Link/F 4/A<</S/URI/URI(https://a.test)>>>>"),
        files.pdf_with_object("<</Type/Thread/F 3 0 R>>"),
    ],
)
def test_pdf_that_opens_at_a_place_is_accepted(content):
    refuse_harmful_pdf(content)


def test_pdf_with_links_is_accepted():
    for word in ("/URI", "/GoTo"):
        refuse_harmful_pdf(files.pdf_with(word))
    for link in ("https://a.test/file:x", "mailto:a@a.test", "a.test", "tel:+254"):
        refuse_harmful_pdf(files.pdf_with("/URI", URI=link))


def test_bomb_is_refused():
    bomb = files.huge_picture()
    assert len(bomb) < 10_000
    assert fault("id.png", "image/png", bomb) == Fault.BOMB
    for times in (1, 2):
        bomb = files.pdf_bomb(times)
        assert len(bomb) < 1_000_000
        assert fault_of_pdf(bomb) == Fault.BOMB


def test_object_streams_are_accepted_up_to_the_limit():
    few = files.pdf_with_packed_objects(4, 1000)
    refuse_harmful_pdf(few)
    for many in (
        files.pdf_with_packed_objects(4, 9 * 1024 * 1024),
        files.pdf_with_packed_objects(1, 1000, "[/ASCII85Decode/FlateDecode]"),
    ):
        assert len(many) < 100_000
        assert fault_of_pdf(many) == Fault.BOMB


def test_too_long_pdf_is_refused():
    script = files.pdf_with_a_script_beside_a_long_list()
    assert fault_of_pdf(script) == Fault.BOMB


def test_pdf_of_too_many_objects_is_refused(monkeypatch):
    monkeypatch.setattr(pdf_inspector, "MAX_OBJECTS", 3)

    assert fault_of_pdf(pdf()) == Fault.BOMB


def test_packed_tables_are_accepted_up_to_the_limit():
    changed_often = files.pdf_with_tables(20, 1000)
    refuse_harmful_pdf(changed_often)
    for many in (files.pdf_with_tables(65, 0), files.pdf_with_tables(2, 5_000_000)):
        assert len(many) < 100_000
        assert fault_of_pdf(many) == Fault.BOMB


def test_encrypted_and_truncated_pdfs_are_refused():
    locked = files.pdf_with_password()
    assert fault_of_pdf(locked) == Fault.ENCRYPTED
    long = files.pdf_with_pages(201)
    assert fault_of_pdf(long) == Fault.TOO_LONG


def test_photo_loses_its_metadata():
    sent = files.photo_with_place()
    assert b"Acacia Phones" in sent
    assert b"Taken at home" in sent

    kept = inspect("id.jpg", "image/jpeg", sent).content

    with Image.open(io.BytesIO(kept)) as picture:
        assert not picture.getexif()
        # It was turned as the camera said: the hint is gone.
        assert picture.size == (40, 60)
        assert "comment" not in picture.info
    assert b"Acacia Phones" not in kept
    assert b"Taken at home" not in kept


def test_picture_loses_hidden_data():
    kept = inspect("id.png", "image/png", files.png_with_words()).content

    assert b"Taken at home" not in kept
    assert b"PK\x03\x04" not in kept


@pytest.mark.parametrize(
    ("mode", "paper", "ink", "grey"),
    [
        ("RGBA", (0, 0, 0, 0), (40, 40, 40, 255), (255, 40)),
        ("LA", (0, 0), (40, 255), (255, 40)),
        ("I;16", 200 * 256, 40 * 256, (200, 40)),
    ],
)
def test_print_on_transparent_or_deep_grey_paper_stays_readable(mode, paper, ink, grey):
    scan, written = Image.new(mode, (20, 20), paper), io.BytesIO()
    scan.putpixel((5, 5), ink)
    scan.save(written, "PNG")

    kept = inspect("scan.png", "image/png", written.getvalue()).content

    with Image.open(io.BytesIO(kept)) as picture:
        shades = picture.convert("L")
        assert (shades.getpixel((0, 0)), shades.getpixel((5, 5))) == grey


def test_large_scan_is_reduced():
    kept = inspect("a.png", "image/png", picture("PNG", (6000, 30))).content

    with Image.open(io.BytesIO(kept)) as scan:
        assert scan.size == (4000, 20)


def test_machine_inspects_one_file_at_a_time(monkeypatch):
    sent = ("a.pdf", "application/pdf", files.pdf())
    # A busy machine takes seconds for the first of two files.
    monkeypatch.setattr(inspection, "WAIT_SECONDS", 60)
    with ThreadPoolExecutor(2) as another:
        with DOCUMENTS.machine_lock():
            waiting, next_one = (another.submit(inspect, *sent) for _ in "12")
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            # Two threads are busy. A file of a wrong type needs no thread.
            with pytest.raises(Busy):
                inspect(*sent)
            assert fault("a.txt", "text/plain", files.pdf()) == Fault.LIES
        assert waiting.result(60).content
        assert next_one.result(60).content
        with DOCUMENTS.machine_lock():
            monkeypatch.setattr(inspection, "WAIT_SECONDS", 0.1)
            with pytest.raises(Busy):
                another.submit(inspect, *sent).result()


def test_workbook_delays_no_document(monkeypatch):
    with WORKBOOKS.machine_lock():
        assert inspect("a.pdf", "application/pdf", files.pdf()).content
        monkeypatch.setattr(inspection, "WAIT_SECONDS", 0)
        with pytest.raises(Busy):
            WORKBOOKS.run("xlsx", b"")


def test_newcomer_delays_no_client(monkeypatch):
    sent = ("a.pdf", "application/pdf", files.pdf())
    with NEWCOMERS.machine_lock():
        assert inspect(*sent).content
        monkeypatch.setattr(inspection, "WAIT_SECONDS", 0)
        with pytest.raises(Busy):
            inspect(*sent, is_live=False)


def test_slow_inspection_raises_busy(monkeypatch):
    monkeypatch.setattr(inspection, "WALL_SECONDS", 0.01)

    with pytest.raises(Busy):
        inspect("a.pdf", "application/pdf", files.pdf())


@pytest.mark.slow
def test_large_documents_need_less_than_the_limits():
    scan = picture("PNG", (6300, 6300), "RGBA", compress_level=1)

    assert inspect("a.png", "image/png", scan).content
    assert inspect("a.pdf", "application/pdf", files.pdf_with_pages(200)).content


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hostile_files_do_not_grow_the_web_process(owner, monkeypatch):
    monkeypatch.setattr(golive, "DOCUMENTS_PER_MINUTE", 100_000)
    # On a busy machine the processor seconds take longer than the usual limit.
    monkeypatch.setattr(inspection, "WALL_SECONDS", 120)
    owner.post("golive-company", COMPANY)
    heavy = files.pdf_of_many_objects(b"<</A" + b"<<>>/A" * 18 + b" 0>>")
    light = [
        files.huge_picture(),
        picture("PNG", (1000, 1000))[:-30],
        files.huge_picture(),
        files.pdf_with_tables(2, 5_000_000),
        files.pdf_with_packed_objects(4, 9 * 1024 * 1024),
        files.pdf_that_opens_with("<</S/Named/N/Print>>"),
    ]
    send(owner, heavy[:2_000_000] + b"%%EOF")
    before = rss_after_collecting()
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert str(FAULT_MESSAGES[Fault.BOMB]) in send(owner, heavy)

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime
    assert cpu < inspection.CPU_SECONDS + 2
    # The largest child of all may be one of an earlier test.
    largest = 0 if used.ru_maxrss == begun.ru_maxrss else used.ru_maxrss * 1024
    assert largest < inspection.MEMORY_BYTES
    for number in range(6 * len(light)):
        assert "<title>Error:" in send(owner, light[number % len(light)])
    assert rss_after_collecting() < before + 20 * 1024 * 1024


def send(owner, content: bytes) -> str:
    name = "a.png" if content.startswith(b"\x89") else "a.pdf"
    file = files.sent(content, name, "application/octet-stream")
    return html.unescape(
        owner.post("golive-hand-in", file, kind="cr12").content.decode()
    )


def rss_after_collecting() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss
