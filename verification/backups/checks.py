"""`manage.py check --deploy`: what a production lacks, or has weak or contradictory.

Each entry names the variable and the page that describes it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from email.utils import parseaddr
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import OperationalError, ProgrammingError, connection
from django.http.request import validate_host
from django.utils.module_loading import import_string
from psycopg.conninfo import conninfo_to_dict

from verification.db import embedded, startup
from verification.db.standbys import read_standbys
from verification.outbound.targets import is_allowed_host
from verification.settings.identity_providers import secret_name
from verification.settings.providers import Adapter
from verification.settings.secrets import missing_secrets
from verification.values.clock import now
from verification.web.gateway import (
    FIRST_THREADS,
    IDENTITY_THREADS,
    STREAM_THREADS,
    THREADS,
    WATCHER_PATHS,
)

CONFIGURATION = "docs/operator/configuration.md"
# The web servers of each machine
WEB_SERVERS = 2
# Connections of each process of a web server, including /readyz, /metrics and one for
# records of requests; threads that read files or refuse requests have none.
WEB_CONNECTIONS = (
    THREADS + FIRST_THREADS + IDENTITY_THREADS + STREAM_THREADS + len(WATCHER_PATHS) + 1
)
# Connections of commands and monitoring
OTHER_CONNECTIONS = 10
LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
SAFE_MODES = {"require", "verify-ca", "verify-full"}
MIN_TOKEN = 20
# 32 random bytes have about 30 different values, and so many random characters.
MIN_DISTINCT = 16
# No proxy has a network as large as this.
MIN_PREFIX = 8
# The placeholders in the files of `deploy/`, before an installation's values
PLACEHOLDER = re.compile(r"(^|[@./])example\.(com|org|net)\b", re.IGNORECASE)
PLACEHOLDER_NAME = "Acacia Verification Ltd"
# Variable -> its effect on production
DEVELOPMENT = {
    "WEBHOOK_DEV_HOSTS": "clients reach these hosts in your network",
    "WEBHOOK_CA_FILE": "webhooks trust more certificates than the system does",
    "SOURCE_DEV_HOSTS": "sources may be at any address there",
    "PAYMENT_DEV_HOSTS": "payments need no https there, and take test keys",
    "PAYSTACK_URL": "another server takes payments",
    "PAYSTACK_CHECKOUT_URL": "payers are sent to another server",
    "STRIPE_URL": "another server takes payments",
    "STRIPE_CHECKOUT_URL": "payers are sent to another server",
}


def check_deployment(**options: Any) -> list[CheckMessage]:
    return [*_errors(), *_warnings()]


def _errors() -> Iterator[Error]:
    if settings.DEBUG:
        text = "DEBUG is on: secrets are made up, and errors show internals."
        yield _error("E001", text, "Remove DEBUG.")
    for name in missing_secrets():
        yield _error("E012", f"{name} is not set.", "Make it as the page says.")
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
    yield from _placeholders()
    ring = [key for _, key in settings.FIELD_KEYS]
    if set(ring) & set(settings.LOOKUP_KEY):
        text = "FIELD_KEYS and LOOKUP_KEY have the same key."
        yield _error("E007", text, "Make one for each.")
    if any(len(set(key)) < MIN_DISTINCT for key in {*ring, *settings.LOOKUP_KEY}):
        text = "A key of FIELD_KEYS or LOOKUP_KEY was not made at random."
        yield _error("E008", text, "Make another one as the page says.")
    if len(set(settings.SECRET_KEY)) < MIN_DISTINCT:
        text = "SECRET_KEY was not made at random."
        yield _error("E008", text, "Make another one as the page says.")
    for name, danger in DEVELOPMENT.items():
        if os.environ.get(name):
            text = f"{name} is for development: {danger}."
            yield _error("E009", text, "Remove it.")
    yield from _limits()


def _limits() -> Iterator[Error]:
    everybody = [
        entry
        for entry in settings.TRUSTED_PROXIES
        if ip_network(entry, strict=False).prefixlen < MIN_PREFIX
    ]
    if everybody:
        text = f"TRUSTED_PROXIES has {', '.join(everybody)}: clients name any address."
        yield _error("E013", text, "List the addresses of your proxies alone.")
    lease = settings.CHECK_LEASE_SECONDS
    adapters = {name: import_string(path) for name, (path, _) in _sources()}
    if slow := [name for name, a in adapters.items() if a.longest_seconds >= lease]:
        text = f"CHECK_LEASE_SECONDS is {lease}, and {', '.join(slow)} may take longer."
        yield _error("E014", text, "Remove it, or two workers do the same check.")
    for name in ("JOB_WORKERS", "WEB_WORKERS"):
        if getattr(settings, name) < 1:
            text = f"{name} is {getattr(settings, name)}: nothing would run."
            yield _error("E015", text, "Set at least 1.")


def _contradictions(public: str) -> Iterator[Error]:
    hosts = {public, settings.SANDBOX_HOST, settings.PRODUCTION_HOST} - {
        "",
        *LOCAL_HOSTS,
    }
    refused = {h for h in hosts if not validate_host(h, settings.ALLOWED_HOSTS)}
    if refused:
        text = f"ALLOWED_HOSTS lacks {', '.join(sorted(refused))}: it is answered 400."
        yield _error("E011", text, "Add it, or remove ALLOWED_HOSTS.")
    if "*" in settings.ALLOWED_HOSTS:
        text = "ALLOWED_HOSTS has *: links are made for whatever host a request names."
        yield _error("E011", text, "Name the hosts, or remove ALLOWED_HOSTS.")
    if os.environ.get("DOCUMENTS_BUCKET") and os.environ.get("DOCUMENTS_DIR"):
        text = "DOCUMENTS_BUCKET and DOCUMENTS_DIR are both set: the bucket is used."
        yield _error("E016", text, "Remove one of them.")
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
    sms = urlsplit(settings.SMS_URL)
    if settings.SMS_URL and sms.scheme != "https" and sms.hostname not in LOCAL_HOSTS:
        text = f"SMS_URL is {settings.SMS_URL}: codes and the key are in the clear."
        yield _error("E021", text, "Name an address with https.")
    notice = settings.PRIVACY_NOTICE_URL
    if notice and not notice.startswith("https://"):
        text = f"PRIVACY_NOTICE_URL is {notice}: others can change what people read."
        yield _error("E024", text, "Name an address with https.")
    for name, (_, options) in _sources():
        url = urlsplit(options.get("url", ""))
        host, port = url.hostname or "", url.port or 80
        if url.scheme == "http" and not is_allowed_host(host, port, options["opened"]):
            text = f"OUTBOUND_PRIVATE_HOSTS lacks {host}: {name} has no https there."
            yield _error("E010", text, "Add it, or name an address with https.")
    for provider in settings.IDENTITY_PROVIDERS.values():
        if not provider.secret:
            text = f"{secret_name(provider.id)} is not set: nobody logs in there."
            yield _error("E023", text, "Set it to the secret of IDENTITY_PROVIDERS.")


def _placeholders() -> Iterator[Error]:
    values = {
        "BASE_URL": settings.BASE_URL,
        "SANDBOX_HOST": settings.SANDBOX_HOST,
        "PRODUCTION_HOST": settings.PRODUCTION_HOST,
        "OPERATOR_NAME": settings.OPERATOR_NAME,
        "OPERATOR_CONTACT": settings.OPERATOR_CONTACT,
        "EMAIL_FROM": settings.DEFAULT_FROM_EMAIL,
        "OPERATOR_ALERTS": ",".join(settings.OPERATOR_ALERTS),
    }
    if settings.PRIVACY_CONTACTS != settings.OPERATOR_ALERTS:
        values["PRIVACY_CONTACTS"] = ",".join(settings.PRIVACY_CONTACTS)
    for name, value in values.items():
        if value == PLACEHOLDER_NAME or PLACEHOLDER.search(value):
            text = f"{name} is {value}, which is an example and reaches nobody."
            yield _error("E020", text, "Write your own.")


def _warnings() -> Iterator[Warning]:
    if settings.OPERATOR_NAME == "Verification reports":
        text = "OPERATOR_NAME is not set: people do not learn who runs the service."
        yield _warning("W001", text, "Set it to your name.")
    if not settings.TRUSTED_PROXIES:
        text = "TRUSTED_PROXIES is empty: everybody has the address of the proxy."
        yield _warning("W002", text, "List the addresses of your proxies.")
    if settings.EMAIL_HOST in LOCAL_HOSTS:
        text = "EMAIL_URL is not set or names this machine: mail goes to it."
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
        yield _warning("W007", text, "docs/operator/providers.md configures one.")
    if not settings.PAYMENT_PROVIDERS:
        text = "No payment provider is configured: only workspaces can pay."
        yield _warning("W008", text, "docs/office/money.md says how to set one.")
    if bool(settings.AFRICASTALKING_USERNAME) != bool(settings.AFRICASTALKING_API_KEY):
        text = "One of AFRICASTALKING_USERNAME and AFRICASTALKING_API_KEY is not set."
        yield _warning("W015", text, "Set both, or no SMS is sent.")
    elif not settings.AFRICASTALKING_USERNAME:
        text = "No SMS is sent: people without an e-mail address get no link or code."
        yield _warning("W020", text, "Set AFRICASTALKING_USERNAME and its key.")
    elif not settings.SMS_FROM:
        text = "SMS_FROM is not set: SMS come from a shared number."
        yield _warning("W009", text, "Register a sender and name it.")
    if name := _database_in_the_clear():
        text = f"{name} has no sslmode: its connection may be in the clear."
        yield _warning("W010", text, "Append ?sslmode=verify-full&sslrootcert=…")
    is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    if settings.EMAIL_HOST not in LOCAL_HOSTS and not is_encrypted:
        text = "EMAIL_URL has no TLS: links in messages travel in the clear."
        yield _warning("W013", text, "Write submission://…, or append ?tls=True.")
    if not settings.SIGNING_KEY:
        text = "SIGNING_KEY is not set: a new SECRET_KEY changes it, too."
        yield _warning("W019", text, "Make it like LOOKUP_KEY.")
    if settings.DATA_DIR.is_relative_to(settings.BASE_DIR):
        text = "DATA_DIR is not set: an upgrade may remove the documents."
        yield _warning("W016", text, "Name a folder apart from the program.")
    if settings.JOB_WORKERS == 1:
        text = "JOB_WORKERS is 1: checks, codes and webhooks wait for a long job."
        yield _warning("W023", text, "Set at least 2.")
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < MIN_TOKEN:
        text = (
            f"METRICS_TOKEN has fewer than {MIN_TOKEN} characters: it can be guessed."
        )
        yield _warning("W014", text, "Make it like SECRET_KEY.")


def check_database(
    databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Examine the database, if it may be read: `check --deploy --database default`."""
    if not databases:
        return []
    return [
        *check_addresses(),
        *check_keys(),
        *check_role(),
        *check_backups(),
        *check_redundancy(),
    ]


