"""Colours such as `#0f766e`, and their contrast by WCAG.

https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
"""

import re
from collections.abc import Iterable

# WCAG 2.2: text (1.4.3), and edges of controls (1.4.11)
TEXT_RATIO, EDGE_RATIO = 4.5, 3.0
BLACK, WHITE = "#000000", "#ffffff"
HEX = re.compile(r"#?([0-9a-f]{3}|[0-9a-f]{6})")


def parse_colour(text: str) -> str | None:
    """Return `#rrggbb` for `#0F7`, `0f7766` or `#0f7766`; None for anything else."""
    found = HEX.fullmatch(text.strip().lower())
    if found is None:
        return None
    digits = found[1]
    return "#" + (digits if len(digits) == 6 else "".join(d * 2 for d in digits))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours: from 1 to 21."""
    dark, light = sorted([_luminance(one), _luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def least_contrast(colour: str, backgrounds: Iterable[str]) -> float:
    return min(contrast(colour, background) for background in backgrounds)


def label_on(colour: str) -> str:
    """Return white or black, whichever reads better; one always has TEXT_RATIO."""
    return max(WHITE, BLACK, key=lambda label: contrast(label, colour))


def mix(colour: str, other: str, share: float) -> str:
    """Return the colour with this share of the other one, channel by channel."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    mixed = (round(own * (1 - share) + foreign * share) for own, foreign in pairs)
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(value / 255) for value in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
