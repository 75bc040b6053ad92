"""A GavaConnect that answers as the revenue authority's does, over a real socket.

def test_something(kra):
    kra.masks = True                 # as production does
    kra.adapter().ask(...)
    kra.expire("as 500")             # the token, told as 401 or by the gateway

`checkouts` says what faults it knows. https://developer.go.ke
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.fakes.server import Answer, FakeServer, Request
from verification.providers.kra import Kra

BY_PIN, BY_ID = "/checker/v1/pinbypin", "/checker/v1/pin"
# PIN -> type, name, status.
TAXPAYERS = {
    "A744610021G": ("Individual", "JOHN MUTUA MAONGA", "Active"),
    "A521040203F": ("Individual", "JANE WANJIKU KAMAU", "Suspended"),
    "A521040204F": ("Individual", "JANE WANJIKU KAMAU", "Cancelled"),
    "A521040205F": ("Individual", "JANE WANJIKU KAMAU", "Stopped"),
    "A521040206F": ("Individual", "JANE WANJIKU KAMAU", "Dormant"),
    "P318295670X": ("Non Individual", "ACACIA TEA LIMITED", "Active"),
}
IDS = {"41789723": "A744610021G", "20000001": "A521040203F"}
FAULT = {
    "fault": {
        "faultstring": "Access Token expired",
        "detail": {"errorcode": "keymanagement.service.access_token_expired"},
    }
}


class FakeKra(FakeServer):
    api_prefixes: ClassVar = ("/",)

    def __init__(self) -> None:
        super().__init__()
        # key -> secret, and the products its tokens are for
        self.clients = {"key": ("secret", {BY_PIN, BY_ID})}
        self.tokens: dict[str, set[str]] = {}
        self.expired_as = ""
        self.expires_in: Any = "3599"
        self.masks = False
        # It knows no PIN, not even one that it gives by an ID.
        self.is_forgetful = False
        # Answered instead, as (status, body).
        self.says: tuple[int, Any] | None = None

    def adapter(self, **options: str) -> Kra:
        return Kra("key", "secret", self.url, [self.host], **options)

    def expire(self, told: str) -> None:
        self.tokens.clear()
        self.expired_as = told

    def asked(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    def api(self, request: Request) -> Answer:
        if request.path == "/v1/token/generate":
            return self._token(request)
        products = self.tokens.get(request.headers.get("authorization", ""))
        if products is None:
            if self.expired_as == "as 500":
                return Answer(500, FAULT)
            return _error(401, "401", "invalid_token")
        if request.path not in products:
            return _error(403, "403", "Not allowed for this product")
        if self.says:
            return Answer(*self.says)
        asked = json.loads(request.body)
        return self._by_pin(asked) if request.path == BY_PIN else self._by_id(asked)

    def _token(self, request: Request) -> Answer:
        given = request.headers.get("authorization", "").removeprefix("Basic ")
        key, _, secret = base64.b64decode(given).decode().partition(":")
        known = self.clients.get(key)
        is_right = known and known[0] == secret
        if not is_right or request.query != {"grant_type": "client_credentials"}:
            return _error(401, "401", "Client credentials are invalid")
        token = f"token-{len(self.requests)}"
        self.tokens[f"Bearer {token}"] = known[1]
        return Answer(200, {"access_token": token, "expires_in": self.expires_in})

    def _by_pin(self, asked: dict[str, str]) -> Answer:
        pin = asked["KRAPIN"]
        if pin not in TAXPAYERS or self.is_forgetful:
            told = {"ResponseCode": "19005", "Message": "Invalid PIN", "Status": "NOK"}
            return Answer(200, told)
        kind, name, status = TAXPAYERS[pin]
        data = {
            "KRAPIN": f"{pin[0]}***{pin[-2:]}" if self.masks else pin,
            "TypeOfTaxpayer": kind,
            "Name": masked(name) if self.masks else name,
            "StatusOfPIN": status,
        }
        told = {"ResponseCode": "23000", "Message": "Valid PIN", "Status": "OK"}
        return Answer(200, {**told, "PINDATA": data})

    def _by_id(self, asked: dict[str, str]) -> Answer:
        if not asked.get("TaxpayerID") or asked.get("TaxpayerType") != "KE":
            return _error(400, "400", "Missing parameter")
        pin = IDS.get(asked["TaxpayerID"])
        if pin is None:
            return _error(200, "30002", "Invalid ID number")
        data = {"TaxpayerPIN": pin, "TaxpayerName": TAXPAYERS[pin][1]}
        return Answer(200, {"ResponseCode": "30000", **data})


def masked(name: str) -> str:
    return re.sub(r"\b(\w)\w+?(\w{1,2})\b", r"\1**\2", name.title())


def _error(status: int, code: str, message: str) -> Answer:
    if status == 401:
        return Answer(401, {"errorCode": code, "errorMessage": message})
    return Answer(status, {"ErrorCode": code, "ErrorMessage": message})


@pytest.fixture
def kra() -> Iterator[FakeKra]:
    with FakeKra() as fake:
        yield fake
