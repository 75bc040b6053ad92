import asyncio
import socket

import pytest

from verification.outbound.targets import (
    Blocked,
    GuardedResolver,
    check_address,
    check_url,
)

ADDRESS_DENIED = [
    # This host, private networks, carrier NAT, loopback, link-local with metadata.
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    # Protocol assignments, documentation, AS112, relays, benchmarks.
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    # Multicast, reserved, broadcast.
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    # Unspecified, loopback, IPv4-compatible and IPv4-mapped.
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:7f00:1",
    "::ffff:224.0.0.1",
    # NAT64, 6to4 and Teredo carry an IPv4 address, too.
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    # Discard, protocol assignments, documentation, AS112, segment routing.
    "100::1",
    "2001:20::1",
    "2001:db8::1",
    "2620:4f:8000::1",
    "3fff::1",
    "5f00::1",
    # Unique local with metadata, link-local with and without zone, site-local.
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "::1%lo",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    # No addresses at all.
    "",
    "localhost",
    "127.1",
    "0x7f.1",
    "2130706433",
]
ADDRESS_ALLOWED = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "128.0.0.1",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "196.201.214.200",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2c0f:fb50:4002::1",
]


@pytest.mark.parametrize("address", ADDRESS_DENIED)
def test_private_address_is_blocked(address):
    with pytest.raises(Blocked) as e:
        check_address(address)

    assert not address or address not in str(e.value)


@pytest.mark.parametrize("address", ADDRESS_ALLOWED)
def test_public_address_is_allowed(address):
    check_address(address)


