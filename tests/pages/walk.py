"""A walk over pages: each is looked at in every form.

walk.see("console-home", "/console/...")
walk.end()

A page is loaded once in English at a desk and once in Kiswahili on a phone. It must fit
a narrow screen, larger and wider text, and axe must find nothing. Axe tries the rules
of whole pages on each page, and those of elements where no page before has shown an
element of a kind: its classes, attributes, text. It measures contrasts (light, dark,
forced colours) on a page with text of a look that no page before has had: colours,
grounds, size. On the phone it also tries the rules of languages and layout.

With PICTURES=1 the walk leaves pictures in `.data/screenshots/` as
`<name>-{light,dark,390,sw}.png`, and the times of first paints and the shifts of the
layout in `paint-<part>.txt` beside them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from django.test import Client
from playwright.sync_api import Page

from tests.browser.conftest import (
    DESK,
    NARROW,
    PICTURES,
    SCREENSHOTS,
    SPACED,
    STILL,
    WCAG,
    WIDTH,
    take_picture,
)

PHONE = {"width": 390, "height": 844}
LAPTOP = {"width": 1024, "height": 768}
WIDE = {"width": 1536, "height": 864}
FEW_REQUESTS = 5
# The HTML and styles of a page of subjects, payers and referees
HOSTED_PAGE_BYTES = 20 * 1024
LOADS = 3
# Half of the pages, on a machine that does much else; the aim is 100 on a quiet one.
PAINT_MS = 3000
# The page itself and all that it needs, but for pages within it, with their sizes
LOADED = """() => Object.fromEntries(performance.getEntries()
    .filter(e => "decodedBodySize" in e && e.initiatorType !== "iframe")
    .map(e => [e.name, e.decodedBodySize]))"""
# Runs before the page's own: what moves or is painted from its beginning.
WATCH = """
window.seen = {paint: 0, shift: 0, moved: []}
const each = (type, take) => new PerformanceObserver(
    list => list.getEntries().forEach(take)).observe({type, buffered: true})
