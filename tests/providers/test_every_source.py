import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from environs import EnvError

from tests.fakes.companies_house import companies_house as companies_house
from tests.fakes.gleif import gleif as gleif
from tests.fakes.kra import kra as kra
from tests.fakes.metropol import metropol as metropol
from tests.fakes.opensanctions import opensanctions as opensanctions
from tests.fakes.prembly import prembly as prembly
from tests.fakes.smile_id import smile_id as smile_id
from tests.providers.inquiries import inquiry
from verification.checks import apps
from verification.checks.catalogue import CATALOGUE
from verification.providers import registry
from verification.providers.base import (
    AnswerPending,
    ConsentEvidence,
    ProviderError,
    Refused,
    Unavailable,
)
from verification.providers.registry import REFEREE_CHECK, route_for
from verification.providers.sandbox import CHECKS as CHECKS_OF_SANDBOX
from verification.providers.sandbox import Case, Sandbox
from verification.settings.providers import (
    DEFAULT_ROUTES,
    Limit,
    checks_by_source,
    find_missing_credentials,
    find_route_errors,
    live_providers,
    source_limits,
    source_routes,
)

CREDENTIALS = {
    "smile_id": {"SMILE_ID_PARTNER_ID": "085", "SMILE_ID_API_KEY": "of no worth"},
    # V3 uses the account of `smile_id`.
    "smile_id_v3": {"SMILE_ID_V3_POLICY_URL": "https://reports.test/privacy"},
    "metropol": {
        "METROPOL_PUBLIC_KEY": "of no worth",
        "METROPOL_PRIVATE_KEY": "of none either",
        "METROPOL_URL": "https://api.metropol.co.ke:22225/v2_1",
    },
    "prembly": {"PREMBLY_APP_ID": "app", "PREMBLY_API_KEY": "of no worth"},
    "companies_house": {"COMPANIES_HOUSE_API_KEY": "of no worth"},
    "gleif": {"GLEIF_ENABLED": "True"},
    "opensanctions": {"OPENSANCTIONS_URL": "https://api.opensanctions.org"},
    "watchlists": {"AML_LISTS": "UN"},
    "kra": {"KRA_CLIENT_ID": "id", "KRA_CLIENT_SECRET": "of no worth"},
}
CHECKS = [entry.name for entry in CATALOGUE]
NUMBERS = {
    "idNumber": "12345678",
    "kraPin": "A012345678Z",
    "registrationNumber": "12345678",
}
ONE_COUNTRY = {
    "companies_house",
    "kra",
    "metropol",
    "prembly",
    "smile_id",
    "smile_id_v3",
}
GIVEN = ConsentEvidence(datetime.now(UTC), "SERVICE_HOSTED", "ke-2026-11d", "en")
# This source reads our own tables.
WITHOUT_NETWORK = {"watchlists"}
# Every source in every built-in route.
ASKED = [
    (check, country, nth)
    for check, by_country in DEFAULT_ROUTES.items()
    for country, names in by_country.items()
    for nth, name in enumerate(names)
    if name not in WITHOUT_NETWORK
]


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Replace the environment variables by an empty dict."""
    variables: dict[str, str] = {}
    monkeypatch.setattr("os.environ", variables)
    yield variables
    registry.configure({}, {})


@pytest.fixture
def every_source(env: dict[str, str]) -> None:
    for variables in CREDENTIALS.values():
        env.update(variables)
    registry.configure(live_providers(), source_routes())


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Refuse all connections, and return the list of attempts."""
    tried: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        tried.append(arguments)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tried


@pytest.mark.parametrize("check", CHECKS)
def test_sandbox_reaches_no_source(every_source, connections, check):
    for digit in range(10):
        numbers = {
            "idNumber": f"9000000{digit}",
            "kraPin": f"A90000000{digit}Z",
            "registrationNumber": f"SBX-000000{digit}",
        }
        asked = inquiry(check, fullName="Ada Obi", **numbers)

        with suppress(ProviderError, AnswerPending):
            route_for(check, "sandbox", "KE").providers[0].ask(asked)

        assert connections == [], digit


@pytest.mark.parametrize(("check", "country", "nth"), ASKED)
def test_production_calls_the_source_and_fails_without_it(
    every_source, connections, check, country, nth
):
    numbers = {"idNumber": "12345678", "kraPin": "A012345678Z"}
    company = "12345678" if country == "GB" else "PVT-AB12CDE"
    asked = inquiry(
        check,
        fullName="Ada Obi",
        country="UG" if country == "*" else country,
        registrationNumber=company,
        firstName="Ada",
        lastName="Obi",
        email="ada@obi.test",
        **numbers,
    )
    asked = replace(asked, given=GIVEN)

    with pytest.raises(ProviderError) as error:
        route_for(check, "production", country).providers[nth].ask(asked)

    assert error.value.code == "SOURCE_UNAVAILABLE"
    assert connections
    assert "12345678" not in error.value.message