NAME = "The host must be a name, not an address."
INSIDE = "The host name must not be one of a private network."
MALFORMED = "The host name is malformed."
PORT = "The port must be 443 or 8443."
USER = "The URL must not contain a user name or password."
CHARACTERS = "The URL must not contain spaces, control characters or \\."
HTTPS = "The URL must begin with https://."
REFUSED = [
    ("http://hooks.example.com/", HTTPS),
    ("ftp://hooks.example.com/", HTTPS),
    ("hooks.example.com/", HTTPS),
    ("//hooks.example.com/", HTTPS),
    ("", HTTPS),
    ("https://hooks.example.com:80/", PORT),
    ("https://hooks.example.com:22/", PORT),
    ("https://hooks.example.com:0/", PORT),
    ("https://hooks.example.com:65536/", PORT),
    ("https://hooks.example.com:-443/", PORT),
    ("https://hooks.example.com:٤٤٣/", PORT),
    ("https://hooks.example.com:443:443/", PORT),
    ("https://ada@hooks.example.com/", USER),
    ("https://ada:secret@hooks.example.com/", USER),
    ("https://@hooks.example.com/", USER),
    ("https://hooks.example.com:443@127.0.0.1/", USER),
    ("https://hooks.example.com/#top", "The URL must not have a fragment."),
    ("https://hooks.example.com/#", "The URL must not have a fragment."),
    ("https://hooks.example.com#@127.0.0.1/", "The URL must not have a fragment."),
    ("https://hooks.example.com/a b", CHARACTERS),
    (" https://hooks.example.com/", CHARACTERS),
    ("https://hooks.example.com/\n", CHARACTERS),
    ("https://hooks.exa\tmple.com/", CHARACTERS),
    ("https://hooks.example.com/\r\nHost: 127.0.0.1", CHARACTERS),
    ("https://hooks.example.com/\x00", CHARACTERS),
    ("https://hooks.example.com/\x7f", CHARACTERS),
    ("https://hooks.example.com/\x85", CHARACTERS),
    ("https://hooks.example.com/\u00a0", CHARACTERS),
    ("https://hooks.example.com/\u2028", CHARACTERS),
    ("https://hooks.example.com/\ud800", CHARACTERS),
    ("https://hooks.example.com\\@127.0.0.1/", CHARACTERS),
    ("https:\\\\hooks.example.com/", CHARACTERS),
    ("https://127.0.0.1/", NAME),
    ("https://8.8.8.8/", NAME),
    ("https://127.1/", NAME),
    ("https://0x7f.1/", NAME),
    ("https://0X7F.1/", NAME),
    ("https://1.0x7f/", NAME),
    ("https://0x/", NAME),
    ("https://2130706433/", NAME),
    ("https://0177.0.0.1/", NAME),
    ("https://127.0.0.1./", NAME),
    ("https://hooks.example.123/", NAME),
    ("https://127。0。0。1/", NAME),
    ("https://１２７.0.0.1/", NAME),  # noqa: RUF001
    ("https://①②⑦.0.0.1/", NAME),
    ("https://[::1]/", NAME),
    ("https://[::ffff:127.0.0.1]/", NAME),
    ("https://[2606:4700:4700::1111]/", NAME),
    ("https://localhost/", "The host name must have a dot."),
    ("https://localhost./", "The host name must have a dot."),
    ("https://hooks/", "The host name must have a dot."),
    ("https://printer.local/", INSIDE),
    ("https://printer.LOCAL/", INSIDE),
    ("https://printer.local./", INSIDE),
    ("https://metadata.google.internal/", INSIDE),
    ("https://a.localhost/", INSIDE),
    ("https://a.localdomain/", INSIDE),
    ("https://nas.home.arpa/", INSIDE),
    ("https://nas.home/", INSIDE),
    ("https://nas.lan/", INSIDE),
    ("https://wiki.intranet/", INSIDE),
    ("https://wiki.corp/", INSIDE),
    ("https://wiki.private/", INSIDE),
    ("https://a.invalid/", INSIDE),
    ("https://abcdef.onion/", INSIDE),
    ("https://a.ｌｏｃａｌ/", INSIDE),  # noqa: RUF001
    ("https://", MALFORMED),
    ("https:///path", MALFORMED),
    ("https://:443/", MALFORMED),
    ("https://./", MALFORMED),
    ("https://..example.com/", MALFORMED),
    ("https://hooks..com/", MALFORMED),
    ("https://hooks.example.com../", MALFORMED),
    ("https://-hooks.example.com/", MALFORMED),
    ("https://hooks-.example.com/", MALFORMED),
    ("https://hook_s.example.com/", MALFORMED),
    ("https://hooks%2eexample.com/", MALFORMED),
    ("https://hooks.example.com,127.0.0.1/", MALFORMED),
    (f"https://{'a' * 64}.example.com/", MALFORMED),
    (f"https://{'a.' * 126}com/", MALFORMED),
    ("https://\u200b.example.com/", CHARACTERS),
    ("https://☃️.example.com/", MALFORMED),
    ("https://a..ü.example.com/", MALFORMED),
    ("https://[::1/", "The URL is malformed."),
    ("https://hooks.example.com℀/", "The URL is malformed."),
    (
        "https://hooks.example.com/" + "a" * 2023,
        "The URL must have at most 2048 characters.",
    ),
]


