"""PDF/UA documents from typst templates: the same data gives the same bytes, anywhere.

The data comes to the template as JSON, in `sys.inputs.data`. Names of people are drawn
in any script: `templates/pdf/fonts` says which fonts there are.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson
import typst
from django.conf import settings

FOLDER = Path(settings.BASE_DIR) / "templates" / "pdf"


def render_document(
    template: str, at: datetime, data: dict[str, Any], **also: str
) -> bytes:
    """`at` is when the document says that it was made; `also` are further inputs."""
    inputs = {"data": orjson.dumps(data).decode(), **also}
    try:
        return _compile(template, at, inputs, "ua-1")
    except typst.TypstError:
        # A character that our fonts lack: the standard forbids the empty box that
        # stands for it, and a document with a box is better than none.
        return _compile(template, at, inputs, "1.7")


@cache
def _fonts() -> typst.Fonts:
    """Without those of the system, which are different on every machine.

    A font's file is read when a document first needs it.
    """
    return typst.Fonts(include_system_fonts=False, font_paths=[FOLDER / "fonts"])


def _compile(
    template: str,
    at: datetime,
    inputs: dict[str, str],
    standard: Literal["ua-1", "1.7"],
) -> bytes:
    # One compiler each: threads cannot share one.
    made = typst.compile(
        FOLDER / template,
        root=FOLDER,
        font_paths=_fonts(),
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=standard,
        timestamp=int(at.timestamp()),
    )
    if not isinstance(made, bytes):
        raise TypeError(f"{template} did not become one document")
    return made
