"""Issue, find, rotate and revoke API keys.

A key is `vrf_test_` or `vrf_live_`, 32 random base62 characters, and 6 characters with
the CRC32 of these. The database has only its SHA-256.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Model, Q, QuerySet

from verification.db.base import run_sql
from verification.db.encryption import EncryptedJSONField, keyed_hash
from verification.values.clock import now
from workspaces.members import lock_active_workspace
from workspaces.models import (
    Account,
    ApiKey,
    Environment,
    Scope,
    Workspace,
    default_scopes,
)

ALPHABET = digits + ascii_uppercase + ascii_lowercase
PREFIXES = {Environment.SANDBOX: "vrf_test_", Environment.PRODUCTION: "vrf_live_"}
RANDOM_CHARACTERS = 32
CHECKSUM_CHARACTERS = 6
# Each key has its own limits of requests, so members must not make any number of them.
MAX_KEYS = 50
SHAPE = re.compile(r"vrf_(?:test|live)_[0-9A-Za-z]{38}")


class NotApproved(Exception):
    """The workspace is not approved to go live, so it gets no production key."""


class TooManyKeys(Exception):
    """The workspace has MAX_KEYS keys that work in the environment."""


class KeyHasEnded(Exception):
    """The key has ended, or its end is set, so it can have no successor."""


def issue(
    workspace: Workspace,
    *,
    environment: str,
    name: str,
    scopes: Iterable[str] | None = None,
    expires_at: datetime | None = None,
    networks: Sequence[str] = (),
    made_by: int | None = None,
    force: bool = False,
) -> tuple[ApiKey, str]:
    """Create a key, and return it with its text, which is stored nowhere.

    `networks` are as `read_networks` returns them. `made_by` is the user id of the
    member who makes it, if a member does.

    Raises ValueError for an unknown environment or scope. Raises NotApproved for a
    production key of an unapproved workspace; `force` allows it. Raises TooManyKeys and
    WorkspaceSuspended for a member, who needs a transaction.
    """
    environment = Environment(environment)
    if made_by is not None:
        _require_room(workspace, environment)
    if environment == Environment.PRODUCTION and not (workspace.is_live or force):
        raise NotApproved(f"{workspace} is not approved to go live.")
    random = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARACTERS))
    body = PREFIXES[environment] + random
    text = body + _checksum(body)
    key = ApiKey.objects.create(
        workspace=workspace,
        name=name,
        environment=environment,
        scopes=default_scopes() if scopes is None else [Scope(s).value for s in scopes],
        digest=digest(text),
        first_characters=text[:12],
        last_characters=text[-4:],
        expires_at=expires_at,
        networks=list(networks),
        made_by_user=made_by,
    )
    return key, text


def _require_room(workspace: Workspace, environment: Environment) -> None:
    # Members who make keys at the same moment wait for each other.
    lock_active_workspace(workspace.pk)
    if working_keys(workspace).filter(environment=environment).count() >= MAX_KEYS:
        raise TooManyKeys


def working_keys(workspace: Workspace) -> QuerySet[ApiKey]:
    at = now()
    return ApiKey.objects.filter(
        Q(revoked_at=None) | Q(revoked_at__gt=at),
        Q(expires_at=None) | Q(expires_at__gt=at),
        workspace=workspace,
    )


def is_well_formed(text: str) -> bool:
    """Return whether shape and checksum are right, without the database."""
    body, checksum = text[:-CHECKSUM_CHARACTERS], text[-CHECKSUM_CHARACTERS:]
    return bool(SHAPE.fullmatch(text)) and hmac.compare_digest(
        _checksum(body), checksum
    )


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def find(text: str) -> ApiKey | None:
    """Return the usable key with this text, as `find_issued` does.

    Returns None for an unknown, a revoked and an expired key alike.
    """
    key = find_issued(text)
    return key if key and key.is_usable else None


def find_issued(text: str) -> ApiKey | None:
    """Return the key with this text, its workspace loaded and `account` set.

    It may be revoked or expired: check `is_usable`.
    """
    if not is_well_formed(text):
        return None
    rows = run_sql(_find_statement(), [digest(text)])
    return _load_key(rows[0]) if rows else None


def record_use(key: ApiKey, address: str) -> bool:
    """Record that the key is used from this network address.

    Returns False if a use was recorded within the last minute.
    """
    moment = now()
    last_used_at = key.last_used_at
    if last_used_at and moment - last_used_at < ApiKey.LAST_USED_RESOLUTION:
        return False
    # The filter lets one of many concurrent requests write.
    unchanged = ApiKey.objects.filter(pk=key.pk, last_used_at=last_used_at)
    key.last_used_at = moment
    used_from = address_hash(key.workspace_id, address)
    return bool(unchanged.update(last_used_at=moment, last_used_address_hash=used_from))


def is_used_from(workspace: Workspace, address: str) -> bool:
    """Return whether a key of the workspace was last used from this address."""
    hashed = address_hash(workspace.pk, address)
    return workspace.api_keys.filter(last_used_address_hash=hashed).exists()


def address_hash(workspace_id: UUID, address: str) -> bytes:
    """Return the keyed hash of a network address, which differs by workspace."""
    return keyed_hash("client address", workspace_id, address)


def set_networks(key: ApiKey, networks: Sequence[str]) -> bool:
    """Let the key work from these networks alone. Returns False if it does already.

    `networks` are as `read_networks` returns them; with none, it works from everywhere.
    """
    others = ApiKey.objects.filter(pk=key.pk).exclude(networks=list(networks))
    return bool(others.update(networks=list(networks)))


def revoke(key: ApiKey) -> bool:
    """End the key now. Returns False if it has been revoked."""
    moment = now()
    later = Q(revoked_at__isnull=True) | Q(revoked_at__gt=moment)
    revoked = ApiKey.objects.filter(later, pk=key.pk).update(revoked_at=moment)
    key.refresh_from_db(fields=["revoked_at"])
    return bool(revoked)


@transaction.atomic
def rotate(
    key: ApiKey, *, old_ends_at: datetime, made_by: int | None
) -> tuple[ApiKey, str]:
    """Issue a successor with the same rights, and set the end of the old key.

    The successor of a key with an expiry lives as long as that key. Raises KeyHasEnded,
    TooManyKeys and WorkspaceSuspended.
    """
    # Before the key, as a workspace that closes does.
    lock_active_workspace(key.workspace_id)
    endless = ApiKey.objects.filter(pk=key.pk, revoked_at=None)
    if not key.is_usable or not endless.update(revoked_at=old_ends_at):
        raise KeyHasEnded(f"{key} has ended, or is being replaced already.")
    lifetime = key.expires_at - key.created_at if key.expires_at else None
    successor, text = issue(
        key.workspace,
        environment=key.environment,
        name=key.name,
        scopes=key.scopes,
        expires_at=now() + lifetime if lifetime else None,
        networks=key.networks,
        made_by=made_by,
        # The old key had the approval.
        force=True,
    )
    successor.creates_per_minute = key.creates_per_minute
    successor.requests_per_minute = key.requests_per_minute
    successor.save(update_fields=["creates_per_minute", "requests_per_minute"])
    return successor, text


# Every request runs this statement. The ORM takes longer to build it than to run it.
@cache
def _find_statement() -> str:
    columns = ", ".join(
        f"{model._meta.db_table}.{name}"
        for model in (ApiKey, Workspace, Account)
        for name in _names(model)
    )
    # All names come from models; the digest is a parameter.
    return f"""
        SELECT {columns} FROM workspaces_apikey
        JOIN workspaces_workspace
            ON workspaces_workspace.id = workspaces_apikey.workspace_id
        JOIN workspaces_account
            ON workspaces_account.workspace_id = workspaces_apikey.workspace_id
            AND workspaces_account.environment = workspaces_apikey.environment
        WHERE workspaces_apikey.digest = %s
        """  # noqa: S608


@cache
def _names(model: type[Model]) -> list[str]:
    """Return all columns except encrypted ones, which are deferred."""
    fields = model._meta.concrete_fields
    return [f.attname for f in fields if not isinstance(f, EncryptedJSONField)]


def _load_key(row: tuple[Any, ...]) -> ApiKey:
    loaded: list[Any] = []
    for model in (ApiKey, Workspace, Account):
        names = _names(model)
        loaded.append(model.from_db(connection.alias, names, row[: len(names)]))
        row = row[len(names) :]
    key, workspace, account = loaded
    key.workspace = account.workspace = workspace
    key.account = account
    return key


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    characters = []
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, 62)
        characters.append(ALPHABET[digit])
    return "".join(reversed(characters))
