"""`manage.py check --deploy`: what a production lacks, or has weak or contradictory.

Each entry names the variable and the page that describes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email.utils import parseaddr
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http.request import validate_host
from psycopg.conninfo import conninfo_to_dict

from verification.db import embedded, startup
from verification.outbound.targets import is_allowed_host

CONFIGURATION = "docs/configuration.md"
LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
SAFE_MODES = {"require", "verify-ca", "verify-full"}
MIN_TOKEN = 20
# 32 random bytes have about 30 different values.
MIN_DISTINCT = 16


def check_deployment(**options: Any) -> list[CheckMessage]:
    return [*_errors(), *_warnings()]


def _errors() -> Iterator[Error]:
    if settings.DEBUG:
        text = "DEBUG is on: secrets are made up, and errors show internals."
        yield _error("E001", text, "Remove DEBUG.")
    if embedded.is_used():
        text = "DATABASE_URL is not set: the embedded server is for development."
        yield _error("E002", text, "Name your PostgreSQL in DATABASE_URL.")
    address = urlsplit(settings.BASE_URL)
    if address.scheme != "https" or address.hostname in LOCAL_HOSTS:
        text = f"BASE_URL is {settings.BASE_URL}: links in messages do not work."
        yield _error("E003", text, "Set it to the public address, with https.")
    elif address.path or address.query or address.fragment:
        text = f"BASE_URL is {settings.BASE_URL}: the service answers at no path."
        yield _error("E003", text, "Set it to scheme and host alone.")
    yield from _contradictions(address.hostname or "")
    ring = [key for _, key in settings.FIELD_KEYS]
    if set(ring) & set(settings.LOOKUP_KEY):
        text = "FIELD_KEYS and LOOKUP_KEY have the same key."
        yield _error("E007", text, "Make one for each.")
    if any(len(set(key)) < MIN_DISTINCT for key in {*ring, *settings.LOOKUP_KEY}):
        text = "A key of FIELD_KEYS or LOOKUP_KEY was not made at random."
        yield _error("E008", text, "Make another one as the page says.")


def _contradictions(public: str) -> Iterator[Error]:
    hosts = {public, settings.SANDBOX_HOST, settings.PRODUCTION_HOST} - {
        "",
        *LOCAL_HOSTS,
    }
    refused = {h for h in hosts if not validate_host(h, settings.ALLOWED_HOSTS)}
    if refused:
        text = f"ALLOWED_HOSTS lacks {', '.join(sorted(refused))}: it is answered 400."
        yield _error("E011", text, "Add it, or remove ALLOWED_HOSTS.")
    if settings.SANDBOX_HOST and settings.SANDBOX_HOST == settings.PRODUCTION_HOST:
        text = "SANDBOX_HOST and PRODUCTION_HOST are the same: they keep nothing apart."
        yield _error("E005", text, "Give each its own name, or remove both.")
    for name in ("OPERATOR_ALERTS", "PRIVACY_CONTACTS"):
        if wrong := [a for a in getattr(settings, name) if not _is_address(a)]:
            text = f"{name} has {', '.join(wrong)}, which is no e-mail address."
            yield _error("E006", text, "Correct it.")
    if not _is_address(parseaddr(settings.DEFAULT_FROM_EMAIL)[1]):
        text = "EMAIL_FROM is no e-mail address."
        yield _error("E006", text, "Set it to the sender of your e-mails.")
    if settings.WEBHOOK_DEV_HOSTS:
        text = "WEBHOOK_DEV_HOSTS is set: clients reach these hosts in your network."
        yield _error("E009", text, "Remove it.")
    for name, (_, options) in sorted(settings.PROVIDERS.items()):
        url = urlsplit(options.get("url", ""))
        host, port = url.hostname or "", url.port or 80
        if url.scheme == "http" and not is_allowed_host(host, port, options["opened"]):
            text = f"OUTBOUND_PRIVATE_HOSTS lacks {host}: {name} has no https there."
            yield _error("E010", text, "Add it, or name an address with https.")


def _warnings() -> Iterator[Warning]:
    if settings.OPERATOR_NAME == "Verification reports":
        text = "OPERATOR_NAME is not set: people do not learn who runs the service."
        yield _warning("W001", text, "Set it to your name.")
    if not settings.TRUSTED_PROXIES:
        text = "TRUSTED_PROXIES is empty: everybody has the address of the proxy."
        yield _warning("W002", text, "List the addresses of your proxies.")
    if settings.EMAIL_HOST in LOCAL_HOSTS:
        text = "EMAIL_URL is not set: mail goes to a server on this machine."
        yield _warning("W003", text, "Name your mail server.")
    if not settings.OPERATOR_ALERTS:
        text = "OPERATOR_ALERTS is empty: nobody is told when payments need a person."
        yield _warning("W004", text, "List addresses that somebody reads.")
    if not settings.METRICS_TOKEN:
        text = "METRICS_TOKEN is not set: nothing can watch the service."
        yield _warning("W005", text, "Set it, and let Prometheus read /metrics.")
    if settings.CLAMAV is None:
        text = "CLAMAV is not set: uploaded documents are not scanned for viruses."
        yield _warning("W006", text, "Run clamd and name its address.")
    if not settings.PROVIDERS:
        text = "No source is configured: production can order no check."
        yield _warning("W007", text, "docs/providers.md says how to configure one.")
    if not settings.PAYMENT_PROVIDERS:
        text = "No payment provider is configured: only workspaces can pay."
        yield _warning("W008", text, "docs/payments.md says how to configure one.")
    if bool(settings.AFRICASTALKING_USERNAME) != bool(settings.AFRICASTALKING_API_KEY):
        text = "One of AFRICASTALKING_USERNAME and AFRICASTALKING_API_KEY is not set."
        yield _warning("W015", text, "Set both, or no SMS is sent.")
    elif settings.AFRICASTALKING_USERNAME and not settings.SMS_FROM:
        text = "SMS_FROM is not set: SMS come from a shared number."
        yield _warning("W009", text, "Register a sender and name it.")
    if _is_database_in_the_clear():
        text = "A DATABASE_URL has no sslmode: its connection may be in the clear."
        yield _warning("W010", text, "Append ?sslmode=verify-full.")
    is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    if settings.EMAIL_HOST not in LOCAL_HOSTS and not is_encrypted:
        text = "EMAIL_URL has no TLS: links in messages travel in the clear."
        yield _warning("W013", text, "Write submission://…, or append ?tls=True.")
    if settings.DATA_DIR.is_relative_to(settings.BASE_DIR):
        text = "DATA_DIR is not set: an upgrade may remove the documents."
        yield _warning("W016", text, "Name a folder apart from the program.")
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < MIN_TOKEN:
        text = (
            f"METRICS_TOKEN has fewer than {MIN_TOKEN} characters: it can be guessed."
        )
        yield _warning("W014", text, "Make it like SECRET_KEY.")


def check_backups(
    databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Warn if no backup was made within two days, if a database may be read.

    That is so with `check --deploy --database default`.
    """
    if not databases:
        return []
    from verification.backups.archive import newest_backup_age

    age = newest_backup_age()
    if age is not None and age.days < 2:
        return []
    text = "No backup was made within two days."
    return [_warning("W011", text, "Run `manage.py backup` every night.")]


