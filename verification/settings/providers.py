"""Live sources, their routes, and payment providers, from the environment.

A route is the ordered list of sources for one check and country:

    SOURCES_KRA_PIN=kra,smile_id         subjects in Kenya
    SOURCES_KRA_PIN_UG=smile_id          subjects in Uganda
    SOURCES_KRA_PIN_OTHERS=              all other countries: no source

A later source is called only if those before it cannot be called or do not answer.
Routes that are not set have their built-in value.

Live sources are those with credentials:

    PROVIDERS = live_providers()      # {source: (dotted path, options)}
    find_missing_credentials()        # for `manage.py check`

Only production calls them, which `verification.providers.registry` ensures.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pycountry
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from verification.settings.connections import (
    SPAN,
    host_name,
    host_names,
    one_line,
    web_address,
)
from verification.settings.secrets import header_secret, optional_secret

env = Env()
# The dotted path of an adapter, and its options.
Adapter = tuple[str, dict[str, Any]]
# Check -> country, or EVERYWHERE -> sources.
Routes = dict[str, dict[str, tuple[str, ...]]]
BUREAUS = Path(__file__).parents[1] / "decisions" / "bureaus.toml"
BUREAU_TEXTS, LANGUAGES = ("law", "free_copy"), ("en", "sw")
HOME_COUNTRY, EVERYWHERE, OTHERS = "KE", "*", "OTHERS"
DEFAULT_ROUTES: Routes = {
    "IDENTITY": {HOME_COUNTRY: ("smile_id_v3", "smile_id", "prembly")},
    # Smile ID does not know whether a PIN is active; Prembly finds none by an ID.
    "KRA_PIN": {HOME_COUNTRY: ("kra", "smile_id", "prembly")},
    "BUSINESS_VERIFICATION": {
        HOME_COUNTRY: ("smile_id", "prembly"),
        "GB": ("companies_house", "gleif"),
        EVERYWHERE: ("gleif",),
    },
    "CRB_SCORE": {HOME_COUNTRY: ("metropol",)},
    "CRB_STANDARD": {HOME_COUNTRY: ("metropol",)},
    "CRB_FULL": {HOME_COUNTRY: ("metropol",)},
    "CREDITBUREAU_SCORE": {HOME_COUNTRY: ("metropol",)},
    "CREDITBUREAU_STATUS": {HOME_COUNTRY: ("metropol",)},
    "CREDITBUREAU_COMP": {HOME_COUNTRY: ("metropol",)},
    "AML_SCREENING": {EVERYWHERE: ("opensanctions", "watchlists")},
}
PREFIX = "SOURCES_"
# Concurrent calls to one source, over all clusters.
MAX_CONCURRENT_CALLS = 128


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of the calls to one source, over all clusters."""

    at_once: int = MAX_CONCURRENT_CALLS
    # Calls that begin in a minute; `None` means no limit.
    a_minute: int | None = None
    # Repeats for a check whose call got no answer and may be charged.
    paid_again: int = 1


# Sources that publish a limit.
KNOWN_LIMITS = {
    # 600 requests in 5 minutes, and up to 4 for one company.
    "companies_house": Limit(a_minute=30),
    # 60 requests a minute, and up to 2 for one company.
    "gleif": Limit(a_minute=30),
}


def source_routes() -> Routes:
    found = {check: dict(by_country) for check, by_country in DEFAULT_ROUTES.items()}
    for variable, names in _route_variables().items():
        if place := _parse_variable(variable):
            check, country = place
            found[check][country] = names
    return found


def source_limits() -> dict[str, Limit]:
    """Return the limits of each source, as `SMILE_ID_AT_ONCE` and its like set them."""
    limits = {}
    for name in checks_by_source():
        default = KNOWN_LIMITS.get(name, Limit())
        limits[name] = Limit(
            env.int(f"{name.upper()}_AT_ONCE", default.at_once),
            env.int(f"{name.upper()}_A_MINUTE", default.a_minute),
            env.int(f"{name.upper()}_PAID_AGAIN", default.paid_again),
        )
    return limits