@pytest.mark.parametrize(("url", "why"), REFUSED)
def test_bad_url_is_refused_with_the_broken_rule(url, why):
    with pytest.raises(Blocked) as e:
        check_url(url)

    assert str(e.value) == why


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/"),
        ("https://hooks.example.com:443/", "https://hooks.example.com/"),
        ("https://hooks.example.com:/", "https://hooks.example.com/"),
        ("https://hooks.example.com:8443/a", "https://hooks.example.com:8443/a"),
        ("HTTPS://Hooks.Example.COM/A", "https://hooks.example.com/A"),
        ("https://hooks.example.com./", "https://hooks.example.com/"),
        ("https://hooks.example.com?a=1", "https://hooks.example.com/?a=1"),
        ("https://ex.com/a%2Fb/../c;d=1", "https://ex.com/a%2Fb/../c;d=1"),
        ("https://ex.com/?a=%20&b=x@y&c=[1]", "https://ex.com/?a=%20&b=x@y&c=%5B1%5D"),
        ("https://ex.com/jambo/ñ?q=ü", "https://ex.com/jambo/%C3%B1?q=%C3%BC"),
        ('https://ex.com/"<a>', "https://ex.com/%22%3Ca%3E"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://straße.example/", "https://xn--strae-oqa.example/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://hooks。example。com/", "https://hooks.example.com/"),
        ("https://r1---sn-abc.example.com/", "https://r1---sn-abc.example.com/"),
        ("https://1.example.com/", "https://1.example.com/"),
        ("https://0x7f.example/", "https://0x7f.example/"),
        ("https://10.0.0.1.nip.io/", "https://10.0.0.1.nip.io/"),
        ("https://notlocal.example/", "https://notlocal.example/"),
        ("https://ex.com/" + "a" * 2033, "https://ex.com/" + "a" * 2033),
    ],
)
def test_url_keeps_the_parts_that_were_checked(url, called):
    checked = check_url(url)

    assert str(checked) == called
    assert checked.raw_host == called.split("/")[2].partition(":")[0]


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/",
        "https://LOCALHOST:9443/a",
        "https://127.0.0.1:9443/",
        "https://[::1]:9443/",
        "https://printer.local/",
    ],
)
def test_opened_hosts_need_neither_port_nor_dot_nor_name(url):
    opened = {"localhost", "127.0.0.1:9443", "[::1]:9443", "printer.local"}

    assert check_url(url, opened).raw_host in url.lower()
    with pytest.raises(Blocked):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://localhost:9443/", HTTPS),
        ("https://ada@localhost:9443/", USER),
        ("https://localhost:9444/", PORT),
        ("https://hooks.localhost/", INSIDE),
        ("https://127.0.0.2/", NAME),
    ],
)
def test_opened_host_opens_no_other_host(url, why):
    with pytest.raises(Blocked) as e:
        check_url(url, {"localhost:9443", "127.0.0.1"})

    assert str(e.value) == why


def resolved(*addresses, opened=(), host="hooks.example.com", port=443):
    """Resolve a name with these addresses. Returns the result and the look-ups."""
    lookups = []

    async def lookup(host, port, **options):
        lookups.append((host, port))
        return [
            (
                (socket.AF_INET6 if ":" in address else socket.AF_INET),
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    found = asyncio.run(GuardedResolver(opened, lookup).resolve(host, port))
    assert lookups == [(host, port)]
    return [(each["host"], each["port"], each["family"]) for each in found]


def test_resolver_returns_the_public_addresses():
    assert resolved("8.8.8.8", "2606:4700:4700::1111") == [
        ("8.8.8.8", 443, socket.AF_INET),
        ("2606:4700:4700::1111", 443, socket.AF_INET6),
    ]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["8.8.8.8", "10.0.0.1"],
        ["10.0.0.1", "8.8.8.8"],
        ["8.8.8.8", "::1"],
        ["::ffff:169.254.169.254"],
        ["8.8.8.8", "fe80::1%2"],
    ],
)
def test_one_bad_address_blocks_the_name(addresses):
    with pytest.raises(Blocked) as e:
        resolved(*addresses)

    assert not any(address in str(e.value) for address in addresses)


def test_name_without_addresses_is_unknown():
    with pytest.raises(OSError, match="no address"):
        resolved()


def test_opened_host_may_have_any_address():
    here = [("127.0.0.1", 9443, socket.AF_INET)]

    assert resolved("127.0.0.1", opened={"a.test"}, host="a.test", port=9443) == here
    assert resolved("127.0.0.1", opened={"a:9443"}, host="a", port=9443) == here
    with pytest.raises(Blocked):
        resolved("127.0.0.1", opened={"a:9443"}, host="a", port=9444)


def test_resolver_uses_the_system_by_default():
    resolver = GuardedResolver()

    with pytest.raises(Blocked):
        asyncio.run(resolver.resolve("localhost", 443))