def check_addresses() -> Iterator[CheckMessage]:
    """Examine what both addresses of the database lead to."""
    # The list names the lack of DATABASE_URL anyway.
    if embedded.is_used():
        return
    identities = set()
    for name in ("DATABASE_URL", "DATABASE_DIRECT_URL"):
        try:
            identities.add(startup.identify_database(getattr(settings, name)))
        except psycopg.OperationalError as e:
            text = startup.explain_error(OperationalError(str(e)), name)
            yield _error("E017", text, "No database was examined.")
            return
    pooler = startup.find_pooler(settings.DATABASE_URL)
    if pooler == "transaction":
        text = "DATABASE_URL leads to a pooler in transaction mode."
        yield _error("E004", text, "Set pool_mode = session for this service.")
    elif pooler and settings.DATABASE_DIRECT_URL == settings.DATABASE_URL:
        text = "DATABASE_URL leads to a pooler, which jobs and backups do not need."
        yield _warning("W012", text, "Set DATABASE_DIRECT_URL to the server.")
    if len(identities) > 1:
        text = "DATABASE_DIRECT_URL leads to another database than DATABASE_URL."
        yield _error("E018", text, "Name the same server and database.")
    web = WEB_SERVERS * settings.WEB_WORKERS * WEB_CONNECTIONS
    most = web + settings.JOB_WORKERS + OTHER_CONNECTIONS
    limit = startup.connection_limit(settings.DATABASE_DIRECT_URL)
    if most > limit:
        text = (
            f"The processes of this machine may open {most} connections to PostgreSQL, "
            f"which allows {limit}."
        )
        yield _warning("W022", text, "Raise max_connections, or lower WEB_WORKERS.")


