import pytest

from verification.values.networks import WrongNetwork, read_networks


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("192.0.2.0/24", "192.0.2.0/24"),
        (" 192.0.2.7 ", "192.0.2.7/32"),
        ("192.0.2.0/255.255.255.0", "192.0.2.0/24"),
        ("2001:DB8:0::/32", "2001:db8::/32"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
    ],
)
def test_network_has_one_form(text, network):
    assert read_networks([text, network]) == [network]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "unreadable"),
        ("example.com", "unreadable"),
        ("192.0.2.0/33", "unreadable"),
        ("192.0.2.010", "unreadable"),
        ("fe80::1%eth0", "unreadable"),
        ("fe80::1%eth0/64", "unreadable"),
        ("192.0.2.7/24", "host-bits"),
        ("2001:db8::7/32", "host-bits"),
        ("0.0.0.0/0", "everywhere"),
        ("::/0", "everywhere"),
        ("::ffff:0.0.0.0/96", "everywhere"),
    ],
)
def test_text_that_is_no_network_is_refused_with_its_reason(text, code):
    with pytest.raises(WrongNetwork) as refused:
        read_networks([text])
    assert refused.value.code == code


def test_list_has_at_most_20_networks():
    networks = [f"192.0.2.{n}/32" for n in range(21)]

    assert read_networks([*networks[:20], networks[0]]) == networks[:20]
    with pytest.raises(WrongNetwork, match="at most 20"):
        read_networks(networks)