@pytest.mark.parametrize(
    ("source", "check", "country"),
    [
        ("companies_house", "BUSINESS_VERIFICATION", "GB"),
        ("gleif", "BUSINESS_VERIFICATION", "UG"),
        ("kra", "KRA_PIN", "KE"),
        ("metropol", "CRB_SCORE", "KE"),
        ("opensanctions", "AML_SCREENING", "KE"),
        ("prembly", "IDENTITY", "KE"),
        ("smile_id", "IDENTITY", "KE"),
    ],
)
def test_slow_source_times_out(request, monkeypatch, source, check, country):
    monkeypatch.setattr(f"verification.providers.{source}.SECONDS", 0.1)
    fake = request.getfixturevalue(source)
    fake.faults.slow = 0.4
    asked = inquiry(check, fullName="Ada Obi", country=country, **NUMBERS)

    with pytest.raises(Unavailable, match="in time"):
        fake.adapter().ask(asked)


@pytest.mark.parametrize(
    ("source", "check"),
    [
        (source, check)
        for source, checks in checks_by_source().items()
        for check in sorted(checks)
        if source in ONE_COUNTRY
    ],
)
@pytest.mark.parametrize("country", ["UG", None])
def test_source_of_one_country_refuses_numbers_of_others_without_a_call(
    every_source, connections, source, check, country
):
    asked = inquiry(check, fullName="Ada Obi", country=country, **NUMBERS)

    with pytest.raises(Refused) as error:
        registry.provider_named(source).ask(asked)

    assert error.value.code == "SOURCE_REFUSED"
    assert "in this country" in error.value.message
    assert connections == []


@pytest.mark.parametrize(
    ("source", "check"),
    [
        ("smile_id", "IDENTITY"),
        ("smile_id", "KRA_PIN"),
        ("smile_id_v3", "IDENTITY"),
        ("prembly", "IDENTITY"),
        ("kra", "KRA_PIN"),
        ("metropol", "CRB_SCORE"),
    ],
)
def test_source_refuses_the_number_of_a_passport_without_a_call(
    every_source, connections, source, check
):
    contact = {"firstName": "Ada", "lastName": "Obi", "email": "ada@obi.test"}
    asked = inquiry(check, fullName="Ada Obi", idNumber="A1234567", **contact)
    asked = replace(asked, given=GIVEN)

    with pytest.raises(Refused, match="national ID cards") as error:
        registry.provider_named(source).ask(asked)

    assert error.value.code == "SOURCE_REFUSED"
    assert connections == []


@pytest.mark.parametrize("source", sorted(checks_by_source()))
def test_source_refuses_other_checks_without_a_call(every_source, connections, source):
    adapter = registry.provider_named(source)
    for check in sorted(set(CHECKS) - checks_by_source()[source]):
        country = next(iter(adapter.countries), "KE")
        asked = inquiry(check, fullName="Ada Obi", country=country, **NUMBERS)
        with pytest.raises(Refused):
            adapter.ask(asked)

    assert connections == []


@pytest.mark.parametrize("variable", ["SOURCES_KRA_PIN_UG", "SOURCES_KRA_PIN_OTHERS"])
def test_route_of_another_country_skips_kenyan_sources(env, settings, variable):
    env.update(CREDENTIALS["kra"])
    env[variable] = "kra"
    registry.configure(live_providers(), source_routes())
    settings.PROVIDERS, settings.SOURCE_ROUTES = (
        live_providers(),
        source_routes(),
    )

    assert not registry.has_source("KRA_PIN", "production", "UG")
    assert registry.has_source("KRA_PIN", "production", "KE")
    with pytest.raises(Refused) as error:
        route_for("KRA_PIN", "production", "UG").providers[0].ask(inquiry("KRA_PIN"))
    assert error.value.code == "PROVIDER_NOT_CONFIGURED"
    (told,) = [m for m in apps.check_sources() if m.id == "checks.E002"]
    assert told.msg == f"{variable}: kra is asked about subjects in KE alone."


def test_route_skips_a_source_that_does_not_cover_the_country(env):
    env.update(CREDENTIALS["gleif"] | CREDENTIALS["smile_id"])
    env["SOURCES_BUSINESS_VERIFICATION_UG"] = "smile_id,gleif"
    registry.configure(live_providers(), source_routes())

    route = route_for("BUSINESS_VERIFICATION", "production", "UG")

    assert [one.name for one in route.providers] == ["gleif"]


