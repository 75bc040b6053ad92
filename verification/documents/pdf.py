"""Render PDF/UA documents from typst templates; equal data gives equal bytes anywhere.

The template reads the data as JSON from `sys.inputs.data`, with `date` in it. The fonts
in `templates/pdf/fonts` cover the scripts in which names are written.
"""

from datetime import datetime
from functools import cache
from typing import Any, Literal

import orjson
import typst
from django.conf import settings

from verification.values.local_time import NAIROBI

FOLDER = settings.TEMPLATES_DIR / "pdf"


def render_document(
    template: str, at: datetime, data: dict[str, Any], **inputs: str
) -> bytes:
    """Render the template; `at` is the document's date, `inputs` are further inputs."""
    day = at.astimezone(NAIROBI)
    date = {"year": day.year, "month": day.month, "day": day.day}
    inputs = {"data": orjson.dumps({**data, "date": date}).decode(), **inputs}
    try:
        return _compile(template, at, inputs, "ua-1")
    except typst.TypstError:
        # Our fonts lack a character. PDF/UA forbids the empty box in its place, and a
        # document with a box is better than none.
        return _compile(template, at, inputs, "1.7")


@cache
def _fonts() -> typst.Fonts:
    """Load our fonts, without those of the system, which differ between machines.

    typst reads a font's file when a document first needs it.
    """
    return typst.Fonts(include_system_fonts=False, font_paths=[FOLDER / "fonts"])


def _compile(
    template: str,
    at: datetime,
    inputs: dict[str, str],
    standard: Literal["ua-1", "1.7"],
) -> bytes:
    # Each call has its own compiler, as threads cannot share one.
    document = typst.compile(
        FOLDER / template,
        root=FOLDER,
        font_paths=_fonts(),
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=standard,
        timestamp=int(at.timestamp()),
    )
    if not isinstance(document, bytes):
        raise TypeError(f"{template} did not become one document")
    return document
