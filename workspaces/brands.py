"""Brands: the appearance of a client on hosted pages and in mails.

- A logo is a redrawn PNG of our own host; pages always show it with the reviewed name.
- A colour has to be readable on the pages. `light_palette` and `dark_palette` derive
  the other colours.
- A contact line is plain text without links, and asks for no secrets or money.
- A return address is https, on the standard port of a host that the workspace lists.
  A page with the link reads the current list.

Production pages show a brand only for a live workspace.
"""

import hashlib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.db import transaction

from verification.outbound.targets import Blocked, check_url
from verification.values import colours
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.public_text import TextFault, find_text_fault
from workspaces.members import Permission, lock_workspace, require_permission
from workspaces.models import (
    MAX_CONTACT_LINE,
    MAX_RETURN_HOSTS,
    MAX_RETURN_URL,
    Brand,
    Environment,
    Member,
    Workspace,
)

# The light backgrounds of `hosted.css`: the page, cards and notes.
LIGHT = ("#ffffff", "#f6f8f7", "#e2f2f0")

PNG_START = b"\x89PNG\r\n\x1a\n"
MIN_LOGO_SIDE = 16


class BrandFault(StrEnum):
    NO_COLOUR = auto()
    FAINT = auto()
    TOO_LONG = auto()
    LINK = TextFault.LINK
    SIGNS = TextFault.SIGNS
    WARY = TextFault.WARY
    HOST = auto()
    TOO_MANY_HOSTS = auto()
    ADDRESS = auto()
    NOT_LISTED = auto()
    SMALL_LOGO = auto()
    BARRED = auto()


