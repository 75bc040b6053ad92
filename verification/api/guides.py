"""The guides of `docs/client` as pages, rendered once in each process.

Fences that follow one another are tabs of one sample. Addresses of the repository's
examples become those of this installation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.template import Context, Template
from django.template.loader import render_to_string
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String

GROUPS = {
    "Start": ["quickstart", "sandbox", "going-live"],
    "Guides": [
        "reports",
        "consent",
        "payments",
        "decisions",
        "monitoring",
        "webhooks",
        "errors",
        "privacy",
    ],
    "Reference": ["checks", "changes"],
}
NAMES = [name for names in GROUPS.values() for name in names]
FIRST = NAMES[0]
# The addresses of a checkout that runs, as the guides write them
SANDBOX, PRODUCTION = "http://localhost:8000", "https://production.example"
# A link out of the folder leads to pages that are not served: its text stays.
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
LINK = re.compile(r"([a-z-]+)\.md(#.*)?")
LANGUAGES = {"sh": "curl", "python": "Python", "ts": "TypeScript", "json": "JSON"}
# The class of a tab, which the style sheet shows by its radio button
TABS = {"sh": "curl", "python": "python", "ts": "ts"}
CLASSES = {
    String.Escape: "",
    Keyword: "k",
    Name.Tag: "k",
    String: "t",
    Number: "n",
    Comment: "c",
}


@dataclass(frozen=True)
class Section:
    """A result of the search: a heading with the text below it."""

    anchor: str
    title: str
    text: str


@dataclass(frozen=True)
class Guide:
    name: str
    title: str
    markdown: str
    html: SafeString
    sections: Sequence[Section]
    """The first is the page itself, without an anchor."""
    contents: Sequence[Section]

    @property
    def path(self) -> str:
        return guide_path(self.name)


def guide_path(name: str) -> str:
    return "/docs" if name == FIRST else f"/docs/{name}"


@cache
def guide_title(name: str) -> str:
    """Return the heading of a guide, without rendering it."""
    with (settings.GUIDES_DIR / f"{name}.md").open() as file:
        return file.readline().removeprefix("# ").strip()


def guide_link(name: str) -> tuple[str, str]:
    return guide_path(name), guide_title(name)


def addresses() -> tuple[str, str]:
    """Return the addresses of the sandbox and of production."""
    scheme = urlsplit(settings.BASE_URL).scheme
    sandbox, production = (
        f"{scheme}://{host}" if host else settings.BASE_URL
        for host in (settings.SANDBOX_HOST, settings.PRODUCTION_HOST)
    )
    return sandbox, production


def get_guide(name: str) -> Guide:
    return _render(name, settings.BASE_URL, *addresses())


def all_guides() -> Iterator[Guide]:
    return map(get_guide, NAMES)


@lru_cache(len(NAMES) * 2)
def _render(name: str, base: str, sandbox: str, production: str) -> Guide:
    source = (settings.GUIDES_DIR / f"{name}.md").read_text()
    served = OUTSIDE.sub(r"\1", source)
    # Other pages are at the address of the page that links to them.
    texts = (served.replace(f"]({SANDBOX}/", f"]({root}/") for root in ("", base))
    page, markdown = (
        text.replace(SANDBOX, sandbox).replace(PRODUCTION, production) for text in texts
    )
    tokens = parser().parse(page)
    sections = list(_sections(tokens))
    return Guide(
        name,
        sections[0].title,
        markdown,
        trusted(parser().renderer.render(tokens, parser().options, {})),
        sections,
        [section for section in sections if section.anchor],
    )


def trusted(html: str) -> SafeString:
    """Trust HTML that is rendered from files of this repository."""
    return mark_safe(html)  # noqa: S308


@cache
def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.core.ruler.push("docs", _adapt)
    callout = Template('<div class="callout">{% icon "info" %}<div>').render(Context())
    rules = {
        "samples": _samples,
        "table_open": lambda *_: (
            '<div class="scroll" role="group" aria-label="Table" tabindex="0">'
            '<table class="table">'
        ),
        "table_close": lambda *_: "</table></div>",
        "blockquote_open": lambda *_: callout,
        "blockquote_close": lambda *_: "</div></div>",
    }
    for name, rule in rules.items():
        markdown.add_render_rule(name, rule)
    return markdown


def anchor_of(title: str) -> str:
    """Return the anchor that links to a heading have, also in the repository."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _adapt(state: StateCore) -> None:
    """Name headings, lead links to their pages, and put tabs together."""
    tokens: list[Token] = []
    for token in state.tokens:
        before = tokens[-1] if tokens else None
        if token.type == "fence":
            if before and before.type == "samples" and _is_tab(before, token.info):
                before.meta["fences"].append(token)
            else:
                tokens.append(Token("samples", "", 0, meta={"fences": [token]}))
            continue
        if token.type == "inline":
            for child in token.children or []:
                if child.type == "link_open":
                    child.attrSet("href", _target(str(child.attrGet("href"))))
        if before and before.type == "heading_open" and before.tag != "h1":
            before.attrSet("id", anchor_of(token.content))
        if token.type == "paragraph_open" and before and before.tag == "h1":
            token.attrSet("class", "lead")
        tokens.append(token)
    for number, token in enumerate(t for t in tokens if t.type == "samples"):
        token.meta["number"] = number
    state.tokens = tokens


