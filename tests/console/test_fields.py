from django import forms
from django.test import SimpleTestCase

from verification.console.fields import COUNTRIES, LongSelect

CHOICES = [("", "Choose one"), ("CI", "Côte d'Ivoire"), ("<", "<b>&</b>")]


def test_long_select_writes_what_djangos_writes():
    for value in ("CI", "<", None):
        long, short = (
            kind(choices=CHOICES).render("country", value, {"id": "id_1"})
            for kind in (LongSelect, forms.Select)
        )
        SimpleTestCase().assertHTMLEqual(long, short)


def test_countries_are_listed_by_name():
    names = [name for _code, name in COUNTRIES]
    plain = [name for name in names if name.isascii()]
    assert plain == sorted(plain)
    assert names.index("Åland Islands") < names.index("Bahamas")
