"""The identity providers by which members and staff log in, from the environment."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from verification.settings.secrets import optional_secret

# Names of hosts of this machine, which a provider in development may have.
LOCAL_HOSTS = {"localhost", "127.0.0.1"}
DOMAIN = re.compile(r"[\w-]+(\.[\w-]+)+")


def _check_issuer(url: str) -> str:
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
    if not parts.hostname or not (parts.scheme == "https" or is_local):
        raise ValueError("must begin with https://")
    # The port is read when it is used.
    if parts.port == 0 or re.search(r"\s", url):
        raise ValueError("must be an address")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must have no user name, query or fragment")
    return url


def _check_domain(domain: str) -> str:
    if not DOMAIN.fullmatch(domain):
        raise ValueError("must be the part after the @, such as bank.example")
    return domain.lower()


class IdentityProvider(BaseModel):
    """One provider of OpenID Connect, and what its groups grant."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{0,29}$")
    name: str = Field(min_length=1, max_length=40)
    issuer: Annotated[str, AfterValidator(_check_issuer)]
    client_id: str = Field(min_length=1, max_length=191)
    secret: str = Field("", repr=False)
    # The provider is believed for addresses of these domains alone.
    domains: list[Annotated[str, AfterValidator(_check_domain)]] = Field(min_length=1)
    # The workspace of its members; group -> role there
    workspace: UUID | None = None
    roles: dict[str, Literal["OWNER", "ADMIN", "OFFICER", "VIEWER"]] = {}
    # Group -> roles of staff. A superuser is made by superusers alone.
    staff_roles: dict[
        str, list[Literal["Reviewer", "Operations", "Finance", "Privacy officer"]]
    ] = {}
    groups_claim: str = "groups"
    email_verified_claim: str = "email_verified"
    scopes: list[str] = ["openid", "profile", "email"]
    # Values of `acr` and `amr` that stand for a second factor
    second_factor_acr: list[str] = []
    second_factor_amr: list[str] = []
    # People of the domains may also log in by password.
    passwords: bool = False
    # The login page offers it only to people who type an address of the domains.
    hidden: bool = False
    # The issuer's host may have an address of a private network, and is called without
    # the proxy.
    private: bool = False

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: list[str]) -> list[str]:
        if "openid" not in scopes:
            raise ValueError("must have openid: without it there is no ID token")
        return scopes

    @model_validator(mode="after")
    def _check_roles(self) -> IdentityProvider:
        if bool(self.roles) != bool(self.workspace):
            raise ValueError("needs both workspace and roles, or neither")
        if not self.roles and not self.staff_roles:
            raise ValueError("needs roles or staff_roles")
        return self


def read_providers(text: str) -> dict[str, IdentityProvider]:
    """Return the providers of IDENTITY_PROVIDERS by id. Raises ImproperlyConfigured."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise _refusal("must be a JSON list of objects")
    providers = [_provider(one) for one in given]
    _refuse_repeated("id", [provider.id for provider in providers])
    _refuse_repeated("domain", [name for one in providers for name in one.domains])
    return {provider.id: provider for provider in providers}


def secret_name(id: str) -> str:
    """Return the variable with the secret of the provider of this id."""
    return f"IDENTITY_SECRET_{id.upper().replace('-', '_')}"


def _provider(given: dict[str, Any]) -> IdentityProvider:
    if "secret" in given:
        raise _refusal("holds a secret: set it in IDENTITY_SECRET_ and the id")
    id = str(given.get("id", ""))
    try:
        return IdentityProvider(**given, secret=optional_secret(secret_name(id)))
    except ValidationError as e:
        first = e.errors()[0]
        at = ".".join(str(part) for part in (id, *first["loc"]) if part != "")
        why = first["msg"].removeprefix("Value error, ")
        raise _refusal(f"is wrong at {at}: {why}") from None


def _refuse_repeated(what: str, names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise _refusal(f"names the {what} {name} twice")


def _refusal(what: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"IDENTITY_PROVIDERS {what}; docs/operator/access.md has examples."
    )
