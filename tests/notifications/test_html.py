"""The HTML form of each e-mail, which comes from the lines of its text."""

import re
from html.parser import HTMLParser

import pytest

from tests.notifications.messages import LINK
from tests.notifications.test_templates import (
    CONTEXTS,
    WITHOUT_BUTTON,
    Letters,
    written,
)
from tests.notifications.test_templates import letters as letters
from verification.notifications.models import BILINGUAL, Kind
from verification.notifications.templates import EmailText, write_email

HOSTILE = (
    '<script>alert("x")</script> & </td>\n\n- {{ link }} \u202e'
    + "x" * 120
    + "شركة التمويل " * 15
)
VOID = {"meta", "br"}

pytestmark = pytest.mark.usefixtures("no_attachments")


class Reader(HTMLParser):
    """What a mail program shows: words in their order, links, and a preview."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.buttons: list[str] = []
        self.preview = ""
        self.tags: set[str] = set()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tags = {tag for tag, _ in self.open}
        styles = " ".join(at.get("style") or "" for _, at in self.open)
        if tags & {"style", "title"}:
            return
        if "display:none" in styles:
            self.preview += data
            return
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "a":
            self.links.append((attributes.get("href") or "", data))
            if attributes.get("class") == "bt":
                self.buttons.append(attributes.get("href") or "")
        self.words += data.replace("\u2068", "").replace("\u2069", "").split()


def read(letter: EmailText) -> Reader:
    return Reader(letter.html)


def test_html_has_the_words_of_the_text_and_one_button(letters: Letters):
    for (kind, language), letter in letters.items():
        reader = read(letter)

        shown, links = " ".join(reader.words), [url for url, _ in reader.links]
        for line in (letter.subject, *letter.text.splitlines()):
            text = "" if line == "--" else line.strip().removeprefix("- ")
            found = re.fullmatch(
                "(.*?)(https://verify[^ ]*|http://localhost[^ ]*)", text
            )
            before, url = found.groups() if found else (text, "")
            assert " ".join(before.split()) in shown, (kind, language)
            assert not url or url in links, (kind, language)
        assert reader.preview, kind
        assert "None" not in letter.html, kind
        wanted = [] if kind in WITHOUT_BUTTON else [button_of(kind)]
        assert reader.buttons == wanted, (kind, language)
        assert all(words for _, words in reader.links), (kind, language)


def button_of(kind: Kind) -> str:
    context = CONTEXTS[kind]
    if kind == Kind.MEMBER_NEWS:
        return context["line"]["url"]
    if kind in {Kind.WEBHOOK_FAILING, Kind.WEBHOOK_DISABLED}:
        return context["docs"]
    return context.get("link") or context["url"]


def test_email_in_both_languages_has_a_button_in_each():
    reader = read(write_email(written(Kind.CONSENT_REQUEST, BILINGUAL)))

    assert [words for url, words in reader.links if url == LINK] == [
        "Read and decide",
        "Soma kisha uamue",
    ]
    assert "Kiswahili hapa chini." in reader.preview


def test_digest_links_each_line():
    reader = read(write_email(written(Kind.MEMBER_DIGEST)))

    assert reader.links[:2] == [(LINK, "3 reports are ready")] * 2


def test_address_that_is_no_page_of_ours_is_no_link():
    reader = read(write_email(written(Kind.WEBHOOK_FAILING)))

    assert "https://hooks.acacia.test/" in reader.words
    assert "https://hooks.acacia.test/" not in [url for url, _ in reader.links]


def test_html_holds_hostile_names():
    named = (
        *("requester", "workspace", "company", "purpose", "reason"),
        *("subjectName", "refereeName", "employer", "by", "name", "wanted"),
    )
    for kind, given in CONTEXTS.items():
        context = {
            key: HOSTILE for key in named if key in given and given[key] != "FAILING"
        }
        letter = write_email(written(kind, BILINGUAL, context=context, sandbox=True))
        reader = read(letter)

        assert len(letter.html.encode()) < 30_000, kind
        assert not reader.tags & {"script", "img", "link", "form", "iframe"}, kind
        assert "\u202e" not in letter.html, kind
        for words in (letter.subject, letter.text):
            assert not set(words) & set("\u2063\u2068\u2069"), kind


def test_name_from_right_to_left_does_not_turn_the_sentence():
    letter = write_email(
        written(Kind.CONSENT_REQUEST, context={"requester": "شركة", "purpose": "Loan"})
    )

    assert "<p" in letter.html
    assert "\u2068شركة\u2069 would like" in letter.html
    assert "شركة would like" in letter.text


def test_mark_of_a_link_cannot_be_typed():
    name = "https://evil.test\u2063Click"
    reader = read(
        write_email(
            written(
                Kind.GO_LIVE_NAME,
                context={"isApproved": False, "reason": name, "wanted": name},
            )
        )
    )

    assert {url for url, _ in reader.links} == {LINK}


def test_sandbox_email_says_so_in_html():
    assert (
        "[SANDBOX]"
        in read(write_email(written(Kind.CONSENT_REQUEST, sandbox=True))).words
    )
