"""The security log: one JSON line for each attempt to get in and each act on the trail.

An account that was only typed stands as a keyed hash: people type passwords there, too.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from verification.addresses import client_address
from verification.encryption import keyed_hash

log = logging.getLogger("verification.security")


def write(
    event: str, outcome: str, request: HttpRequest | None = None, **more: Any
) -> None:
    """Write a line; `outcome` is accepted, refused or locked-out."""
    address = client_address(request) if request is not None else None
    log.log(
        logging.INFO if outcome == "accepted" else logging.WARNING,
        event,
        extra={
            "outcome": outcome,
            "address": str(address) if address else None,
            **more,
        },
    )


def account_of(typed: str) -> str:
    """Return a name for what somebody typed as an account, alike for alike accounts."""
    return str(UUID(bytes=keyed_hash("account", typed.strip().casefold())[:16]))