class InvalidBrand(Exception):
    """The brand breaks rules, and nothing was changed.

    `details` explain some of the faults further, such as the contrast of a colour.
    """

    def __init__(
        self,
        faults: Mapping[str, BrandFault],
        details: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(", ".join(faults))
        self.faults, self.details = dict(faults), dict(details or {})


class AddressRefused(Exception):
    """The return address may not be used. The text says why, in English."""

    def __init__(self, detail: str, *, is_unlisted: bool = False) -> None:
        super().__init__(detail)
        self.is_unlisted = is_unlisted


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of buttons, of their labels, and of links."""

    button: str
    label: str
    link: str


@dataclass(frozen=True, slots=True)
class NewBrand:
    """The settings of members, besides the logo, with the hosts as typed."""

    colour: str
    contact_line: str
    contact_line_sw: str
    return_hosts: list[str]
    return_url: str


def is_visible(colour: str) -> bool:
    """Return whether a button of the colour stands out on a light page."""
    return colours.least_contrast(colour, LIGHT) >= colours.EDGE_RATIO


def light_palette(colour: str) -> Palette:
    """Return the colours of light pages.

    A colour from the time of an earlier rule may be too faint for text; links are
    darker then.
    """
    is_readable = colours.least_contrast(colour, LIGHT) >= colours.TEXT_RATIO
    link = colour if is_readable else colours.mix(colour, colours.BLACK, 0.25)
    return Palette(colour, colours.label_on(colour), link)


def dark_palette(colour: str) -> Palette:
    """Return the colours of dark pages; the share of white makes all readable."""
    tint = colours.mix(colour, colours.WHITE, 0.6)
    return Palette(tint, colours.label_on(tint), tint)


def brand_of(workspace: Workspace) -> Brand:
    """Return the workspace's brand without its logo; unsaved if there is none."""
    found = Brand.objects.defer("logo").filter(workspace=workspace).first()
    return found or Brand(workspace=workspace)


def shown_brand(workspace_id: UUID, environment: str) -> Brand | None:
    """Return the brand that pages and mails of this environment show, if any."""
    found = Brand.objects.defer("logo").filter(workspace=workspace_id, barred_at=None)
    if environment == Environment.PRODUCTION:
        found = found.filter(workspace__go_live=Workspace.GoLive.APPROVED)
    return found.first()


def contact_line(brand: Brand | None, language: str) -> str:
    """Return the line in this language, or in the other one."""
    if brand is None:
        return ""
    lines = [brand.contact_line, brand.contact_line_sw]
    first, second = reversed(lines) if language == "sw" else lines
    return first or second


def mail_lines(workspace_id: UUID, *, is_sandbox: bool) -> dict[str, str]:
    """Return what the footers of e-mails say of the client, by the templates' names."""
    environment = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    brand = shown_brand(workspace_id, environment)
    line, line_sw = contact_line(brand, "en"), contact_line(brand, "sw")
    return {"contactLine": line, "contactLineSw": line_sw} if line else {}


def return_hosts_of(workspace_id: UUID) -> frozenset[str]:
    """Return the hosts to which the workspace's pages may lead back now."""
    listed = Brand.objects.filter(workspace=workspace_id, barred_at=None)
    hosts = listed.values_list("return_hosts", flat=True).first()
    return frozenset(hosts or ())


def read_host(text: str) -> str:
    """Return a listed host as DNS writes it. Raises AddressRefused."""
    typed = text.strip()
    if not typed or re.search(r"[/?#@:*]", typed):
        raise AddressRefused("A host has no scheme, port, path or wildcard.")
    return urlsplit(_checked(f"https://{typed}/")).netloc


def read_address(text: str, hosts: Collection[str]) -> str:
    """Return the address of a listed host, well-formed. Raises AddressRefused."""
    if len(text) > MAX_RETURN_URL:
        raise AddressRefused(f"The URL must have at most {MAX_RETURN_URL} characters.")
    url = _checked(text)
    host = urlsplit(url).netloc
    if host not in hosts:
        detail = f"The workspace does not list {host} as a return host."
        raise AddressRefused(detail, is_unlisted=True)
    return url


def _checked(url: str) -> str:
    try:
        checked = check_url(url)
    except Blocked as e:
        raise AddressRefused(str(e)) from None
    if checked.explicit_port is not None:
        raise AddressRefused("The URL must have no port.")
    return str(checked)


def return_link(brand: Brand | None, address: str | None, report_id: UUID) -> str:
    """Return the return address of a report's page, or "".

    The query gets the report's ID alone: its outcome is for the API. An address whose
    host has been removed from the list is "".
    """
    wanted = (address or brand.return_url) if brand else ""
    if not (brand and wanted):
        return ""
    try:
        url = read_address(wanted, brand.return_hosts)
    except AddressRefused:
        return ""
    query = urlencode({"report": report_id})
    return f"{url}{'&' if '?' in url else '?'}{query}"


@transaction.atomic
def change_brand(
    member: Member, new: NewBrand, logo: bytes | None, *, drop_logo: bool = False
) -> tuple[Brand, list[str]]:
    """Change the brand; without `logo` or `drop_logo` the present logo stays.

    `logo` is a PNG that the inspection has redrawn. Returns the brand and the names of
    the changed fields. Raises NotAllowed and InvalidBrand.
    """
    workspace = lock_workspace(member.workspace_id)
    # The role may have changed since the request began.
    actor = Member.objects.get(pk=member.pk)
    require_permission(actor, Permission.MANAGE_SETTINGS)
    brand = brand_of(workspace)
    values, faults, details = _read(new, brand.colour)
    if faults:
        raise InvalidBrand(faults, details)
    if brand.is_barred and (logo or new.contact_line or new.contact_line_sw):
        raise InvalidBrand({"logo": BrandFault.BARRED})
    if logo or drop_logo:
        values |= _logo_values(logo)
    changed = [name for name, v in values.items() if getattr(brand, name) != v]
    if changed:
        for name in changed:
            setattr(brand, name, values[name])
        if brand._state.adding:
            brand.save(force_insert=True)
        else:
            brand.save(update_fields=[*changed, "updated_at"])
    return brand, changed


def preview_brand(brand: Brand, new: NewBrand, logo: bytes | None) -> Brand:
    """Apply the valid values to the brand without saving it."""
    values, faults, _ = _read(new, brand.colour)
    for name, value in values.items():
        if name not in faults:
            setattr(brand, name, value)
    if logo:
        for name, value in _logo_values(logo).items():
            setattr(brand, name, value)
    return brand


def _read(
    new: NewBrand, present_colour: str
) -> tuple[dict[str, Any], dict[str, BrandFault], dict[str, str]]:
    """Return the values of the fields, their faults, and details of some faults."""
    faults: dict[str, BrandFault] = {}
    details: dict[str, str] = {}
    values: dict[str, Any] = {"colour": "", "return_url": ""}
    if new.colour:
        colour = colours.parse_colour(new.colour)
        if colour is None:
            faults["colour"] = BrandFault.NO_COLOUR
        elif colour != present_colour:
            ratio = colours.least_contrast(colour, LIGHT)
            if ratio < colours.TEXT_RATIO:
                faults["colour"] = BrandFault.FAINT
                # Rounded down, because 4.5 is enough.
                details["colour"] = f"{math.floor(ratio * 10) / 10}:1"
        values["colour"] = colour or ""
    for name in ("contact_line", "contact_line_sw"):
        line = getattr(new, name)
        values[name] = one_line(line)
        if len(line) > MAX_CONTACT_LINE:
            faults[name] = BrandFault.TOO_LONG
        elif fault := find_text_fault(line):
            faults[name] = BrandFault(fault)
    hosts = []
    for typed in new.return_hosts:
        try:
            hosts.append(read_host(typed))
        except AddressRefused:
            faults["return_hosts"] = BrandFault.HOST
            details["return_hosts"] = one_line(typed)[:100]
    values["return_hosts"] = hosts = list(dict.fromkeys(hosts))
    if len(hosts) > MAX_RETURN_HOSTS:
        faults["return_hosts"] = BrandFault.TOO_MANY_HOSTS
    if new.return_url and "return_hosts" not in faults:
        try:
            values["return_url"] = read_address(new.return_url, hosts)
        except AddressRefused as e:
            faults["return_url"] = (
                BrandFault.NOT_LISTED if e.is_unlisted else BrandFault.ADDRESS
            )
    return values, faults, details


def _logo_values(logo: bytes | None) -> dict[str, Any]:
    if logo is None:
        nothing: dict[str, Any] = dict.fromkeys(("logo", "logo_width", "logo_height"))
        return {**nothing, "logo_digest": ""}
    assert logo.startswith(PNG_START)  # noqa: S101
    # The header of a PNG: width and height come first.
    width, height = (int.from_bytes(logo[at : at + 4]) for at in (16, 20))
    if min(width, height) < MIN_LOGO_SIDE:
        raise InvalidBrand({"logo": BrandFault.SMALL_LOGO})
    return {
        "logo": logo,
        "logo_digest": hashlib.sha256(logo).hexdigest(),
        "logo_width": width,
        "logo_height": height,
    }


class BrandUnchanged(Exception):
    """Another person was faster; the text says so."""


@transaction.atomic
def bar_brand(workspace_id: UUID, reason: str) -> None:
    """Delete the logo and the contact lines, and show no brand until it is allowed.

    Raises BrandUnchanged.
    """
    lock_workspace(workspace_id)
    changes = {
        **_logo_values(None),
        "contact_line": "",
        "contact_line_sw": "",
        "barred_at": now(),
        "barred_reason": reason,
    }
    found = Brand.objects.filter(workspace=workspace_id, barred_at=None)
    if not found.update(**changes):
        raise BrandUnchanged("The brand was removed before.")


@transaction.atomic
def allow_brand(workspace_id: UUID) -> None:
    """Let the members set a brand again. Raises BrandUnchanged."""
    lock_workspace(workspace_id)
    barred = Brand.objects.filter(workspace=workspace_id, barred_at__isnull=False)
    if not barred.update(barred_at=None, barred_reason=""):
        raise BrandUnchanged("The brand was allowed before.")
