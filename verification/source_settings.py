"""Which live sources this installation has contracts with, from the environment.

    PROVIDERS = live_providers(env)      # {source: (dotted path, options)}
    half_configured(env)                 # what `manage.py check` complains of

Only production asks them; `verification.providers.registry` sees to that, and
`verification.source_routes` says who is asked what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environs import Env

from verification.secret_settings import optional_secret

Adapter = tuple[str, dict[str, Any]]

COMPANIES_HOUSE = "https://api.company-information.service.gov.uk"
# Hosts on which sources let their customers try; nobody real is looked up there.
TEST_HOSTS = (
    "sbx.kra.go.ke",
    "testapi.smileidentity.com",
    "sandbox.smileidentity.com",
    "metropol.co.ke:5555",
)


def live_providers(env: Env) -> dict[str, Adapter]:
    """SOURCE_DEV_HOSTS and the URLs are for development against another server, too."""
    return {
        name: adapter
        for name, adapter in _adapters(env).items()
        if all(_credentials(env)[name].values())
    }


def half_configured(env: Env) -> list[str]:
    """Variables that are not set while others of the same source are."""
    return [
        name
        for given in _credentials(env).values()
        if any(given.values())
        for name, value in given.items()
        if not value
    ]


def on_test_hosts(table: Mapping[str, Adapter]) -> list[str]:
    """Sources whose place for trying is asked."""
    return [
        name
        for name, (_, options) in table.items()
        if any(host in options.get("url", "") for host in TEST_HOSTS)
    ]


def _credentials(env: Env) -> dict[str, dict[str, str]]:
    """Source -> variable -> its value; all of a source's are needed."""
    by_id = {
        "KRA_ID_CLIENT_ID": env.str("KRA_ID_CLIENT_ID", ""),
        "KRA_ID_CLIENT_SECRET": optional_secret("KRA_ID_CLIENT_SECRET"),
    }
    smile_id = {
        "SMILE_ID_PARTNER_ID": env.str("SMILE_ID_PARTNER_ID", ""),
        "SMILE_ID_API_KEY": optional_secret("SMILE_ID_API_KEY"),
    }
    policy = env.str("SMILE_ID_V3_POLICY_URL", "")
    return {
        **_of_registers(env),
        **_of_screening(env),
        "metropol": {
            "METROPOL_PUBLIC_KEY": env.str("METROPOL_PUBLIC_KEY", ""),
            "METROPOL_PRIVATE_KEY": optional_secret("METROPOL_PRIVATE_KEY"),
            # Each subscriber is given a port.
            "METROPOL_URL": env.str("METROPOL_URL", ""),
        },
        "smile_id": smile_id,
        # The same account; the address is what switches it on.
        "smile_id_v3": {
            "SMILE_ID_V3_POLICY_URL": policy,
            **(smile_id if policy else {}),
        },
        "kra": {
            "KRA_CLIENT_ID": env.str("KRA_CLIENT_ID", ""),
            "KRA_CLIENT_SECRET": optional_secret("KRA_CLIENT_SECRET"),
            # A second pair is for "PIN by ID" alone, and may be left out.
            **(by_id if any(by_id.values()) else {}),
        },
    }


def _callback_url(env: Env, path: str) -> str:
    port = env.int("PORT", 8000)
    base = env.str("BASE_URL", f"http://localhost:{port}")
    return f"{base.rstrip('/')}/callbacks/{path}"