def _is_tab(samples: Token, language: str) -> bool:
    """Return whether the samples are tabs, of languages other than this one."""
    languages = {fence.info for fence in samples.meta["fences"]}
    return {language, *languages} <= TABS.keys() and language not in languages


def _target(href: str) -> str:
    found = LINK.fullmatch(href)
    return guide_path(found[1]) + (found[2] or "") if found else href


def _sections(tokens: Sequence[Token]) -> Iterator[Section]:
    anchor, title = "", ""
    words: list[str] = []
    for opening, token in zip([None, *tokens], tokens, strict=False):
        if opening and opening.type == "heading_open" and opening.tag in {"h1", "h2"}:
            if title:
                yield Section(anchor, title, " ".join(words))
            anchor, title, words = str(opening.attrGet("id") or ""), _text(token), []
        elif token.type == "inline":
            words.append(_text(token))
        elif token.type == "samples":
            words += [fence.content for fence in token.meta["fences"]]
    yield Section(anchor, title, " ".join(words))


def _text(token: Token) -> str:
    return "".join(child.content or " " for child in token.children or [])


def _samples(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    samples = []
    for fence in token.meta["fences"]:
        language, _space, name = fence.info.partition(" ")
        samples.append(sample(fence.content, language, name))
    return render_samples(f"sample-{token.meta['number']}", samples)


def sample(code: str, language: str, name: str = "") -> dict[str, Any]:
    shown = name or LANGUAGES.get(language, "Text")
    return {
        "code": TABS.get(language, "only"),
        "language": shown,
        "text": highlight(code.rstrip("\n"), language),
    }


def render_samples(name: str, samples: list[dict[str, Any]]) -> str:
    context = {"name": name, "samples": samples}
    return render_to_string("docs/samples.html", context)


def highlight(code: str, language: str) -> SafeString:
    """Colour code by the classes of the style sheet."""
    if not language:
        return escape(code)
    lexer = get_lexer_by_name(language, ensurenl=False, stripnl=False)
    parts: list[tuple[str, str]] = []
    for kind, text in lexer.get_tokens(code):
        css = next((css for of, css in CLASSES.items() if kind in of), "")
        if parts and (parts[-1][0] == css or not text.strip()):
            parts[-1] = parts[-1][0], parts[-1][1] + text
        else:
            parts.append((css, text))
    return SafeString(
        "".join(
            format_html('<span class="{}">{}</span>', css, text)
            if css
            else escape(text)
            for css, text in parts
        )
    )
