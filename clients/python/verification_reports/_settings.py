"""The key, the address, and what every request has of them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from ._requests import Request
from ._version import __version__

ENVIRONMENTS = {"vrf_test_": "sandbox", "vrf_live_": "production"}


@dataclass(frozen=True)
class Settings:
    api_key: str = field(repr=False)
    base_url: str
    environment: str

    def arguments(self, request: Request[Any]) -> dict[str, Any]:
        """Return the arguments of httpx for all attempts at one request."""
        arguments = request.arguments()
        arguments["url"] = self.base_url + arguments["url"]
        arguments["headers"] |= {
            "Authorization": f"Bearer {self.api_key}",
            "User-Agent": f"verification-reports-python/{__version__}",
        }
        return arguments


def read(api_key: str | None, base_url: str | None) -> Settings:
    """Return the settings; raise ValueError if one is missing or wrong."""
    key = (api_key or os.environ.get("VERIFICATION_API_KEY", "")).strip()
    address = (base_url or os.environ.get("VERIFICATION_BASE_URL", "")).strip()
    environment = ENVIRONMENTS.get(key[:9])
    if environment is None or not re.fullmatch(r"\w+", key, re.ASCII):
        raise ValueError("the API key must begin with vrf_test_ or vrf_live_")
    if not address.startswith(("https://", "http://")):
        raise ValueError("base_url must be the address of the service, with https://")
    address = re.sub(r"/+(api/v1/*)?$", "", address)
    return Settings(api_key=key, base_url=address, environment=environment)
