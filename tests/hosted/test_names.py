"""Names with control characters do not rearrange the text around them."""

import re
from pathlib import Path

from django.conf import settings

from tests.documents.test_consent_receipts import EVIDENCE, receipt_text
from verification.hosted.templatetags.bdi import bdi, bdi_of, initial

TEMPLATES = sorted(Path(settings.BASE_DIR, "templates/hosted").rglob("*.html"))
# Its control characters change the order of the words after it.
TURNED = "Acme\u202e\n\n\u2066DO NOT AGREE\u2028<b>"
CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def test_name_is_isolated_on_one_line():
    assert bdi(TURNED) == "<bdi>Acme DO NOT AGREE &lt;b&gt;</bdi>"
    assert bdi(None) == ""
    assert initial("\u202e\nacme") == "A"


def test_name_is_isolated_in_a_sentence_and_no_part_of_a_word_is():
    assert (
        bdi_of("we ask, or were <told>", "we")
        == "<bdi>we</bdi> ask, or were &lt;told&gt;"
    )
    assert bdi_of("Nobody asks", "") == "Nobody asks"
    assert bdi_of(r"A\1 asks", r"A\1") == r"<bdi>A\1</bdi> asks"


def test_reversed_names_stay_isolated_on_a_receipt():
    evidence = dict.fromkeys(("requester", "purpose", "typedName", "reason"), TURNED)

    text = receipt_text({**EVIDENCE, **evidence})

    assert not CONTROLS.search(text)
    assert text.count("Acme DO NOT AGREE") == 4


def test_every_template_isolates_names():
    """The context isolates `client` for all of them."""
    for template in TEMPLATES:
        source = template.read_text()
        blocks = re.findall(
            r"{% blocktranslate([^%]*)%}(.*?){% endblocktranslate %}", source, re.DOTALL
        )
        for names, text in blocks:
            for name in re.findall(r"{{ (name|employer|payer) }}", text):
                assert f"{name}={name}|bdi" in names, (template, text)
        rest = re.sub(
            r"{% blocktranslate.*?endblocktranslate %}", "", source, flags=re.DOTALL
        )
        found = re.findall(r"{{ (?:name|employer|payer|evidence\.\w+) }}", rest)
        assert not found, template