def find_route_errors() -> list[str]:
    """Return a sentence for each error in the variables."""
    wrong = []
    for variable, names in _route_variables().items():
        place = _parse_variable(variable)
        if place is None:
            checks = ", ".join(sorted(DEFAULT_ROUTES))
            wrong.append(f"{variable} names no check that sources answer: {checks}.")
            continue
        country = place[1]
        if country != EVERYWHERE and not pycountry.countries.get(alpha_2=country):
            wrong.append(f"{variable}: {country} is no ISO 3166-1 code of a country.")
        known = checks_by_source()
        for name in names:
            if name not in known:
                why = f"no such source; there are {', '.join(sorted(known))}."
                wrong.append(f"{variable} names {name!r}: {why}")
            elif place[0] not in known[name]:
                wrong.append(f"{variable}: {name} does not answer {place[0]}.")
        if len(set(names)) < len(names):
            wrong.append(f"{variable} names a source twice.")
    for source, limit in source_limits().items():
        name = source.upper()
        if limit.at_once < 1:
            wrong.append(f"{name}_AT_ONCE must be at least 1.")
        if limit.a_minute is not None and limit.a_minute < 1:
            wrong.append(f"{name}_A_MINUTE must be at least 1.")
        if limit.paid_again < 0:
            wrong.append(f"{name}_PAID_AGAIN must be at least 0.")
    return wrong


def checks_by_source() -> Mapping[str, set[str]]:
    """Return source -> the checks that its adapter answers, for all adapters."""
    found: dict[str, set[str]] = {}
    for check, by_country in DEFAULT_ROUTES.items():
        for names in by_country.values():
            for name in names:
                found.setdefault(name, set()).add(check)
    return found


def _route_variables() -> dict[str, tuple[str, ...]]:
    """Return variable -> the names in it."""
    given = {}
    for variable in sorted(v for v in os.environ if v.startswith(PREFIX)):
        names = [name.strip() for name in env.str(variable).split(",")]
        given[variable] = tuple(name for name in names if name)
    return given


def _parse_variable(variable: str) -> tuple[str, str] | None:
    """Return the (check, country) of a variable."""
    text = variable.removeprefix(PREFIX)
    if text in DEFAULT_ROUTES:
        return text, HOME_COUNTRY
    check, _, country = text.rpartition("_")
    if check not in DEFAULT_ROUTES:
        return None
    if country == OTHERS:
        return check, EVERYWHERE
    return (check, country) if re.fullmatch(r"[A-Z]{2}", country) else None


COMPANIES_HOUSE = "https://api.company-information.service.gov.uk"
# Test hosts of the sources, which know no real people.
TEST_HOSTS = (
    "sbx.kra.go.ke",
    "testapi.smileidentity.com",
    "sandbox.smileidentity.com",
    "metropol.co.ke:5555",
)


class _Credential(NamedTuple):
    variable: str
    # The adapter's, or "".
    option: str
    value: str


class _Source(NamedTuple):
    path: str
    # All of them are needed.
    credentials: list[_Credential]
    options: dict[str, Any]


def live_providers() -> dict[str, Adapter]:
    """Return the configured sources.

    OUTBOUND_PRIVATE_HOSTS names sources in the operator's own network. SOURCE_DEV_HOSTS
    and the URLs are for development against another server, too.
    """
    return {
        name: (path, {c.option: c.value for c in credentials if c.option} | options)
        for name, (path, credentials, options) in _sources().items()
        if all(credential.value for credential in credentials)
    }


def find_missing_credentials() -> list[str]:
    """Return variables that are not set although others of the same source are."""
    return [
        credential.variable
        for source in _sources().values()
        if any(credential.value for credential in source.credentials)
        for credential in source.credentials
        if not credential.value
    ]


def find_sources_on_test_hosts(table: Mapping[str, Adapter]) -> list[str]:
    """Return the sources that are configured with a test host."""
    return [
        name
        for name, (_, options) in table.items()
        if any(host in options.get("url", "") for host in TEST_HOSTS)
    ]