def test_sandbox_fills_no_field_that_live_sources_omit(every_source):
    for entry in CATALOGUE:
        sources = registry.sources_of(entry.name)
        told = [set(one.not_told.get(entry.name, ())) for one in sources]
        never = set.intersection(*told) if told else set()
        assert set(Sandbox.not_told.get(entry.name, ())) == never, entry.name
        fixtures = CHECKS_OF_SANDBOX[entry.name]
        for fixture in [*fixtures.fixtures.values(), *fixtures.changing]:
            subject = {"subjectType": entry.subject_types[0], "fullName": "Ada Obi"}
            details = fixture.details(Case(subject, 1))
            assert never <= {name for name, value in details.items() if value is None}


def test_page_of_checks_lists_the_omitted_fields(every_source):
    page = (settings.BASE_DIR / "docs" / "client" / "checks.md").read_text()
    wanted = [
        f"- {entry.name}, `{one.name}`: "
        + ", ".join(f"`{name}`" for name in one.not_told[entry.name])
        for entry in CATALOGUE
        for one in registry.sources_of(entry.name)
        if one.not_told.get(entry.name)
    ]

    section = page.partition("## What sources do not tell\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^- .*", section, re.MULTILINE)
    assert rows == wanted


def test_every_check_has_a_source_or_a_referee(every_source):
    lacking = [
        check
        for check in CHECKS
        if not route_for(check, "production", "KE").is_live and check != REFEREE_CHECK
    ]

    assert set(lacking) == set(CHECKS) - set(DEFAULT_ROUTES) - {REFEREE_CHECK}


def test_source_without_credentials_is_not_configured(env):
    assert live_providers() == {}
    assert find_missing_credentials() == []


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        (source, name)
        for source, names in CREDENTIALS.items()
        for name in names
        if len(names) > 1
    ],
)
def test_half_configured_source_is_reported_and_unused(env, source, left_out):
    env.update(CREDENTIALS[source])
    del env[left_out]

    assert find_missing_credentials() == [left_out]
    assert live_providers() == {}


def test_key_of_opensanctions_without_its_url_is_reported(env):
    env["OPENSANCTIONS_API_KEY"] = "of no worth"

    assert find_missing_credentials() == ["OPENSANCTIONS_URL"]
    assert live_providers() == {}


def test_smile_id_v3_without_its_account_is_reported_and_unused(env):
    env.update(CREDENTIALS["smile_id_v3"])

    assert find_missing_credentials() == [
        "SMILE_ID_PARTNER_ID",
        "SMILE_ID_API_KEY",
    ]
    assert live_providers() == {}


def test_account_of_smile_id_alone_uses_v1(env):
    env.update(CREDENTIALS["smile_id"])

    assert list(live_providers()) == ["smile_id"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SMILE_ID_URL", "api.smileidentity.com"),
        ("METROPOL_URL", "api.metropol.co.ke:22225"),
        ("KRA_URL", "https://api.kra.go.ke:99999"),
        ("GLEIF_URL", "https://[::1"),
        ("OPENSANCTIONS_URL", " "),
        ("SMILE_ID_V3_POLICY_URL", "our page"),
        ("SMILE_ID_PARTNER_ID", " "),
        ("OUTBOUND_PRIVATE_HOSTS", "http://yente:8000"),
        ("OUTBOUND_PRIVATE_HOSTS", "10.0.0.0/8"),
        ("OUTBOUND_PRIVATE_HOSTS", "YENTE"),
    ],
)
def test_setting_that_no_call_could_use_is_refused_by_name(env, name, value):
    env[name] = value

    with pytest.raises(ImproperlyConfigured, match=f"^{name} "):
        live_providers()


@pytest.mark.parametrize("days", ["0", "99999999999"])
def test_age_of_lists_out_of_range_is_refused(env, days):
    env["AML_LIST_DAYS"] = days

    with pytest.raises(EnvError, match="AML_LIST_DAYS"):
        live_providers()


def test_empty_address_is_the_built_in_one(env):
    env.update(CREDENTIALS["smile_id"] | {"SMILE_ID_URL": ""})

    assert live_providers()["smile_id"][1]["url"] == "https://api.smileidentity.com"


def test_private_hosts_may_follow_a_space(env):
    env.update(CREDENTIALS["opensanctions"])
    env["OUTBOUND_PRIVATE_HOSTS"] = "yente:8000, kyc.bank.internal"

    _, options = live_providers()["opensanctions"]
    assert options["opened"] == {"yente:8000", "kyc.bank.internal"}


