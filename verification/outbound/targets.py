"""Allow calls to public addresses only.

Clients choose their receivers, so no name is trusted: `check_url` checks the URL, and
`GuardedResolver` checks the addresses of the name at each connection. The connection
uses these addresses without another look-up.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import idna
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

MAX_URL = 2048
PORTS = {443, 8443}

# Domains with a meaning only inside a private network.
INTERNAL_DOMAINS = (
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "onion",
    "private",
)
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# A host whose last label fits is an address: 127.1, 0x7f.1, 2130706433.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# Special-purpose ranges of IANA's registries, and every form of IPv6 that carries an
# IPv4 address. `is_global` alone accepts some of them, depending on Python's version.
DENIED = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
]

# A function like `loop.getaddrinfo`: takes host and port, returns a list of tuples.
Lookup = Callable[..., Awaitable[list[tuple[Any, ...]]]]


class Blocked(Exception):
    """The target is forbidden. The text gives the reason and shows no address."""


def check_url(url: str, opened: Collection[str] = ()) -> yarl.URL:
    """Return the URL to call, built from checked parts. Raises Blocked.

    `opened` are hosts of a development setting, each `host` or `host:port` in lower
    case; these need only https and a well-formed URL.
    """
    parts = _split(url)
    host = _encoded(parts.hostname or "")
    port = _port(parts)
    if not is_allowed_host(host, port, opened):
        if port not in PORTS:
            raise Blocked("The port must be 443 or 8443.")
        _check_name(host)
    # Marked as encoded, so that no second parser can find another host in it.
    return yarl.URL.build(
        scheme="https",
        host=f"[{host}]" if ":" in host else host,
        port=None if port == 443 else port,
        path=quote(parts.path or "/", safe="/%:@!$&'()*+,;=~"),
        query_string=quote(parts.query, safe="/?%:@!$&'()*+,;=~"),
        encoded=True,
    )


def is_allowed_host(host: str, port: int, opened: Collection[str]) -> bool:
    named = f"[{host}]" if ":" in host else host
    return host in opened or f"{named}:{port}" in opened


def _split(url: str) -> SplitResult:
    if len(url) > MAX_URL:
        raise Blocked(f"The URL must have at most {MAX_URL} characters.")
    if any(c.isspace() or not c.isprintable() or c == "\\" for c in url):
        raise Blocked("The URL must not contain spaces, control characters or \\.")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Blocked("The URL is malformed.") from None
    if parts.scheme != "https":
        raise Blocked("The URL must begin with https://.")
    if "@" in parts.netloc:
        raise Blocked("The URL must not contain a user name or password.")
    if "#" in url:
        raise Blocked("The URL must not have a fragment.")
    return parts


def _port(parts: SplitResult) -> int:
    try:
        return 443 if parts.port is None else parts.port
    except ValueError:
        raise Blocked("The port must be 443 or 8443.") from None


def _encoded(host: str) -> str:
    """Return the host as DNS writes it: lower case, IDNA, without a final dot."""
    if ":" in host:
        # An IPv6 address from between brackets; only an opened one is allowed.
        return host.lower()
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True, std3_rules=True).decode()
        except idna.IDNAError:
            raise Blocked("The host name is malformed.") from None
    host = host.lower().removesuffix(".")
    if len(host) > 253 or not all(LABEL.fullmatch(part) for part in host.split(".")):
        raise Blocked("The host name is malformed.")
    return host


def _check_name(host: str) -> None:
    if ":" in host or NUMBER.fullmatch(host.rpartition(".")[2]):
        raise Blocked("The host must be a name, not an address.")
    if "." not in host:
        raise Blocked("The host name must have a dot.")
    if host.endswith(tuple(f".{name}" for name in INTERNAL_DOMAINS)):
        raise Blocked("The host name must not be one of a private network.")


def check_address(address: str) -> None:
    """Raise Blocked unless the address is a public one of a single host."""
    try:
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        raise Blocked("The host has no usable address.") from None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    if not ip.is_global or any(ip in network for network in DENIED):
        raise Blocked("The host resolves to an address that may not be called.")


def check_host(host: str) -> None:
    """Raise Blocked if the host is an address that may not be called, or local."""
    if ":" in host or NUMBER.fullmatch(host.rpartition(".")[2]):
        check_address(host)
    elif host == "localhost" or host.endswith(".localhost"):
        raise Blocked("The host name must not be one of a private network.")


class GuardedResolver(AbstractResolver):
    """Resolve a name once and check all its addresses: one bad address blocks it.

    aiohttp connects to the addresses that `resolve` returns. It raises Blocked, or
    OSError if the name is unknown. `lookup` replaces the loop's getaddrinfo.
    """

    def __init__(
        self, opened: Collection[str] = (), lookup: Lookup | None = None
    ) -> None:
        self._opened = opened
        self._lookup = lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,
    ) -> list[ResolveResult]:
        lookup = self._lookup or asyncio.get_running_loop().getaddrinfo
        found = await lookup(host, port, type=socket.SOCK_STREAM, family=family)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        if not is_allowed_host(host, port, self._opened):
            for *_, address in found:
                check_address(address[0])
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=port,
                family=family,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for family, _, proto, _, address in found
        ]

    async def close(self) -> None:
        pass