def check_keys() -> Iterator[CheckMessage]:
    """Connect as the service does, which needs rights and the keys of the database."""
    # A missing key was made up, and the list names it anyway.
    if {"FIELD_KEYS", "LOOKUP_KEY"} & set(missing_secrets()):
        return
    try:
        connection.ensure_connection()
    except startup.RightsMissing as e:
        yield _error("E022", str(e), "No process gets a connection without them.")
    except startup.DatabaseRefused as e:
        yield _error("E019", str(e), "No process gets a connection with this key.")
    except OperationalError:
        # `check_addresses` says so.
        pass


def check_role() -> Iterator[CheckMessage]:
    """Warn about a superuser, and about a log with personal data."""
    if embedded.is_used():
        return
    try:
        is_superuser = startup.is_superuser(settings.DATABASE_URL)
        logs_values = startup.logs_values(settings.DATABASE_URL)
    except psycopg.OperationalError:
        # `check_addresses` says so.
        return
    if is_superuser:
        text = "The role of DATABASE_URL is a superuser: it may change every record."
        yield _warning("W018", text, "Name a role that is none.")
    if logs_values:
        text = (
            "PostgreSQL's log repeats values of rows, such as names, when a statement "
            "of the role of DATABASE_URL fails."
        )
        way_out = (
            "As a superuser: ALTER ROLE ... SET log_error_verbosity = terse; ALTER "
            "ROLE ... SET log_min_error_statement = panic."
        )
        yield _warning("W021", text, way_out)


