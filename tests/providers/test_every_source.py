import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.conf import settings
from environs import Env

from tests.providers.asking import inquiry
from verification.checks import configuration
from verification.checks.catalogue import CATALOGUE
from verification.providers import registry
from verification.providers.base import NotYet, ProviderError
from verification.providers.registry import REFEREES_CHECK, provider_for
from verification.source_settings import ORDER, half_configured, live_providers

CREDENTIALS = {
    "smile_id": {"SMILE_ID_PARTNER_ID": "085", "SMILE_ID_API_KEY": "of no worth"},
    "metropol": {
        "METROPOL_PUBLIC_KEY": "of no worth",
        "METROPOL_PRIVATE_KEY": "of none either",
        "METROPOL_URL": "https://api.metropol.co.ke:22225/v2_1",
    },
    "prembly": {"PREMBLY_APP_ID": "app", "PREMBLY_API_KEY": "of no worth"},
    "companies_house": {"COMPANIES_HOUSE_API_KEY": "of no worth"},
    "gleif": {"GLEIF_ENABLED": "True"},
    "opensanctions": {"OPENSANCTIONS_URL": "https://api.opensanctions.org"},
    "kra": {"KRA_CLIENT_ID": "id", "KRA_CLIENT_SECRET": "of no worth"},
}
CHECKS = [entry.name for entry in CATALOGUE]


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is put in here is the environment of sources."""
    given: dict[str, str] = {}
    monkeypatch.setattr("os.environ", given)
    return given


@pytest.fixture
def every_source(env: dict[str, str]) -> Iterator[None]:
    for variables in CREDENTIALS.values():
        env.update(variables)
    registry.configure(live_providers(Env()))
    yield
    registry.configure(settings.PROVIDERS)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    tried: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        tried.append(arguments)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tried


@pytest.mark.parametrize("digit", range(10))
@pytest.mark.parametrize("check", CHECKS)
def test_the_sandbox_reaches_no_source(every_source, connections, check, digit):
    numbers = {
        "idNumber": f"9000000{digit}",
        "kraPin": f"A90000000{digit}Z",
        "registrationNumber": f"SBX-000000{digit}",
    }
    asked = inquiry(check, fullName="Ada Obi", **numbers)

    with suppress(ProviderError, NotYet):
        provider_for(check, "sandbox").ask(asked)

    assert connections == []


@pytest.mark.parametrize("check", ORDER)
def test_production_asks_the_source_and_a_dead_one_is_no_answer(
    every_source, connections, check
):
    numbers = {"idNumber": "12345678", "registrationNumber": "PVT-AB12CDE"}
    asked = inquiry(check, fullName="Ada Obi", **numbers)

    with pytest.raises(ProviderError) as error:
        provider_for(check, "production").ask(asked)

    assert error.value.code == "SOURCE_UNAVAILABLE"
    assert connections
    assert "12345678" not in error.value.message


def test_every_check_has_a_source_or_a_referee(every_source):
    lacking = [
        check
        for check in CHECKS
        if provider_for(check, "production").name == "none" and check != REFEREES_CHECK
    ]

    assert set(lacking) == set(CHECKS) - set(ORDER) - {REFEREES_CHECK}


def test_without_credentials_nobody_is_asked(env):
    assert live_providers(Env()) == {}
    assert half_configured(Env()) == []


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        (source, name)
        for source, names in CREDENTIALS.items()
        for name in names
        if len(names) > 1
    ],
)
def test_a_source_that_is_half_configured_is_not_asked(env, source, left_out):
    env.update(CREDENTIALS[source])
    del env[left_out]

    assert half_configured(Env()) == [left_out]
    assert live_providers(Env()) == {}


def test_a_key_of_opensanctions_without_its_address_is_told(env):
    env["OPENSANCTIONS_API_KEY"] = "of no worth"

    assert half_configured(Env()) == ["OPENSANCTIONS_URL"]
    assert live_providers(Env()) == {}


def test_a_secret_is_read_from_its_file(env, tmp_path):
    env.update(CREDENTIALS["kra"])
    del env["KRA_CLIENT_SECRET"]
    (tmp_path / "secret").write_text("from a file\n")
    env["KRA_CLIENT_SECRET_FILE"] = str(tmp_path / "secret")

    _, options = live_providers(Env())["KRA_PIN"]

    assert options["client_secret"] == "from a file"


def test_a_second_pair_of_kra_is_whole_or_told(env):
    env.update(CREDENTIALS["kra"], KRA_ID_CLIENT_ID="another")
    assert half_configured(Env()) == ["KRA_ID_CLIENT_SECRET"]

    env["KRA_ID_CLIENT_SECRET"] = "word"
    assert half_configured(Env()) == []
    assert live_providers(Env())["KRA_PIN"][1]["by_id_client_id"] == "another"


def test_the_first_source_in_order_that_is_configured_is_asked(env):
    env.update(CREDENTIALS["smile_id"])
    assert live_providers(Env())["KRA_PIN"][0].endswith("SmileId")

    env.update(CREDENTIALS["kra"])
    assert live_providers(Env())["KRA_PIN"][0].endswith("Kra")
    assert live_providers(Env())["IDENTITY"][0].endswith("SmileId")


def test_checks_at_the_start_tell_of_both(env, settings):
    env.update(CREDENTIALS["kra"], KRA_URL="https://sbx.kra.go.ke")
    settings.PROVIDERS, settings.PROVIDERS_LACK = live_providers(Env()), ["ACME_KEY"]

    told = configuration.check_sources()

    assert [message.id for message in told] == ["checks.E001", "checks.W001"]
    assert "ACME_KEY" in told[0].msg
    assert "KRA_PIN" in told[1].msg
