"""The answers to a security review, from this installation's code and configuration.

docs/operator/review.md has the answers that are the same for each installation.
"""

import platform
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.db.models import Model
from psycopg.conninfo import conninfo_to_dict

from verification.api.reference import operations
from verification.backoffice.roles import ROLES, SUPERUSER
from verification.backups.models import Backup, RestoreDrill
from verification.db.base import run_sql
from verification.db.startup import tls_mode
from verification.notifications.sms import sms_is_configured
from verification.privacy.processing_record import (
    Record,
    Section,
    recipients_section,
    retention_section,
    sources_section,
)
from verification.settings.secrets import read_from
from verification.values.local_time import format_nairobi
from workspaces.members import ALLOWED, Permission
from workspaces.models import Role

TITLE = "Security review"
# Key of the service -> algorithm, purpose, replacement
KEYS = {
    "FIELD_KEYS": (
        "AES-256-GCM, a key of each column by HKDF-SHA256",
        "personal fields, keys of documents, sessions",
        "reencrypt, without downtime",
    ),
    "LOOKUP_KEY": (
        "HMAC-SHA256, BLAKE2b, AES-256-GCM",
        "hosted links, hashes to find rows by, seals of backups, second factors",
        "rehash, with the service stopped",
    ),
    "SECRET_KEY": (
        "HMAC-SHA256",
        "signatures of sessions, links for a new password, packages of jobs",
        "at any time; everybody logs in again",
    ),
    "SIGNING_KEY": (
        "Ed25519",
        "certificates of erasures, anchors of the audit trail",
        "at any time, then `audit_trail accept`; former public keys stay published",
    ),
}
# Keys of clients and people, which the database holds: the columns of the table
OF_CLIENTS = (
    ("API keys", "made here", "SHA-256", "the API", "by the client; with an end"),
    (
        "Webhook secrets",
        "the client",
        "HMAC-SHA256",
        "signatures of events",
        "by the client; both sign for 24 hours",
    ),
    ("Passwords", "their owner", "Argon2id", "logins", "by their owner"),
    (
        "Second factors",
        "made here, or a passkey",
        "HMAC-SHA1 (codes), WebAuthn",
        "logins",
        "by their owner",
    ),
)
OF_OTHERS = ("-", "access to another system", "there, then here")


def security_review(at: datetime) -> Record:
    """Return the answers as code, configuration and rows of this moment make them."""
    sections = (
        _program(),
        _connections(),
        sources_section(),
        recipients_section(),
        retention_section(),
        _members(),
        _staff(),
        _scopes(),
        _keys(),
        _recovery(),
        _findings(),
    )
    return Record(TITLE, settings.OPERATOR_NAME, at, sections)


def _program() -> Section:
    ((server,),) = run_sql("SELECT current_setting('server_version')")
    return Section(
        "What runs",
        headings=("What", "Is"),
        rows=[
            ("Service", settings.VERSION),
            ("Python", platform.python_version()),
            ("PostgreSQL", server),
            ("Public address", settings.BASE_URL),
            ("Development (DEBUG)", "on" if settings.DEBUG else "off"),
        ],
    )


def _connections() -> Section:
    """Return each connection that this configuration opens or takes: the data flow."""
    service = "Web servers and jobs"
    proxies = ", ".join(settings.TRUSTED_PROXIES) or "none"
    rows = [
        ("Clients, subjects, payers, members, staff", "Proxy", "all pages and the API"),
        ("Proxy", "Web servers", f"the same; TRUSTED_PROXIES: {proxies}"),
        *_databases(),
        (service, _documents(), "documents, each encrypted under its own key"),
        ("Jobs", "Receivers of clients, by https", "events, signed"),
    ]
    if settings.REDIS_URL:
        host = urlsplit(settings.REDIS_URL).hostname
        rows.append((service, f"Redis {host}", "counters of limits, cache"))
    if settings.CLAMAV:
        host = ":".join(map(str, settings.CLAMAV))
        rows.append((service, f"Virus scanner {host}", "uploaded documents"))
    if settings.OUTBOUND_PROXY:
        rows.append((service, "OUTBOUND_PROXY", "calls to sources and receivers"))
    if settings.METRICS_TOKEN:
        rows.append(("Monitoring, by METRICS_TOKEN", "Web servers", "figures"))
    rows.append((service, f"Mail server {settings.EMAIL_HOST}", "messages"))
    if sms_is_configured():
        rows.append((service, "Africa's Talking", "messages"))
    if settings.AUDIT_EXPORT_URL:
        url = urlsplit(settings.AUDIT_EXPORT_URL)
        store = f"Log store {url.hostname}, by {url.scheme}"
        rows.append(("Jobs", store, "events of the audit trail"))
    for provider in settings.IDENTITY_PROVIDERS.values():
        host = urlsplit(provider.issuer).hostname
        what = "logins of members and staff of " + ", ".join(provider.domains)
        rows.append(("Web servers", f"Identity provider {host}", what))
    text = "The next two tables name the sources and all others that receive data."
    return Section("Data flow", [text], ("From", "To", "What"), rows)


