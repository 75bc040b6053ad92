"""The key and the address, which every request carries."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from ._requests import IDEMPOTENCY_KEY, Request
from ._version import __version__
from .types import Unset

ENVIRONMENTS = {"vrf_test_": "sandbox", "vrf_live_": "production"}


@dataclass(frozen=True)
class Settings:
    api_key: str = field(repr=False)
    base_url: str
    environment: str

    def arguments(self, request: Request[Any]) -> dict[str, Any]:
        """Return the arguments of httpx for all attempts at one request.

        The attempts at an order have one key, so it is made and billed once.
        """
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "User-Agent": f"verification-reports-python/{__version__}",
            **request.headers,
        }
        if IDEMPOTENCY_KEY in headers and not headers[IDEMPOTENCY_KEY]:
            headers[IDEMPOTENCY_KEY] = str(uuid.uuid4())
        params = {
            name: value
            for name, value in request.params.items()
            if value is not None and not isinstance(value, Unset)
        }
        return {
            "method": request.method,
            "url": self.base_url + request.path,
            "params": params,
            "headers": headers,
            "json": request.json,
        }


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