def test_private_hosts_are_opened_for_sources_one_by_one(env):
    env.update(CREDENTIALS["opensanctions"])
    env["OUTBOUND_PRIVATE_HOSTS"] = "yente.bank.internal:8000,kyc.bank.internal"

    _, options = live_providers()["opensanctions"]

    assert options["opened"] == {"yente.bank.internal:8000", "kyc.bank.internal"}


def test_secret_is_read_from_its_file(env, tmp_path):
    env.update(CREDENTIALS["kra"])
    del env["KRA_CLIENT_SECRET"]
    (tmp_path / "secret").write_text("from a file\n")
    env["KRA_CLIENT_SECRET_FILE"] = str(tmp_path / "secret")

    _, options = live_providers()["kra"]

    assert options["client_secret"] == "from a file"


def test_incomplete_second_pair_of_kra_is_reported(env):
    env.update(CREDENTIALS["kra"], KRA_ID_CLIENT_ID="another")
    assert find_missing_credentials() == ["KRA_ID_CLIENT_SECRET"]

    env["KRA_ID_CLIENT_SECRET"] = "word"
    assert find_missing_credentials() == []
    assert live_providers()["kra"][1]["by_id_client_id"] == "another"


def test_every_adapter_declares_its_properties(every_source):
    assert live_providers().keys() == checks_by_source().keys()
    for name in checks_by_source():
        adapter = registry.provider_named(name)
        assert adapter.name == name
        assert adapter.waits_on_network is (name not in WITHOUT_NETWORK)
        assert adapter.repeats_are_free in {True, False}


def test_environment_sets_the_routes(env):
    env["SOURCES_KRA_PIN"] = "smile_id, kra"
    env["SOURCES_BUSINESS_VERIFICATION_UG"] = "gleif"
    env["SOURCES_CRB_FULL"] = ""
    env["SOURCES_AML_SCREENING_OTHERS"] = "watchlists"

    found = source_routes()

    assert find_route_errors() == []
    assert found["KRA_PIN"]["KE"] == ("smile_id", "kra")
    business = DEFAULT_ROUTES["BUSINESS_VERIFICATION"]
    assert found["BUSINESS_VERIFICATION"] == {**business, "UG": ("gleif",)}
    assert found["CRB_FULL"]["KE"] == ()
    assert found["AML_SCREENING"]["*"] == ("watchlists",)
    assert found["CRB_SCORE"] == DEFAULT_ROUTES["CRB_SCORE"]


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SOURCES_KRA_PINS", "kra", "SOURCES_KRA_PINS names no check"),
        ("SOURCES_KRA_PIN_KENYA", "kra", "SOURCES_KRA_PIN_KENYA names no check"),
        # The United Kingdom is GB.
        ("SOURCES_KRA_PIN_UK", "kra", "UK is no ISO 3166-1 code"),
        ("SOURCES_KRA_PIN", "kra,acme", "'acme': no such source"),
        ("SOURCES_CRB_SCORE", "kra", "kra does not answer CRB_SCORE"),
        ("SOURCES_KRA_PIN", "kra,kra", "names a source twice"),
        ("KRA_AT_ONCE", "0", "KRA_AT_ONCE must be at least 1"),
        ("KRA_A_MINUTE", "0", "KRA_A_MINUTE must be at least 1"),
    ],
)
def test_system_checks_report_a_wrong_route(env, settings, variable, value, told):
    env[variable] = value
    settings.SOURCE_ROUTES_WRONG = find_route_errors()

    (message,) = apps.check_sources()

    assert message.id == "checks.E002"
    assert told in message.msg


def test_limits_of_a_source_come_from_the_environment(env):
    env.update(KRA_AT_ONCE="7", KRA_A_MINUTE="60")

    assert source_limits()["kra"] == Limit(7, 60)
    assert source_limits()["metropol"] == Limit(128, None)


def test_system_checks_report_a_check_without_a_source(env, settings):
    env.update(CREDENTIALS["kra"])
    settings.PROVIDERS, settings.SOURCE_ROUTES = (
        live_providers(),
        source_routes(),
    )

    (message,) = apps.check_sources()

    assert message.id == "checks.W002"
    assert "IDENTITY in KE" in message.msg
    assert "KRA_PIN" not in message.msg


def test_system_checks_report_both(env, settings):
    env.update(CREDENTIALS["kra"], KRA_URL="https://sbx.kra.go.ke")
    settings.PROVIDERS, settings.PROVIDERS_LACK = live_providers(), ["ACME_KEY"]
    settings.SOURCE_ROUTES = {"KRA_PIN": {"KE": ("kra",)}}

    told = apps.check_sources()

    assert [message.id for message in told] == ["checks.E001", "checks.W001"]
    assert "ACME_KEY" in told[0].msg
    assert "kra" in told[1].msg