def _databases() -> Iterator[tuple[str, str, str]]:
    """Yield the servers of PostgreSQL: a pooler and that of drills have addresses."""
    url, direct, drill = (
        settings.DATABASE_URL,
        settings.DATABASE_DIRECT_URL,
        settings.DRILL_DATABASE_URL,
    )
    rows = "all rows; personal fields are encrypted"
    if direct == url:
        yield "Web servers and jobs", _server(url), rows
    else:
        yield "Web servers", _server(url), rows
        yield "Jobs and commands", _server(direct), rows
    if drill != direct:
        yield "Drills of restores", _server(drill), "all rows of a backup"


def _server(url: str) -> str:
    host = conninfo_to_dict(url).get("host") or "this machine"
    return f"PostgreSQL on {host}, sslmode {tls_mode(url)}"


def _documents() -> str:
    is_bucket = "s3" in settings.STORAGES["documents"]["BACKEND"].lower()
    return "Bucket of documents" if is_bucket else "Folder of documents (DATA_DIR)"


def _members() -> Section:
    text = "workspaces/members.py decides; each verb asks it."
    rows = [
        (_words(p), *("yes" if p in ALLOWED[role] else "-" for role in Role.values))
        for p in Permission
    ]
    headings = ("Permission", *map(str, Role.labels))
    return Section("Access of members of clients", [text], headings, rows)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _staff() -> Section:
    text = [
        f"{SUPERUSER} may do all of it, and manages staff.",
        "A single person may have more; the audit trail records each change.",
    ]
    models: dict[str, type[Model]] = {m._meta.label_lower: m for m in apps.get_models()}
    rows = [
        (
            str(models[label]._meta.verbose_name_plural),
            *(
                ", ".join(map(_words, granted.get(label, ()))) or "-"
                for granted in ROLES.values()
            ),
        )
        for label in sorted({label for granted in ROLES.values() for label in granted})
    ]
    return Section("Access of staff", text, ("What", *ROLES), rows)


def _scopes() -> Section:
    allowed: dict[str, list[str]] = defaultdict(list)
    for operation in operations().values():
        if operation.method != "event":
            address = f"{operation.method.upper()} {operation.path}"
            allowed[operation.scope or "any key"].append(address)
    text = "A key works in one environment of one workspace, until it expires."
    rows = [(scope, ", ".join(allowed[scope])) for scope in sorted(allowed)]
    return Section("Access of API keys", [text], ("Scope", "Operations"), rows)


def _keys() -> Section:
    text = [
        "Values of the service's secrets are in no table, no log and no backup.",
        "Those of clients and people are hashed or encrypted in the database.",
        f"Ids of FIELD_KEYS: {', '.join(name for name, _ in settings.FIELD_KEYS)}.",
    ]
    names = [*KEYS, *sorted(set(read_from) - set(KEYS))]
    return Section(
        "Keys",
        text,
        ("Secret", "Comes from", "Algorithm", "For", "Replaced by"),
        [
            (name, read_from.get(name, "not set"), *KEYS.get(name, OF_OTHERS))
            for name in names
        ]
        + list(OF_CLIENTS),
    )


def _recovery() -> Section:
    backup = Backup.objects.order_by("-made_at").first()
    drill = RestoreDrill.objects.filter(succeeded=True).order_by("-made_at").first()
    ((mode, archived, standbys),) = run_sql(
        "SELECT current_setting('archive_mode'), last_archived_time,"
        " current_setting('synchronous_standby_names') FROM pg_stat_archiver"
    )
    return Section(
        "Recovery",
        headings=("What", "Newest"),
        rows=[
            ("Backup", _took(backup)),
            ("Restore that was tried", _took(drill)),
            (
                "Archive of the write-ahead log",
                f"at {format_nairobi(archived)}" if archived else f"none ({mode})",
            ),
            ("Synchronous standbys", standbys or "none"),
        ],
    )


def _took(row: Backup | RestoreDrill | None) -> str:
    if row is None:
        return "none"
    return f"{format_nairobi(row.made_at)}, took {row.seconds or 0:.0f} seconds"


def _findings() -> Section:
    found = run_checks(include_deployment_checks=True, databases=["default"])
    rows = [
        (each.id or "-", each.msg, each.hint or "-")
        for each in sorted(found, key=lambda each: -each.level)
        if not each.is_silenced()
    ]
    return Section(
        "Open findings",
        ["What check --deploy --database default says now."],
        ("Code", "Finding", "What to do"),
        rows,
    )
