from typing import Any

import pytest
from django.test import RequestFactory

from verification.web.request import client_address


@pytest.mark.parametrize(
    ("hop", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7:4711", "198.51.100.7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[::ffff:198.51.100.7]:4711", "198.51.100.7"),
        ("198.51.100.7:x", "10.0.0.1"),
    ],
)
def test_client_has_its_own_address_where_a_proxy_writes_its_port(
    settings: Any, hop: str, address: str
) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    request = RequestFactory().get(
        "/", REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=f"203.0.113.1, {hop}"
    )
    assert str(client_address(request)) == address
