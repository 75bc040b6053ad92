"""Lay out an e-mail as HTML, from the lines of its text.

A template marks a link by `{{ as }}`, and writes what the link is called behind it:

    {{ link }}{{ as }}Read and decide

- `plain()` leaves the address alone; HTML shows a link with these words.
- The first such link of a message is its button, with the address below it.
- A link without words belongs to the line above it.
- Lines with four spaces before them are set apart; `- ` begins an item of a list.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.template.loader import render_to_string

# Invisible separator; `formats.one_line` removes it from what people type.
AS = "\u2063"
# Unicode's marks around a text that has a direction of its own
ISOLATE, POP = "\u2068", "\u2069"
MARKS = re.compile(f"{AS}.*|[{ISOLATE}{POP}]")
LINK = re.compile(rf"(?P<before>.*?)(?P<url>\S+){AS}(?P<words>.*)")
RIGHT_TO_LEFT = {"R", "AL"}


@dataclass(slots=True)
class Line:
    text: str
    url: str = ""


@dataclass(slots=True)
class Block:
    # "text", "apart", "list", "button" or "after": text below the button
    shape: str
    lines: list[Line]

    @property
    def is_code(self) -> bool:
        """Return whether it is a code or a key to copy: one word, and no address."""
        line = self.lines[0]
        is_word = " " not in line.text and "://" not in line.text
        return len(self.lines) == 1 and is_word and not line.url


@dataclass(slots=True)
class Section:
    """The message in one language, with the marks of `AS` and `isolate`."""

    language: str
    subject: str
    body: str
    footer: str
    blocks: list[Block] = field(init=False)
    footer_blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = list(_blocks(self.body, has_button=True))
        self.footer_blocks = list(_blocks(self.footer.removeprefix("--\n")))

    @property
    def preview(self) -> str:
        """Return what lists of mails show after the subject: the text below "Hello"."""
        texts = [one.lines[0].text for one in self.blocks if one.shape == "text"]
        return " ".join(texts[1:2])


def plain(text: str) -> str:
    return MARKS.sub("", text)


def isolate(value: Any) -> Any:
    """Mark Arabic and Hebrew texts, so that they do not turn the words around them."""
    if isinstance(value, dict):
        return {name: isolate(one) for name, one in value.items()}
    if isinstance(value, list):
        return [isolate(one) for one in value]
    if isinstance(value, str) and any(
        unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in value
    ):
        return f"{ISOLATE}{value}{POP}"
    return value


def lay_out(
    sections: list[Section], *, subject: str, lead: str, sandbox: bool, names: list[str]
) -> str:
    """Return the HTML. `lead` stands above the text, and `names` above the title."""
    shown = {
        "sections": sections,
        "subject": subject,
        "lead": lead,
        "sandbox": sandbox,
        "names": names,
    }
    return render_to_string("notifications/layout.html", shown)


def _blocks(text: str, *, has_button: bool = False) -> Iterator[Block]:
    is_below = False
    for part in re.split(r"\n(?:[ \t]*\n)+", text):
        for shape, lines in _shapes(part):
            block = Block("after" if is_below and shape == "text" else shape, [])
            for line in lines:
                found = LINK.fullmatch(line)
                if not found:
                    block.lines.append(Line(line))
                    continue
                before, url, words = (found[name].strip() for name in LINK.groupindex)
                if before:
                    block.lines.append(Line(before))
                if words and has_button and not is_below:
                    is_below = True
                    if block.lines:
                        yield block
                    yield Block("button", [Line(words, url)])
                    block = Block(shape, [])
                elif not words and block.lines and not block.lines[-1].url:
                    block.lines[-1].url = url
                else:
                    block.lines.append(Line(words or url, url))
            if block.lines:
                yield block


def _shapes(part: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a paragraph, grouped by shape: text, list or apart."""
    shaped: list[tuple[str, str]] = []
    for line in filter(str.strip, part.split("\n")):
        shape = "text"
        if line.startswith("- "):
            shape, line = "list", line[2:]
        elif line.startswith("    "):
            is_item = bool(shaped) and shaped[-1][0] == "list"
            shape = "list" if is_item else "apart"
        shaped.append((shape, line.strip()))
    for shape, lines in groupby(shaped, lambda one: one[0]):
        yield shape, [line for _, line in lines]