def check_backups() -> Iterator[CheckMessage]:
    """Warn if no backup was made within two days."""
    from verification.backups.models import Backup

    try:
        newest = Backup.objects.order_by("-made_at").first()
    except OperationalError:
        # `check_addresses` or `check_keys` says so.
        return
    except ProgrammingError:
        # No migration has been applied yet.
        newest = None
    if newest is None or now() - newest.made_at >= timedelta(days=2):
        text = "No backup was made within two days."
        yield _warning("W011", text, "Run `verification backup` every night.")


def check_redundancy() -> Iterator[CheckMessage]:
    """Warn if more is there than expected, because no alert tells when it is lost."""
    from verification.jobs.queue import count_working_clusters

    try:
        standbys = sum(standbys.number for standbys in read_standbys())
        clusters = count_working_clusters()
    except (OperationalError, ProgrammingError):
        # The database is away or refuses the keys, or has no tables yet.
        return
    for name, there, what in (
        ("EXPECTED_STANDBYS", standbys, "standbys follow the database"),
        ("EXPECTED_JOB_CLUSTERS", clusters, "job clusters work"),
    ):
        if there > (expected := getattr(settings, name)):
            text = f"{there} {what}, and {name} is {expected}."
            yield _warning("W017", text, f"Set {name}.")


def _sources() -> list[tuple[str, Adapter]]:
    return sorted(settings.PROVIDERS.items())


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


def _database_in_the_clear() -> str:
    """Return the first setting whose address may be used without TLS, or ""."""
    for name in ("DATABASE_URL", "DATABASE_DIRECT_URL", "DRILL_DATABASE_URL"):
        url = getattr(settings, name)
        hosts = str(conninfo_to_dict(url).get("host") or "").split(",")
        is_remote = any(h and h[0] != "/" and h not in LOCAL_HOSTS for h in hosts)
        if is_remote and startup.tls_mode(url) not in SAFE_MODES:
            return name
    return ""


def _error(number: str, text: str, way_out: str) -> Error:
    return Error(text, hint=f"{way_out} See {CONFIGURATION}.", id=f"deploy.{number}")


def _warning(number: str, text: str, way_out: str) -> Warning:
    return Warning(text, hint=f"{way_out} See {CONFIGURATION}.", id=f"deploy.{number}")
