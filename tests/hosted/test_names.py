"""Names with control characters do not rearrange the text around them."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from tests.documents.test_consent_receipts import EVIDENCE, receipt_text
from tests.references.conftest import paying_api as paying_api
from tests.world.employer import create_reference
from tests.world.payer import create_payer, poll_providers
from tests.world.subject import Visitor, visible_text
from verification import links
from verification.hosted.templatetags.bdi import bdi, bdi_of, initial

pytestmark = pytest.mark.django_db

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


@pytest.fixture
def turned(api, ask):
    api.workspace.name = TURNED
    api.workspace.save()
    return ask(purpose=TURNED, reference=TURNED, subject={"fullName": TURNED})


def test_reversed_names_stay_isolated_on_the_consent_page(turned):
    turned.open()
    pages = {"challenge": turned.text(), "not me": turned.text("not-me")}
    turned.confirm()
    pages |= {"asked": turned.text(), "decline": turned.text("decline")}
    turned.grant(name=TURNED)
    pages |= {"granted": turned.text(), "withdraw": turned.text("withdraw")}
    turned.post("withdraw")
    pages["withdrawn"] = turned.text()

    for name, page in pages.items():
        assert not CONTROLS.search(page), name
        assert "<bdi>Acme DO NOT AGREE" in page, name
        heading = re.search("<h1>(.*?)</h1>", page, re.DOTALL)
        assert heading
        assert "\n" not in heading[1], name
    # Name, purpose, reference and requester; the requester is in our sentences, too.
    assert pages["asked"].count("<bdi>Acme DO NOT AGREE") > 8


def test_reversed_names_stay_isolated_on_the_referees_page(paying_api):
    paying_api.workspace.name = TURNED
    paying_api.workspace.save()
    reference = create_reference(
        paying_api, fullName=TURNED, employerName=TURNED, refereeName=TURNED
    )
    referee = Visitor(links.reference_url(reference.pk, 1))
    referee.open()
    pages = [referee.text(), referee.text("decline")]
    referee.post("decline")
    pages.append(referee.text())

    for page in pages:
        assert not CONTROLS.search(page)
        assert "<bdi>Acme DO NOT AGREE" in page
    assert f"A reference for {visible_text(bdi(TURNED))}" in visible_text(pages[0])


def test_reversed_names_stay_isolated_on_a_receipt():
    evidence = dict.fromkeys(("requester", "purpose", "typedName", "reason"), TURNED)

    text = receipt_text({**EVIDENCE, **evidence})

    assert not CONTROLS.search(text)
    assert text.count("Acme DO NOT AGREE") == 4


def test_reversed_names_stay_isolated_on_the_payers_pages(api):
    api.workspace.name = TURNED
    api.workspace.save()
    payer = create_payer(api, purpose=TURNED)
    pages = [payer.get().content.decode()]
    payer.come_back(payer.choose("pay"))
    poll_providers()
    pages.append(payer.get().content.decode())

    assert "You paid" in pages[1]
    for page in pages:
        assert not CONTROLS.search(page)
        names = page.count("Acme DO NOT AGREE")
        assert names == page.count("<bdi>Acme DO NOT AGREE") > 2


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