def _text(variable: str, option: str) -> _Credential:
    return _Credential(variable, option, one_line(variable))


def _address(variable: str, option: str) -> _Credential:
    return _Credential(variable, option, web_address(variable))


def _secret(variable: str, option: str) -> _Credential:
    return _Credential(variable, option, header_secret(variable))


def _sources() -> dict[str, _Source]:
    """Return all sources, configured or not."""
    private = host_names("OUTBOUND_PRIVATE_HOSTS")
    hosts = {"opened": frozenset([*private, *env.list("SOURCE_DEV_HOSTS", [])])}
    return _registers(hosts) | _smile_id(hosts) | _screening(hosts)


def _registers(hosts: dict[str, Any]) -> dict[str, _Source]:
    kra = [
        _text("KRA_CLIENT_ID", "client_id"),
        _secret("KRA_CLIENT_SECRET", "client_secret"),
    ]
    # The second pair is optional; only "PIN by ID" uses it.
    by_id = [
        _text("KRA_ID_CLIENT_ID", "by_id_client_id"),
        _secret("KRA_ID_CLIENT_SECRET", "by_id_client_secret"),
    ]
    if any(credential.value for credential in by_id):
        kra += by_id
    # It needs no contract, so the operator decides whether it is called.
    gleif = _Credential(
        "GLEIF_ENABLED", "", "yes" if env.bool("GLEIF_ENABLED", False) else ""
    )
    return {
        "kra": _Source(
            "verification.providers.kra.Kra",
            kra,
            {"url": web_address("KRA_URL", "https://api.kra.go.ke"), **hosts},
        ),
        "metropol": _Source(
            "verification.providers.metropol.Metropol",
            [
                _text("METROPOL_PUBLIC_KEY", "public_key"),
                _secret("METROPOL_PRIVATE_KEY", "private_key"),
                # Metropol gives each subscriber a port.
                _address("METROPOL_URL", "url"),
            ],
            hosts,
        ),
        "prembly": _Source(
            "verification.providers.prembly.Prembly",
            [
                _text("PREMBLY_APP_ID", "app_id"),
                _secret("PREMBLY_API_KEY", "api_key"),
            ],
            {"url": web_address("PREMBLY_URL", "https://api.prembly.com"), **hosts},
        ),
        "companies_house": _Source(
            "verification.providers.companies_house.CompaniesHouse",
            [_secret("COMPANIES_HOUSE_API_KEY", "api_key")],
            {"url": web_address("COMPANIES_HOUSE_URL", COMPANIES_HOUSE), **hosts},
        ),
        "gleif": _Source(
            "verification.providers.gleif.Gleif",
            [gleif],
            {"url": web_address("GLEIF_URL", "https://api.gleif.org/api/v1"), **hosts},
        ),
    }


def _smile_id(hosts: dict[str, Any]) -> dict[str, _Source]:
    base_url = env.str("BASE_URL", f"http://localhost:{env.int('PORT', 8000)}")
    callbacks = f"{base_url.rstrip('/')}/callbacks/"
    uses_callbacks = env.bool("SMILE_ID_CALLBACKS", False)
    policy = _address("SMILE_ID_V3_POLICY_URL", "policy_url")
    account = [
        _text("SMILE_ID_PARTNER_ID", "partner_id"),
        _secret("SMILE_ID_API_KEY", "api_key"),
    ]
    url = web_address("SMILE_ID_URL", "https://api.smileidentity.com")
    server = {"url": url, **hosts}
    return {
        "smile_id": _Source(
            "verification.providers.smile_id.SmileId",
            account,
            # Without a callback URL the call waits for the answer.
            {
                **server,
                "callback_url": f"{callbacks}smile-id" if uses_callbacks else "",
            },
        ),
        "smile_id_v3": _Source(
            "verification.providers.smile_id_v3.SmileIdV3",
            # The account is the same; the URL enables this source.
            [policy, *(account if policy.value else [])],
            {
                **server,
                "callback_url": f"{callbacks}smile-id-v3",
                "attested_language": env.str("SMILE_ID_V3_ATTESTED_LANGUAGE", ""),
            },
        ),
    }