def _adapters(env: Env) -> dict[str, Adapter]:
    """Of all sources, whether or not they are configured."""
    opened: frozenset[str] = frozenset(env.list("SOURCE_DEV_HOSTS", []))
    credentials = _credentials(env)
    smile_id, kra = credentials["smile_id"], credentials["kra"]
    metropol = credentials["metropol"]
    return {
        **_registers(env, opened),
        **_screening(env, opened),
        "metropol": (
            "verification.providers.metropol.Metropol",
            {
                "public_key": metropol["METROPOL_PUBLIC_KEY"],
                "private_key": metropol["METROPOL_PRIVATE_KEY"],
                "url": metropol["METROPOL_URL"],
                "opened": opened,
            },
        ),
        "smile_id": (
            "verification.providers.smile_id.SmileId",
            {
                "partner_id": smile_id["SMILE_ID_PARTNER_ID"],
                "api_key": smile_id["SMILE_ID_API_KEY"],
                "url": env.str("SMILE_ID_URL", "https://api.smileidentity.com"),
                "opened": opened,
                # Blank where its answer is waited for.
                "callback_url": _callback_url(env, "smile-id")
                if env.bool("SMILE_ID_CALLBACKS", False)
                else "",
            },
        ),
        "smile_id_v3": (
            "verification.providers.smile_id_v3.SmileIdV3",
            {
                "partner_id": smile_id["SMILE_ID_PARTNER_ID"],
                "api_key": smile_id["SMILE_ID_API_KEY"],
                "callback_url": _callback_url(env, "smile-id-v3"),
                "policy_url": env.str("SMILE_ID_V3_POLICY_URL", ""),
                "url": env.str("SMILE_ID_URL", "https://api.smileidentity.com"),
                "opened": opened,
                "attested_language": env.str("SMILE_ID_V3_ATTESTED_LANGUAGE", ""),
            },
        ),
        "kra": (
            "verification.providers.kra.Kra",
            {
                "client_id": kra["KRA_CLIENT_ID"],
                "client_secret": kra["KRA_CLIENT_SECRET"],
                "by_id_client_id": kra.get("KRA_ID_CLIENT_ID", ""),
                "by_id_client_secret": kra.get("KRA_ID_CLIENT_SECRET", ""),
                "url": env.str("KRA_URL", "https://api.kra.go.ke"),
                "opened": opened,
            },
        ),
    }


def _of_registers(env: Env) -> dict[str, dict[str, str]]:
    return {
        "prembly": {
            "PREMBLY_APP_ID": env.str("PREMBLY_APP_ID", ""),
            "PREMBLY_API_KEY": optional_secret("PREMBLY_API_KEY"),
        },
        "companies_house": {
            "COMPANIES_HOUSE_API_KEY": optional_secret("COMPANIES_HOUSE_API_KEY"),
        },
        # Anybody may ask it; whether it is asked is for the operator to say.
        "gleif": {"GLEIF_ENABLED": "yes" if env.bool("GLEIF_ENABLED", False) else ""},
    }


def _registers(env: Env, opened: frozenset[str]) -> dict[str, Adapter]:
    of = _of_registers(env)
    return {
        "prembly": (
            "verification.providers.prembly.Prembly",
            {
                "app_id": of["prembly"]["PREMBLY_APP_ID"],
                "api_key": of["prembly"]["PREMBLY_API_KEY"],
                "url": env.str("PREMBLY_URL", "https://api.prembly.com"),
                "opened": opened,
            },
        ),
        "companies_house": (
            "verification.providers.companies_house.CompaniesHouse",
            {
                "api_key": of["companies_house"]["COMPANIES_HOUSE_API_KEY"],
                "url": env.str("COMPANIES_HOUSE_URL", COMPANIES_HOUSE),
                "opened": opened,
            },
        ),
        "gleif": (
            "verification.providers.gleif.Gleif",
            {
                "url": env.str("GLEIF_URL", "https://api.gleif.org/api/v1"),
                "opened": opened,
            },
        ),
    }


def _of_screening(env: Env) -> dict[str, dict[str, str]]:
    # The hosted service wants a key, a yente of one's own none.
    key = optional_secret("OPENSANCTIONS_API_KEY")
    return {
        "opensanctions": {
            "OPENSANCTIONS_URL": env.str("OPENSANCTIONS_URL", ""),
            **({"OPENSANCTIONS_API_KEY": key} if key else {}),
        },
        "watchlists": {"AML_LISTS": env.str("AML_LISTS", "")},
    }


def _screening(env: Env, opened: frozenset[str]) -> dict[str, Adapter]:
    threshold = env.float("AML_THRESHOLD", 0.7)
    lists: list[str] = env.list("AML_LISTS", [])
    days = env.int("AML_LIST_DAYS", 7)
    return {
        "opensanctions": (
            "verification.providers.opensanctions.OpenSanctions",
            {
                "url": env.str("OPENSANCTIONS_URL", ""),
                "api_key": optional_secret("OPENSANCTIONS_API_KEY"),
                "dataset": env.str("OPENSANCTIONS_DATASET", "default"),
                "threshold": threshold,
                "opened": opened,
                "days": days,
            },
        ),
        "watchlists": (
            "verification.watchlists.source.WatchLists",
            {
                "lists": [name.strip().upper() for name in lists],
                "threshold": threshold,
                "days": days,
            },
        ),
    }
