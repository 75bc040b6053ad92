"""PDF/UA documents from typst templates: the same data gives the same bytes, anywhere.

The data comes to the template as JSON, in `sys.inputs.data`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import orjson
import typst
from django.conf import settings

FOLDER = Path(settings.BASE_DIR) / "templates" / "pdf"


def document(template: str, at: datetime, data: dict[str, Any], **also: str) -> bytes:
    """`at` is when the document says that it was made; `also` are further inputs."""
    inputs = {"data": orjson.dumps(data).decode(), **also}
    try:
        return _compiled(template, at, inputs, "ua-1")
    except typst.TypstError:
        # A name in letters that our fonts lack: the standard forbids the empty boxes
        # that stand for them, and a document with boxes is better than none.
        return _compiled(template, at, inputs, "1.7")


def _compiled(
    template: str,
    at: datetime,
    inputs: dict[str, str],
    standard: Literal["ua-1", "1.7"],
) -> bytes:
    # One compiler each: threads cannot share one.
    made = typst.compile(
        FOLDER / template,
        root=FOLDER,
        # Those of the system are different on every machine.
        ignore_system_fonts=True,
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=standard,
        timestamp=int(at.timestamp()),
    )
    if not isinstance(made, bytes):
        raise TypeError(f"{template} did not become one document")
    return made
