"""The recipients of a person's details, as notices name them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from verification.providers.base import Provider
from verification.providers.opensanctions import OpenSanctions

FILE = Path(__file__).with_name("recipients.toml")
HOME = "KE"
# This source searches the operator's own lists, so no details leave the installation.
LOCAL_SOURCE = "watchlists"


@dataclass(frozen=True, slots=True)
class Recipient:
    """A company that receives details of the subject.

    `register` is the register that it asks in its turn, and `safeguards` protect
    details that leave Kenya; both may be blank.
    """

    name: str
    country: str = ""
    country_code: str = ""
    is_abroad: bool = False
    register: str = ""
    safeguards: str = ""


def recipient(provider: Provider, check: str, language: str) -> Recipient | None:
    """Return the recipient, or None for a source that runs in this installation.

    A source without an entry in the file goes by its own name.
    """
    if provider.name == LOCAL_SOURCE:
        return None
    if isinstance(provider, OpenSanctions) and not provider.is_hosted:
        return None
    known = _file()["sources"].get(provider.name)
    if known is None:
        return Recipient(provider.name)
    return Recipient(
        known["name"][language],
        _file()["countries"][known["country"]][language],
        known["country"],
        known["country"] != HOME,
        known.get("asks", {}).get(check, {}).get(language, ""),
        known.get("safeguards", {}).get(language, ""),
    )


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text("utf-8"))
