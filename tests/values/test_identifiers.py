from pathlib import Path

import pytest
from django.conf import settings

from verification.values.identifiers import SHAPES, shape_of


@pytest.mark.parametrize(
    ("member", "country", "number"),
    [
        *[("idNumber", "KE", "7"), ("idNumber", "KE", "312345678")],
        *[("idNumber", "NG", "12345678901"), ("idNumber", "ZA", "8001015009087")],
        *[("idNumber", "UG", "cm90000100ABCD"), ("idNumber", "GH", "GHA-123456789-0")],
        *[("idNumber", "TZ", "19900131-12345-00001-23"), ("idNumber", "AR", "1.234")],
        *[("kraPin", "KE", "a012345678z"), ("kraPin", "UG", "P012345678Z")],
        *[("registrationNumber", "KE", "PVT-AAAGHB")],
        *[("registrationNumber", "KE", n) for n in ["CPR/2010/12345", "C.123456"]],
        ("registrationNumber", "DE", "HRB 12345 B (K\u00f6ln)"),
    ],
)
def test_number_has_the_form_of_its_country(member, country, number):
    assert shape_of(member, country).fits(number)


@pytest.mark.parametrize(
    ("member", "country", "number"),
    [
        *[("idNumber", "KE", n) for n in ["1234567890", "31 234 561", "\u0663\u0661"]],
        *[("idNumber", "NG", "31234561"), ("idNumber", "UG", "90000100")],
        *[("idNumber", "GH", "123456789"), ("idNumber", "TZ", "Wanjiku Kamau")],
        *[("idNumber", "TZ", n) for n in ["1,234,567", "1234567.0", "12\u200b3"]],
        *[("kraPin", "KE", n) for n in ["A12345678Z", "A1234567890", "AB12345678Z"]],
        *[("registrationNumber", "KE", n) for n in ["123,456", "'PVT-1", "12.0", "-"]],
    ],
)
def test_number_has_another_form(member, country, number):
    assert not shape_of(member, country).fits(number)


def test_page_about_reports_lists_every_form():
    page = Path(settings.BASE_DIR, "docs/client/reports.md").read_text()

    for member, shapes in SHAPES.items():
        for country, shape in shapes.items():
            where = country or ("any other" if len(shapes) > 1 else "any")
            assert f"| `{member}` | {where} | {shape.form} |\n" in page
