"""Colours such as `#0f766e`: their contrast by WCAG, and the nearest that passes.

The nearest colour has the same hue and another lightness in OKLCH, in which equal steps
look equal. Its chroma is reduced only where no screen can show it.
https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio, https://www.w3.org/TR/css-color-4/
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

# WCAG 2.2: text (1.4.3), and edges of controls (1.4.11)
TEXT_RATIO, EDGE_RATIO = 4.5, 3.0
BLACK, WHITE = "#000000", "#ffffff"
HEX = re.compile(r"#?([0-9a-f]{3}|[0-9a-f]{6})")
STEPS = 250
Triple = tuple[float, float, float]


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


def stands_out(colour: str, backgrounds: Iterable[str], ratio: float) -> bool:
    return all(contrast(colour, background) >= ratio for background in backgrounds)


def label_on(colour: str) -> str:
    """Return white or black, whichever reads better; one always has TEXT_RATIO."""
    return max(WHITE, BLACK, key=lambda label: contrast(label, colour))


def nearest(colour: str, passes: Callable[[str], bool]) -> str:
    """Return the colour itself if it passes, or the same hue in the nearest lightness.

    Black or white has to pass.
    """
    if passes(colour):
        return colour
    lightness, chroma, hue = _to_oklch(colour)
    for step in range(1, STEPS + 1):
        for sign in (-1, 1):
            other = lightness + sign * step / STEPS
            if 0 <= other <= 1:
                candidate = _from_oklch(other, chroma, hue)
                if passes(candidate):
                    return candidate
    return next(end for end in (BLACK, WHITE) if passes(end))


def _channels(colour: str) -> Triple:
    """Return red, green and blue in linear light, from 0 to 1."""
    red, green, blue = (
        _linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5)
    )
    return red, green, blue


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _luminance(colour: str) -> float:
    red, green, blue = _channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _to_oklch(colour: str) -> Triple:
    red, green, blue = _channels(colour)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    lightness = 0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short
    a = 1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short
    b = 0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short
    return lightness, math.hypot(a, b), math.atan2(b, a)


def _from_oklch(lightness: float, chroma: float, hue: float) -> str:
    """Return the colour, with the highest chroma up to `chroma` that a screen shows."""
    low, high = 0.0, chroma
    if _is_in_gamut(_linear_rgb(lightness, chroma, hue)):
        low = chroma
    else:
        for _ in range(12):
            middle = (low + high) / 2
            is_shown = _is_in_gamut(_linear_rgb(lightness, middle, hue))
            low, high = (middle, high) if is_shown else (low, middle)
    values = (
        round(255 * _gamma(min(max(value, 0.0), 1.0)))
        for value in _linear_rgb(lightness, low, hue)
    )
    return "#" + "".join(f"{value:02x}" for value in values)


def _is_in_gamut(values: Triple) -> bool:
    return all(-1e-4 <= value <= 1 + 1e-4 for value in values)


def _linear_rgb(lightness: float, chroma: float, hue: float) -> Triple:
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
