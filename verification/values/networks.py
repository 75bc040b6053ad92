"""Networks that a setting or an API key names, and the addresses in them."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_NETWORKS = 20
# The longest is an IPv6 address without abbreviations, and its prefix.
MAX_LENGTH = 43
# IPv6 writes an IPv4 address behind these bits (RFC 4291, 2.5.5.2).
MAPPED = IPv6Network("::ffff:0:0/96")


class WrongNetwork(ValueError):
    """A text is no network that a list may have; `code` says why."""

    def __init__(self, code: str, text: str, meant: str = "") -> None:
        self.code, self.text, self.meant = code, text[:MAX_LENGTH], meant
        super().__init__(
            {
                "unreadable": f"{self.text!r} is no address or network, such as "
                "192.0.2.0/24 or 2001:db8::7.",
                "host-bits": f"{self.text} names an address inside of {meant}: write "
                "the network, or the address alone.",
                "everywhere": f"{self.text} is everywhere: an empty list means that.",
                "too-many": f"There may be at most {MAX_NETWORKS} networks.",
            }[code]
        )


def read_address(text: str) -> Address | None:
    """Return the address, as IPv4 if IPv6 only maps it; None if it cannot be read."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def unmap(network: Network) -> Network:
    """Return the network of the addresses that `read_address` returns."""
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        address = network.network_address.ipv4_mapped
        return ip_network(f"{address}/{network.prefixlen - MAPPED.prefixlen}")
    return network


def read_networks(texts: Iterable[str]) -> list[str]:
    """Return the networks in their shortest form, each once. Raises WrongNetwork."""
    networks = dict.fromkeys(str(_read_network(text.strip())) for text in texts)
    if len(networks) > MAX_NETWORKS:
        raise WrongNetwork("too-many", "")
    return list(networks)


def is_within(address: Address | None, networks: Sequence[str]) -> bool:
    """Return whether the address is in one of the networks, or these name none."""
    if not networks:
        return True
    return address is not None and any(address in n for n in _parsed(tuple(networks)))


@lru_cache(maxsize=1000)
def _parsed(networks: tuple[str, ...]) -> list[Network]:
    return [ip_network(text) for text in networks]


def _read_network(text: str) -> Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise WrongNetwork("unreadable", text) from None
    if "%" in text:
        # A zone has a meaning on one machine alone.
        raise WrongNetwork("unreadable", text)
    given = text.partition("/")[0]
    if ip_network(given).network_address != network.network_address:
        raise WrongNetwork("host-bits", text, str(network))
    network = unmap(network)
    if network.prefixlen == 0:
        raise WrongNetwork("everywhere", text)
    return network