def _screening(hosts: dict[str, Any]) -> dict[str, _Source]:
    # OpenSanctions' hosted service needs a key; the operator's own yente needs none.
    key = _secret("OPENSANCTIONS_API_KEY", "api_key")
    lists: list[str] = env.list("AML_LISTS", [])
    shared = {
        "threshold": env.float("AML_THRESHOLD", 0.7),
        "days": env.int("AML_LIST_DAYS", 7, validate=SPAN),
    }
    dataset = one_line("OPENSANCTIONS_DATASET", "default")
    return {
        "opensanctions": _Source(
            "verification.providers.opensanctions.OpenSanctions",
            [_address("OPENSANCTIONS_URL", "url"), *([key] if key.value else [])],
            {**shared, "dataset": dataset, **hosts},
        ),
        "watchlists": _Source(
            "verification.watchlists.source.WatchLists",
            [_text("AML_LISTS", "")],
            {**shared, "lists": [name.strip().upper() for name in lists]},
        ),
    }


# A payment may still come in for this time after its link has expired: a Paystack page
# that is left open can be paid and never expires.
PAYMENT_GRACE_DAYS = 3


def payment_providers(link_days: int) -> dict[str, Adapter]:
    """Return the providers whose secrets are set.

    PAYSTACK_URL, STRIPE_URL, their CHECKOUT_URLs and PAYMENT_DEV_HOSTS are for
    development against a server other than the provider's.
    """
    opened: frozenset[str] = frozenset(env.list("PAYMENT_DEV_HOSTS", []))
    table: dict[str, Adapter] = {}
    if key := header_secret("PAYSTACK_SECRET_KEY"):
        old = optional_secret("PAYSTACK_PREVIOUS_SECRET_KEY")
        table["paystack"] = (
            "verification.providers.paystack.Paystack",
            {
                "secret_key": key,
                "previous_secret_keys": (old,) if old else (),
                "url": web_address("PAYSTACK_URL", "https://api.paystack.co"),
                "checkout_origin": env.str(
                    "PAYSTACK_CHECKOUT_URL", "https://checkout.paystack.com"
                ),
                "fallback_email": host_name("PAYSTACK_FALLBACK_EMAIL"),
                "opened": opened,
                "paid_within": timedelta(days=link_days + PAYMENT_GRACE_DAYS),
                "minimum": env.decimal("PAYSTACK_MINIMUM", None),
            },
        )
    if key := header_secret("STRIPE_SECRET_KEY"):
        secrets = optional_secret("STRIPE_WEBHOOK_SECRETS")
        table["stripe"] = (
            "verification.providers.stripe_checkout.StripeCheckout",
            {
                "secret_key": key,
                "webhook_secrets": tuple(secrets.replace(",", " ").split()),
                "url": web_address("STRIPE_URL", "https://api.stripe.com"),
                "checkout_origin": env.str(
                    "STRIPE_CHECKOUT_URL", "https://checkout.stripe.com"
                ),
                "opened": opened,
                "minimum": env.decimal("STRIPE_MINIMUM", None),
            },
        )
    return table


def credit_bureaus() -> Path:
    """Return the file that tells of credit bureaus. Raises ImproperlyConfigured."""
    path: Path = env.path("CREDIT_BUREAUS", BUREAUS)
    try:
        found = tomllib.loads(path.read_text())
        complete = all(found[name][code] for name in BUREAU_TEXTS for code in LANGUAGES)
        named = all(one["name"] for one in found["bureaus"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        complete = named = False
    if not (complete and named):
        raise ImproperlyConfigured(
            f"CREDIT_BUREAUS must be a TOML file like {BUREAUS.name}: the texts "
            f"{' and '.join(BUREAU_TEXTS)} in each language, and bureaus with a name."
        )
    return path
