import re

from django import forms
from django.template import Context, Template
from django.test import SimpleTestCase
from django.utils.translation import override

from verification.console.fields import LongSelect, countries
from verification.values.countries import country_choices

CHOICES = [("", "Choose one"), ("CI", "Côte d'Ivoire"), ("<", "<b>&</b>")]


def test_long_select_writes_what_djangos_writes():
    for value in ("CI", "<", None):
        long, short = (
            kind(choices=CHOICES).render("country", value, {"id": "id_1"})
            for kind in (LongSelect, forms.Select)
        )
        SimpleTestCase().assertHTMLEqual(long, short)


def test_countries_are_listed_by_their_names_in_the_readers_language():
    for language, germany in (("en", "Germany"), ("sw", "Ujerumani")):
        with override(language):
            listed = countries()
        plain = [name for _code, name in listed if name.isascii()]
        assert plain == sorted(plain)
        assert ("DE", germany) in listed
    names = [name for _code, name in country_choices("en")]
    assert names.index("Åland Islands") < names.index("Bahamas")


class AllKinds(forms.Form):
    name = forms.CharField()
    agreed = forms.BooleanField(help_text="In writing")
    decision = forms.ChoiceField(widget=forms.RadioSelect)


def test_errors_describe_fields_of_all_kinds():
    template = "{% load console %}{% for field in form %}{% field field %}{% endfor %}"
    html = Template(template).render(Context({"form": AllKinds({})}))

    described = " ".join(re.findall('aria-describedby="(.*?)"', html)).split()
    assert set(described) == set(re.findall(r'id="(\w+_(?:error|helptext))"', html))
    assert {f"id_{name}_error" for name in AllKinds.base_fields} < set(described)