const first = 'first-contentful-paint'
each('paint', e => { if (e.name === first) seen.paint = e.startTime })
each('layout-shift', e => {
    if (e.hadRecentInput) return
    seen.shift += e.value
    for (const {node} of e.sources)
        seen.moved.push((node?.parentElement ?? node)?.outerHTML?.slice(0, 80))
})
"""
# The browser reports a paint and a shift after their frames.
SEEN = f"""() => new Promise(done => {{
    const look = () => seen.paint ? done(seen) : requestAnimationFrame(look)
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(look)))
}}).finally({STILL})"""
# The size of text that a reader chooses in the browser, which rem follows
LARGE, USUAL = (
    {"fontSizes": {"standard": size, "fixed": size * 13 // 16}} for size in (32, 16)
)
# Elements beyond the edge of the screen, but for those that another scrolls or hides.
WIDEST = """() => [...document.querySelectorAll('body *')].filter(e => {
    if (e.getBoundingClientRect().right <= document.documentElement.clientWidth + 1)
        return false
    for (let at = e.parentElement; at; at = at.parentElement)
        if (at !== document.body && at !== document.documentElement
            && getComputedStyle(at).overflowX !== 'visible') return false
    return e.checkVisibility()
}).map(e => e.tagName.toLowerCase() + [...e.classList].map(c => '.' + c).join(''))
    .slice(0, 6).join(' ')"""
# Lists whose last column, which often has the action, is seen after scrolling alone
CUT_LISTS = """() => [...document.querySelectorAll('.fold')].filter(
    e => e.checkVisibility() && e.offsetWidth > e.parentElement.clientWidth).length"""
# Badges that cover what stands beside the box they are in
PROTRUDING_BADGES = """() => [...document.querySelectorAll('.badge')].filter(badge => {
    const [own, box] = [badge, badge.parentElement.closest('dd, div, li, p, td, th')]
        .map(e => e.getBoundingClientRect())
    return badge.checkVisibility() && own.right > box.right + 1
}).map(one => one.innerText)"""
# Names and references of more than three lines, and figures wider than their place
TALL_CELLS = """() => [...document.querySelectorAll('.fold tbody bdi')].filter(
    e => e.closest('th, .wide-only:not(.note)') && e.offsetHeight > 80).length"""
WIDE_FIGURES = """() => [...document.querySelectorAll('.stat-value')]
    .filter(e => e.scrollWidth > e.clientWidth).length"""
# Links and fields that a keyboard reaches and that nobody sees, with their focus
UNSEEN_STOPS = """() => {
    const isClipped = e => e !== null
        && (getComputedStyle(e).clipPath !== 'none' || isClipped(e.parentElement))
    return [...document.querySelectorAll('a[href], button, input, select, summary')]
        .filter(e => e.checkVisibility({visibilityProperty: true}) && isClipped(e)
            && (e.focus(), isClipped(e))).map(e => e.outerHTML.slice(0, 80))
}"""
# Price lists with two prices in a line
CROOKED_PRICES = """() => [...document.querySelectorAll('.prices')].filter(list =>
    new Set([...list.children].map(e => e.offsetLeft)).size > 1).length"""
# Badges of which a word is broken: a text without a space on several lines
BROKEN_BADGES = """() => [...document.querySelectorAll('.badge')].filter(badge =>
    [...badge.childNodes].some(node => {
        if (node.nodeType !== 3 || !/^\\s*\\S+\\s*$/.test(node.data)) return false
        const range = document.createRange()
        range.selectNodeContents(node)
        const rows = [...range.getClientRects()].filter(one => one.width > 0)
        return new Set(rows.map(one => one.top)).size > 1
    })).map(one => one.innerText)"""
OWN_COLOURS = """() => [...document.querySelectorAll('main *')].some(
    e => e.innerText && getComputedStyle(e).forcedColorAdjust === 'none')"""
# All that the contrast of a text depends on, once for each distinct value: of its own
# and of what is behind it.
LOOKS = """() => {
    const looks = new Set()
    for (const e of document.querySelectorAll('body *')) {
        const isText = e.matches('input, select, textarea')
            || [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
        if (!isText || !e.checkVisibility()) continue
        const own = getComputedStyle(e)
        const look = [own.color, own.fontSize, own.fontWeight, own.textShadow]
        for (let at = e; at; at = at.parentElement) {
            const {backgroundColor, backgroundImage, opacity, position} =
                getComputedStyle(at)
            const isGround = backgroundColor !== 'rgba(0, 0, 0, 0)'
                || backgroundImage !== 'none'
            if (isGround || opacity !== '1' || position !== 'static')
                look.push(backgroundColor, backgroundImage, opacity, position)
        }
        looks.add(look.join(' '))
    }
    return [...looks]
}"""
# The kind of each element, of its parent, and of its name.
KINDS = """() => [...new Set([...document.querySelectorAll('body *')]
    .filter(e => e.checkVisibility()).map(e => [e.parentElement, e].map(
        one => [one.tagName, one.type, one.role, one.getAttribute('class')].join(' ')
    ).concat(
        e.getAttributeNames().sort(), e.ariaHidden, e.tabIndex, e.lang,
        !!e.textContent.trim(), !!e.getAttribute('alt'), !!e.ariaLabel,
        !!e.labels?.length
    ).join(' > ')))]"""


def together(*scripts: str) -> str:
    """Return a script that gives the answers of all: each call takes milliseconds."""
    return f"() => [{', '.join(f'({script})()' for script in scripts)}]"


OF_A_DESK = together(LOADED, CROOKED_PRICES, KINDS, LOOKS)
OF_A_LAPTOP = together(CUT_LISTS, PROTRUDING_BADGES, TALL_CELLS)
OF_FORCED_COLOURS = together(OWN_COLOURS, LOOKS)
OF_NARROW = together(BROKEN_BADGES, WIDE_FIGURES, WIDTH, UNSEEN_STOPS)
OF_SPACED = together(SPACED, WIDTH, STILL)
AXE = """options => axe.run(document, options).then(found => found.violations.map(
    one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200),
        one.nodes[0].failureSummary].join(' | ')))"""
CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
RULES = {**WCAG, "rules": {"color-contrast": {"enabled": False}}}
# Rules about the relations between elements of a page
OF_PAGES = {
    **CONTRAST,
    "runOnly": [
        "aria-valid-attr-value",
        "bypass",
        "document-title",
        "duplicate-id-aria",
        "heading-order",
        "html-has-lang",
        "html-lang-valid",
        "landmark-banner-is-top-level",
        "landmark-complementary-is-top-level",
        "landmark-contentinfo-is-top-level",
        "landmark-main-is-top-level",
        "landmark-no-duplicate-banner",
        "landmark-no-duplicate-contentinfo",
        "landmark-no-duplicate-main",
        "landmark-one-main",
        "landmark-unique",
        "page-has-heading-one",
        "region",
        "target-size",
    ],
}
ON_A_PHONE = {
    **CONTRAST,
    "runOnly": [
        "document-title",
        "html-lang-valid",
        "scrollable-region-focusable",
        "target-size",
        "valid-lang",
    ],
}
# Marks of the faults of a form
INVALID = "[aria-invalid=true], [role=alert], .errorlist"
SUBMIT = """() => {
    const form = document.querySelector('main form[method=post]')
    const button = form.querySelector('button:not([type=button])')
    form.noValidate = true
    if (button.name) form.insertAdjacentHTML('beforeend',
        `<input type=hidden name="${button.name}" value="${button.value}">`)
    HTMLFormElement.prototype.submit.call(form)
}"""


def stay(page: Page) -> None:
    """Look at the page as it opens."""


# The kinds and looks of all pages of this process
KNOWN: defaultdict[str, set[str]] = defaultdict(set)


@dataclass
class Walk:
    page: Page
    root: str
    part: str
    faults: list[str] = field(default_factory=list)
    figures: list[tuple[str, float, float, int]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    _sizes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        context = self.page.context
        context.add_init_script(WATCH)
        self._devtools = context.new_cdp_session(self.page)
        context.on("weberror", lambda error: self.fault(f"script: {error.error}"))
        context.on("request", lambda request: self._check_host(request.url))
        context.on("console", lambda message: self._check_console(message))

    def enter(self, browser: Client) -> None:
        """Take over the cookies of a Django client that is logged in."""
        self.page.context.clear_cookies()
        host = self.root.split("/")[2].split(":")[0]
        self.page.context.add_cookies(
            [
                {
                    "name": name,
                    "value": morsel.value,
                    "domain": host,
                    "path": morsel["path"] or "/",
                }
                for name, morsel in browser.cookies.items()
                if morsel.value
            ]
        )

    def see_as(self, name: str, browser: Client, path: str, *more: Any) -> None:
        """Look at the page as the visitor of a Django client."""
        self.enter(browser)
        self.see(name, path, *more)

    def see(
        self,
        name: str,
        path: str,
        act: Callable[[Page], Any] = stay,
        languages: Sequence[str] = ("en", "sw"),
    ) -> None:
        """Look at the page in every form; `act` leads to the state to look at."""
        assert name not in self.names, f"two pages are named {name}"
        self.names.add(name)
        self._at = name
        self._open(path, languages[0], DESK, act)
        sizes, crooked, kinds, looks = self.page.evaluate(OF_A_DESK)
        self._measure(path, sizes)
        if crooked:
            self.fault("shows two prices in a line")
        has_new = self._is_new("elements", kinds)
        has_look = self._is_new("light", looks)
        rules = WCAG if has_look else RULES if has_new else OF_PAGES
        self._run_axe("light", rules)
        self._devtools.send("Page.setFontSizes", LARGE)
        self._fits("with large text", self.page.evaluate(WIDTH))
        self._devtools.send("Page.setFontSizes", USUAL)
        self._picture("light")
        self._fits_a_laptop(languages[0])
        # Chromium leaves traces of forced colours in pictures that follow.
        self._picture("390", PHONE)
        self._is_narrow(languages[0])
        # Elements of known kinds and looks have their colours of the other forms, too.
        if has_new or has_look or PICTURES:
            self._see_other_colours()
        if "sw" in languages:
            self._open(path, "sw", PHONE, act)
            self._check_shift()
            has_new = self._is_new("elements", self.page.evaluate(KINDS))
            self._run_axe("sw", RULES if has_new else ON_A_PHONE)
            self._is_narrow("sw")
            self._fits_a_laptop("sw")
            self._picture("sw", DESK)

    def _see_other_colours(self) -> None:
        self.page.set_viewport_size(DESK)
        self.page.emulate_media(color_scheme="dark")
        self._picture("dark")
        if self._is_new("dark", self.page.evaluate(LOOKS)):
            self._run_axe("dark", CONTRAST)
        self.page.emulate_media(color_scheme="light", forced_colors="active")
        # All other colours are the browser's, whose contrasts the reader has chosen.
        is_own, looks = self.page.evaluate(OF_FORCED_COLOURS)
        if is_own and self._is_new("forced colours", looks):
            self._run_axe("forced colours", CONTRAST)
        self.page.emulate_media(forced_colors="none")

    def end(self) -> None:
        """Write the table of figures; fail if a page has a fault."""
        rows = sorted(self.figures, key=lambda figure: -figure[1])
        lines = [
            f"{paint:7.0f} {shift:7.3f} {requests:9} {name}"
            for name, paint, shift, requests in rows
        ]
        middle = median(paint for _, paint, _, _ in self.figures)
        heading = "  paint   shift  requests page"
        text = "\n".join([heading, *lines, f"{middle:7.0f} is the median paint, in ms"])
        if PICTURES:
            (SCREENSHOTS / f"paint-{self.part}.txt").write_text(text + "\n")
        assert self.faults == [], "\n".join(self.faults)
        assert middle < PAINT_MS, text

    def fault(self, text: str) -> None:
        self.faults.append(f"{self._at}: {text}")

    _at = "start"

    def _open(self, path: str, language: str, size: Any, act: Any) -> None:
        self.page.set_viewport_size(size)
        query = f"{'&' if '?' in path else '?'}lang={language}" if language else ""
        # A machine that stalls while a page arrives shows it half, and then moves it.
        for _ in range(LOADS):
            answer = self.page.goto(f"{self.root}{path}{query}")
            if not self.page.url.startswith(self.root + path):
                self.fault(f"leads to {self.page.url}")
            assert answer
            if answer.status == 500 and not path.startswith("/errors/"):
                self.fault("fails")
            if answer.headers.get("content-language", "") != language:
                self.fault(f"is not in {language}")
            act(self.page)
            self.page.wait_for_load_state()
            self._shown = self.page.evaluate(SEEN)
            if not self._shown["shift"]:
                break

    def _measure(self, path: str, sizes: dict[str, int]) -> None:
        self.figures.append(
            (self._at, self._shown["paint"], self._shown["shift"], len(sizes))
        )
        self._check_shift()
        few = path.startswith(("/console/", "/docs"))
        if few and len(sizes) > FEW_REQUESTS:
            self.fault(f"{len(sizes)} requests: {json.dumps([*sizes])}")
        if any(url.endswith("hosted.css") for url in sizes) and "/dev/" not in path:
            parts = (self.page.url.partition("#")[0], ".css")
            # A file that the browser keeps has no size the next time.
            for url, size in sizes.items():
                self._sizes[url] = size or self._sizes.get(url, 0)
            size = sum(self._sizes[url] for url in sizes if url.endswith(parts))
            if not 5000 < size < HOSTED_PAGE_BYTES:
                self.fault(f"{size} bytes")

    def _check_shift(self) -> None:
        if self._shown["shift"] > 0:
            moved = self._shown["moved"]
            self.fault(f"the layout shifts by {self._shown['shift']:.4f}: {moved}")

    def _is_new(self, form: str, found: list[str]) -> bool:
        """Return whether no page before has had one of these in this form."""
        new = set(found) - KNOWN[form]
        KNOWN[form] |= new
        return bool(new)

    def _run_axe(self, form: str, rules: dict[str, Any]) -> None:
        if self.page.evaluate("!window.axe"):
            # `page.evaluate` would wrap the half megabyte of axe each time.
            self._devtools.send("Runtime.evaluate", {"expression": AXE_SCRIPT})
        for found in self.page.evaluate(AXE, rules):
            self.fault(f"{form}: {found}")

    def _is_narrow(self, language: str) -> None:
        self.page.set_viewport_size(NARROW)
        broken, figures, width, unseen = self.page.evaluate(OF_NARROW)
        self._fits(f"at 320 px {language}", width)
        if broken:
            self.fault(f"breaks the word of a badge at 320 px {language}: {broken}")
        if figures:
            self.fault(f"draws over a figure at 320 px {language}")
        if unseen:
            self.fault(f"has stops that nobody sees at 320 px {language}: {unseen}")
        _, width, _ = self.page.evaluate(OF_SPACED)
        self._fits(f"at 320 px with spaced text {language}", width)

    def _fits_a_laptop(self, language: str) -> None:
        self.page.set_viewport_size(LAPTOP)
        cut, wide, tall = self.page.evaluate(OF_A_LAPTOP)
        if cut:
            self.fault(f"cuts a list at 1024 px {language}")
        if wide:
            self.fault(f"badges leave their box at 1024 px {language}: {wide}")
        if tall:
            self.fault(f"shows a name in many lines at 1024 px {language}")

    def check_wide_screen(self) -> None:
        """Check the lists of the page where their cells are one line each."""
        self.page.set_viewport_size(WIDE)
        if self.page.evaluate(CUT_LISTS):
            self.fault("cuts a list at 1536 px")

    def _fits(self, how: str, width: int) -> None:
        assert self.page.viewport_size
        if width > self.page.viewport_size["width"]:
            self.fault(f"scrolls sideways {how}: {self.page.evaluate(WIDEST)}")

    def _picture(self, form: str, size: Any = None) -> None:
        if PICTURES and size:
            self.page.set_viewport_size(size)
        take_picture(self.page, f"{self._at}-{form}")

    def _check_host(self, url: str) -> None:
        if not url.startswith((self.root, "data:", "blob:")):
            self.fault(f"requests {url}")

    def _check_console(self, message: Any) -> None:
        if "Content Security" in message.text:
            self.fault(message.text)


def submit_form(page: Page) -> None:
    """Send the page's form as it stands, with its faults."""
    with page.expect_navigation():
        page.evaluate(SUBMIT)


def submit_wrong(page: Page) -> None:
    """Send the page's last form with text that no field takes."""
    form = page.locator("main form[method=post]").filter(
        has=page.locator("button.primary")
    )
    typed = form.last.locator(
        "input:not([type]), [type=text], [type=url], [type=email], textarea"
    )
    for box in typed.all():
        if box.is_visible():
            box.fill("?")
    with page.expect_navigation():
        form.last.locator("button.primary").click()
    assert page.locator(INVALID).count(), "the page names no fault"
