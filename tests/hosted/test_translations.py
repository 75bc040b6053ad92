import re
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from django.conf import settings
from django.utils.translation import override
from django.utils.translation.template import templatize

from verification.checks import finding_words
from verification.checks.catalogue import CATALOGUE as CHECK_CATALOGUE
from verification.hosted.forms import (
    CompanyGrantForm,
    DateOfBirthForm,
    GrantForm,
    IdNumberEndForm,
    ReasonForm,
    RegistrationNumberForm,
)
from verification.hosted.reference import AnswersForm

HOSTED = Path(settings.BASE_DIR, "verification/hosted")
CATALOGUE = HOSTED / "locale/sw/LC_MESSAGES/django.po"
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates/hosted").rglob("*.html"))
SHARED = [
    Path(settings.BASE_DIR, f"templates/{name}.html") for name in ("400", "403_csrf")
]
# Texts in Django's extract of a template, and texts in Python code.
IN_TEMPLATES = re.compile(
    r"(?:gettext|\b_)\(u?(['\"])(.+?)\1(?:, *u?(['\"])(.+?)\3)?[,)]"
)
SKIPPED = re.compile(
    r"{% blocktranslate.*?endblocktranslate %}|{% comment %}.*?{% endcomment %}",
    re.DOTALL,
)
IN_CODE = re.compile(r'\b(?:_|gettext_lazy)\(\s*"([^"]+)"')


def messages(catalogue: Catalog) -> dict[object, object]:
    return {
        key: list(message.string) if message.pluralizable else message.string
        for message in catalogue
        if message.id
        for key in [tuple(message.id) if message.pluralizable else message.id]
    }


def translations() -> dict[object, object]:
    with CATALOGUE.open("rb") as file:
        return messages(read_po(file))


def marked() -> set[object]:
    texts: set[object] = set()
    for template in [*TEMPLATES, *SHARED]:
        for _, text, _, plural in IN_TEMPLATES.findall(
            templatize(template.read_text())
        ):
            texts.add((text, plural) if plural else text)
    for module in [*HOSTED.glob("*.py"), Path(finding_words.__file__)]:
        texts |= set(IN_CODE.findall(module.read_text()))
    return texts


def test_catalogue_has_every_text_of_the_pages_and_no_other():
    assert set(translations()) == marked()
    assert {key for key, text in translations().items() if not text} == set()


def test_catalogue_has_the_name_of_every_check():
    names = {definition.display_name for definition in CHECK_CATALOGUE}

    assert names - set(translations()) == set()


def test_no_page_has_words_outside_the_catalogue():
    # The languages name themselves.
    same = {"English", "Kiswahili", "doctype", "html"}
    for template in TEMPLATES:
        html = SKIPPED.sub("", template.read_text())
        text = re.sub(r"{%.*?%}|{{.*?}}|<[^>]*>", " ", html)

        assert set(re.findall(r"[A-Za-z]{2,}", text)) <= same, template


def test_every_error_of_a_form_is_in_the_language_of_the_page():
    ours = {text for text in translations().values() if isinstance(text, str)}
    forms = [
        DateOfBirthForm,
        IdNumberEndForm,
        RegistrationNumberForm,
        GrantForm,
        CompanyGrantForm,
        ReasonForm,
        AnswersForm,
    ]
    for form in forms:
        for typed in ("", "\0", "x", "x" * 5000, "9" * 5000):
            with override("sw"):
                filled = form(dict.fromkeys(form.base_fields, typed))
                told = {str(one) for errors in filled.errors.values() for one in errors}

            assert told <= ours, (form, typed)
