"""The client's brand on hosted pages, and the addresses of its files.

The address of a logo and of a stylesheet has a digest of its content, which therefore
never changes: browsers keep both for a year. Neither depends on the visitor.
"""

import hashlib
from typing import Any
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification.reports.models import Report
from workspaces import brands
from workspaces.models import Brand, Workspace

FOREVER = "public, max-age=31536000, immutable"
# A logo has twice the pixels that it is shown with.
DENSITY = 2


def brand_context(workspace: Workspace, environment: str) -> dict[str, Any]:
    """Return the brand, and what all pages show of it; empty without one."""
    brand = brands.shown_brand(workspace.pk, environment)
    return context_of(brand) if brand else {}


def context_of(brand: Brand) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "brand": brand,
        "client_line": brands.contact_line(brand, get_language() or "en"),
    }
    if brand.colour:
        colour, digest = brand.colour[1:], _digest(stylesheet_of(brand.colour))
        shown["brand_sheet"] = reverse("brand:stylesheet", args=[colour, digest])
    if brand.logo_digest:
        shown["brand_logo"] = reverse("brand:logo", args=[brand.logo_digest])
        shown["logo_width"] = -(-(brand.logo_width or 0) // DENSITY)
        shown["logo_height"] = -(-(brand.logo_height or 0) // DENSITY)
    return shown


def return_context(brand: Brand | None, report: Report) -> dict[str, Any]:
    """Return the link with which a page leads back to the client; empty without one."""
    url = brands.return_link(brand, report.return_url, report.pk)
    return {"return_url": url, "return_host": urlsplit(url).netloc} if url else {}


def stylesheet_of(colour: str) -> str:
    """Return the rules that replace the colours of `hosted.css` on screens."""
    light, dark = brands.light_palette(colour), brands.dark_palette(colour)
    return (
        f"@media screen{{:root{{{_properties(light)}}}}}\n"
        f"@media screen and (prefers-color-scheme:dark)"
        f"{{:root{{{_properties(dark)}}}}}\n"
    )


def _properties(palette: brands.Palette) -> str:
    button, label, link = palette.button, palette.label, palette.link
    return f"--accent:{button};--on-accent:{label};--link:{link}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@require_safe
def stylesheet(request: HttpRequest, colour: str, digest: str) -> HttpResponse:
    """Return the stylesheet of a colour, if it passes and the digest is the present."""
    if not brands.is_visible(f"#{colour}"):
        raise Http404
    text = stylesheet_of(f"#{colour}")
    if _digest(text) != digest:
        raise Http404
    return _file(text.encode(), "text/css; charset=utf-8")


@require_safe
def logo(request: HttpRequest, digest: str) -> HttpResponse:
    """Return the logo with this digest, if a workspace shows it."""
    found = Brand.objects.filter(logo_digest=digest, barred_at=None)
    content = found.values_list("logo", flat=True).first()
    if content is None:
        raise Http404
    return _file(bytes(content), "image/png")


def _file(content: bytes, content_type: str) -> HttpResponse:
    return HttpResponse(
        content,
        content_type=content_type,
        headers={
            "Cache-Control": FOREVER,
            # Pages of other sites do not get it.
            "Cross-Origin-Resource-Policy": "same-origin",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )
