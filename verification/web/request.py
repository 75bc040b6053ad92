"""Facts of a request: its id, its token, and the client's browser and address."""

import re
from contextvars import ContextVar
from ipaddress import ip_network

from django.conf import settings
from django.http import HttpRequest

from verification.values.networks import Address, read_address

USER_AGENT_LENGTH = 500
# 198.51.100.7:4711, [2001:db8::7]:4711 or [2001:db8::7]
PORT = re.compile(r"^(?:([0-9.]+):[0-9]+|\[([^\]]+)\](?::[0-9]+)?)$")
# The keys in META under which the middlewares find the API key of a request, even one
# that was refused, and the headers of its rate limit.
API_KEY = "verification.api_key"
API_HEADERS = "verification.api_headers"

request_id: ContextVar[str] = ContextVar("request_id", default="")


def current_request_id() -> str:
    """Return the id of the current request, or "" outside of a request."""
    return request_id.get()


def is_api(request: HttpRequest) -> bool:
    return f"{request.path_info}/".startswith("/api/")


def bearer_token(request: HttpRequest) -> str | None:
    """Return the token after `Bearer` in Authorization, if it has one."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not token or re.search(r"[\s,]", token):
        return None
    return token


def client_address(request: HttpRequest) -> Address | None:
    """Return the nearest address that is not one of TRUSTED_PROXIES.

    X-Forwarded-For is read from the right: each trusted proxy vouches for the entry
    to its left, and what a client writes itself stands further left. Some proxies
    write the port after the address.
    """
    address = read_address(request.META.get("REMOTE_ADDR", ""))
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    proxies = [ip_network(entry, strict=False) for entry in settings.TRUSTED_PROXIES]
    while address and hops and any(address in proxy for proxy in proxies):
        before = read_address(PORT.sub(r"\1\2", hops.pop().strip()))
        if before is None:
            break
        address = before
    return address


def user_agent(request: HttpRequest) -> str:
    """Return the browser's User-Agent, cut to the length that evidence keeps."""
    return request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH]
