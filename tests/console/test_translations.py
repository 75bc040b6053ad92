"""Every text of the console and the account pages has a Kiswahili translation."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo
from django.conf import settings
from django.utils.translation.template import templatize

from tests.hosted.test_translations import IN_TEMPLATES, messages, read_po

CATALOGUE = Path(
    settings.BASE_DIR, "verification/console/locale/sw/LC_MESSAGES/django.po"
)
FOLDERS = [
    Path(settings.BASE_DIR, "templates", name) for name in ("console", "account", "mfa")
]
TEMPLATES = [
    Path(settings.BASE_DIR, "templates/429.html"),
    *(
        path
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.html"))
        # A page for developers
        if path.name != "styles.html"
    ),
]
MODULES = [
    *(
        Path(settings.BASE_DIR, "verification", f"{name}.py")
        for name in (
            "checks/packages",
            "decisions/notices",
            "decisions/policies",
            "privacy/corrections",
            "privacy/models",
            "reports/models",
            "web/pages",
        )
    ),
    *(
        path
        for app in ("console", "console/templatetags", "accounts", "files")
        for path in Path(settings.BASE_DIR, "verification", app).glob("*.py")
    ),
]
IN_CODE = re.compile(
    r'\b(?:(?:_|gettext_lazy)\(|pgettext_lazy\(\s*"[^"]+",)\s*"([^"]+)"'
)
PLURALS_IN_CODE = re.compile(r'\bngettext(?:_lazy)?\(\s*"([^"]+)",\s*"([^"]+)"')
# Words of the API, which are the same in every language, and what languages and
# formats are called.
SAME = {
    "English",
    "Kiswahili",
    "doctype",
    "html",
    "nbsp",
    "EAT",
    "CSV",
    "PDF",
    "ms",
    "Ctrl",
}
SKIPPED = re.compile(
    r"<pre.*?</pre>|<script.*?</script>|{% comment %}.*?{% endcomment %}"
    r'|<meta name="htmx.*?>',
    re.DOTALL,
)


def translations() -> dict[object, object]:
    with CATALOGUE.open("rb") as file:
        return messages(read_po(file))


def by_context(catalogue: Catalog) -> dict[str, dict[object, object]]:
    """Return the texts of each context: the same English may mean two things."""
    found = defaultdict(list)
    for message in catalogue:
        context = message.context or ""
        # Compiled catalogues have contexts as bytes.
        found[context if isinstance(context, str) else context.decode()].append(message)
    return {context: messages(texts) for context, texts in found.items()}


def marked() -> set[object]:
    texts: set[object] = set()
    for template in TEMPLATES:
        found = IN_TEMPLATES.findall(templatize(template.read_text()))
        for _, text, _, plural in found:
            texts.add((text, plural) if plural else text)
    for module in MODULES:
        code = module.read_text()
        texts |= {*IN_CODE.findall(code), *PLURALS_IN_CODE.findall(code)}
    return texts


@pytest.mark.parametrize("app", ["api", "console", "hosted"])
def test_compiled_catalogue_is_current(app: str):
    folder = f"verification/{app}/locale"
    catalogue = Path(settings.BASE_DIR, folder, "sw/LC_MESSAGES/django.po")
    with catalogue.with_suffix(".mo").open("rb") as file:
        compiled = by_context(read_mo(file))
    with catalogue.open("rb") as file:
        written = by_context(read_po(file))

    assert compiled == written, f"Compile with `pybabel compile -d {folder} -D django`."


def test_catalogue_has_every_text_and_no_other():
    assert set(translations()) == marked()
    with CATALOGUE.open("rb") as file:
        said = by_context(read_po(file)).values()
    assert {key for one in said for key, text in one.items() if not text} == set()


def test_no_page_has_words_outside_the_catalogue():
    for template in TEMPLATES:
        html = template.read_text()
        html = re.sub(r"{% blocktranslate.*?endblocktranslate %}", "", html)
        html = re.sub(r"{%.*?%}|{{.*?}}|<[^>]*>", " ", SKIPPED.sub("", html))

        assert set(re.findall(r"[A-Za-z]{2,}", html)) <= SAME, template


def test_kiswahili_of_the_mailbox_and_of_attempts_is_not_that_of_dates_and_sandbox():
    said = translations()

    assert said["Recipient"] == "Mpokeaji"
    assert said["Attempts"] == "Mara zilizojaribiwa" != said["Sandbox"]