def check_pooler(
    databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Name a pooler that the service cannot use, if a database may be read."""
    pooler = startup.find_pooler(settings.DATABASE_URL) if databases else ""
    if pooler == "transaction":
        text = "DATABASE_URL leads to a pooler in transaction mode."
        return [_error("E004", text, "Set pool_mode = session for this service.")]
    if pooler and settings.DATABASE_DIRECT_URL == settings.DATABASE_URL:
        text = "DATABASE_URL leads to a pooler, which jobs and backups do not need."
        return [_warning("W012", text, "Set DATABASE_DIRECT_URL to the server.")]
    return []


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


def _is_database_in_the_clear() -> bool:
    for url in (settings.DATABASE_URL, settings.DATABASE_DIRECT_URL):
        parts = conninfo_to_dict(url)
        hosts = str(parts.get("host") or "").split(",")
        is_remote = any(h and h[0] != "/" and h not in LOCAL_HOSTS for h in hosts)
        if is_remote and parts.get("sslmode") not in SAFE_MODES:
            return True
    return False


def _error(number: str, text: str, way_out: str) -> Error:
    return Error(text, hint=f"{way_out} See {CONFIGURATION}.", id=f"deploy.{number}")


def _warning(number: str, text: str, way_out: str) -> Warning:
    return Warning(text, hint=f"{way_out} See {CONFIGURATION}.", id=f"deploy.{number}")
