"""Files as members make them, and as attackers do."""

import csv
import io
import zipfile
from collections.abc import Iterable
from typing import Any

from openpyxl import Workbook

TYPES, SHEET = "[Content_Types].xml", "xl/worksheets/sheet1.xml"


def csv_file(*rows: Iterable[str], separator: str = ",", encoding: str = "utf-8"):
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator).writerows(rows)
    return file.getvalue().encode(encoding)


def xlsx_file(*rows: Iterable[Any], formats: dict[str, str] | None = None) -> bytes:
    """Return a workbook; `formats` are number formats by the name of a cell."""
    workbook = Workbook()
    sheet = workbook.active
    for row in rows:
        sheet.append(list(row))
    for cell, number_format in (formats or {}).items():
        sheet[cell].number_format = number_format
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


def repack(content: bytes, parts: dict[str, bytes]) -> bytes:
    """Return the workbook with these parts added or replaced, by their path."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            if name not in parts:
                new.writestr(name, old.read(name))
        for name, part in parts.items():
            new.writestr(name, part)
    return file.getvalue()


def part_of(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        return parts.read(name)
