"""Database, processes, mail, documents, scanner and proxy, from the environment."""

import os
import re
import ssl
from ipaddress import ip_network
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import psycopg
from django.core.exceptions import ImproperlyConfigured
from environs import Env, validate
from psycopg.conninfo import conninfo_to_dict

from verification.extras import missing_extra
from verification.outbound.proxy import Proxy
from verification.settings.secrets import is_deployment_check, optional_secret
from verification.values.networks import WrongNetwork, read_networks, unmap

env = Env()

# A connection whose other end has vanished is noticed within about ten seconds.
KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# The container's processor quota: microseconds of processor time, and their period
PROCESSOR_LIMIT = Path("/sys/fs/cgroup/cpu.max")
# libpq's name -> Django's
DATABASE_PARTS = {
    "dbname": "NAME",
    "user": "USER",
    "password": "PASSWORD",
    "host": "HOST",
    "port": "PORT",
}

BACKENDS = {
    "console": "django.core.mail.backends.console.EmailBackend",
    "dummy": "django.core.mail.backends.dummy.EmailBackend",
    "file": "django.core.mail.backends.filebased.EmailBackend",
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    # Begins with STARTTLS.
    "submission": "django.core.mail.backends.smtp.EmailBackend",
}
PORTS = {"smtp": 25, "submission": 587}
OPTIONS = {"ssl", "tls", "timeout"}
YES = {"1", "on", "t", "true", "y", "yes"}
NO = {"", "0", "f", "false", "n", "no", "off"}
# For each step of a conversation with the server.
TIMEOUT_SECONDS = 10
# Rights of everybody but the owner.
OTHERS_PERMISSIONS = 0o077
# The names of buckets that boto3 accepts
BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}|arn:[^\s]+")
# Numbers of days, hours, minutes or seconds. After a larger one no date could follow.
SPAN = validate.Range(min=1, max=100_000)
COUNT = validate.Range(min=0, max=1_000_000_000)
# `host` or `host:port`, as a request names it; also an IPv6 address in brackets.
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s/@\[\]:?#]+)(:[0-9]{1,5})?")


def one_line(name: str, default: str = "") -> str:
    """Return the text of a variable. Raises ImproperlyConfigured if it is no line."""
    text = env.str(name, "") or default
    if text and not (text.strip() and len(text.splitlines()) == 1):
        raise ImproperlyConfigured(f"{name} must be one line of text.")
    return text.strip()


def web_address(name: str, default: str = "") -> str:
    """Return the address that a variable names. Raises ImproperlyConfigured."""
    url = env.str(name, "")
    if url and not (url.startswith(("https://", "http://")) and _has_host(url)):
        raise ImproperlyConfigured(
            f"{name} must be an address, such as https://host or https://host:8443."
        )
    return url or default


def redis_address() -> str:
    url = env.str("REDIS_URL", "")
    is_host = url.startswith(("redis://", "rediss://")) and _has_host(url)
    if url and not (is_host or url.startswith("unix://")):
        raise ImproperlyConfigured(
            "REDIS_URL must be an address, such as redis://host:6379, rediss://host or "
            "unix:///path."
        )
    return url


def _has_host(url: str) -> bool:
    """Return whether the URL names a host, and a usable port if it names one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def host_names(name: str) -> list[str]:
    """Return the hosts that a variable lists. Raises ImproperlyConfigured."""
    hosts = [entry.strip() for entry in env.str(name, "").split(",") if entry]
    for host in hosts:
        if not HOST.fullmatch(host) or host != host.lower():
            raise ImproperlyConfigured(
                f"{name} has {host!r}; write host or host:port, in lower case."
            )
    return hosts


def host_name(name: str) -> str:
    """Return the host that a variable names, or "". Raises ImproperlyConfigured."""
    host = env.str(name, "")
    if host and not HOST.fullmatch(host):
        raise ImproperlyConfigured(f"{name} must be a host alone, such as bank.co.ke.")
    return host


def primary_url(url: str) -> str:
    """Return the URL of a database; of several hosts it chooses the primary server."""
    _, _, rest = url.partition("://")
    hosts, _, parameters = rest.partition("?")
    if "," not in hosts.partition("/")[0] or "target_session_attrs=" in parameters:
        return url
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}target_session_attrs=read-write"


def database_settings(variable: str, url: str) -> dict[str, Any]:
    """Return Django's settings of the database. Raises ImproperlyConfigured.

    The URL is libpq's: it may name several hosts, and set any parameter of libpq after
    its `?`.
    """
    wrong = ImproperlyConfigured(
        f"{variable} is no address of a PostgreSQL database; write "
        "postgresql://user:password@host:5432/database, with %40 for an @ in a "
        "password."
    )
    if not url.startswith(("postgresql://", "postgres://")):
        raise wrong
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise wrong from None
    ports = str(parts.get("port") or "").split(",")
    if not all(port == "" or (port.isascii() and port.isdigit()) for port in ports):
        raise wrong
    named = {django: parts.pop(libpq, "") for libpq, django in DATABASE_PARTS.items()}
    # For each host. After this the response is 503; otherwise an unreachable host would
    # keep a thread for two minutes.
    connect_timeout = 3 if "," in str(named["HOST"]) else 5
    return {
        "ENGINE": "verification.db",
        **named,
        # Each thread keeps its own connection. A pool of two connections for each
        # process answered 4 % more requests, but quick requests would wait for slow
        # ones.
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": connect_timeout,
            **KEEPALIVE,
            **parts,
            "server_side_binding": True,
            # Repeated statements are parsed and planned once for each connection, which
            # saves a fifth of the time of creating a report.
            "prepare_threshold": 5,
        },
    }


def process_count(name: str, count: int) -> int:
    """Return the number of processes. Raises ImproperlyConfigured if it is not one."""
    if count < 1 and not is_deployment_check():
        raise ImproperlyConfigured(f"{name} is {count}; it must be at least 1.")
    return count


def count_processors(limit: Path = PROCESSOR_LIMIT) -> int:
    """Return how many processors this container may use, of those of its machine."""
    processors = os.cpu_count() or 1
    if not limit.is_file():
        return processors
    quota, period = limit.read_text().split()
    if quota == "max":
        return processors
    return min(processors, ceil(int(quota) / int(period)))


def mail_settings(url: str) -> dict[str, Any]:
    """Return EMAIL_BACKEND, EMAIL_HOST and so on. Raises ImproperlyConfigured.

    `?ssl=True` speaks TLS from the first byte, `?tls=True` begins with STARTTLS, and
    `?timeout=` is in seconds.
    """
    parts, port = _split(url)
    if parts.scheme not in BACKENDS:
        raise _refusal(f"must begin with one of {', '.join(BACKENDS)}, and ://")
    if parts.scheme == "submission" and not parts.hostname:
        raise _refusal("names no host")
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.fragment or not options.keys() <= OPTIONS:
        raise _refusal(
            f"takes the options {', '.join(sorted(OPTIONS))} after its `?`; write "
            "`?` and `#` of a password as %3F and %23"
        )
    use_ssl = _flag(options, "ssl")
    use_tls = _flag(options, "tls") or parts.scheme == "submission"
    return {
        "EMAIL_BACKEND": BACKENDS[parts.scheme],
        "EMAIL_HOST": parts.hostname or "localhost",
        "EMAIL_PORT": port or PORTS.get(parts.scheme),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": use_tls and not use_ssl,
        "EMAIL_USE_SSL": use_ssl,
        "EMAIL_TIMEOUT": _timeout(options),
        "EMAIL_FILE_PATH": parts.path[1:],
    }


def _refusal(reason: str) -> ImproperlyConfigured:
    """Name the variable and not its value, which may hold a password."""
    return ImproperlyConfigured(f"EMAIL_URL {reason}.")


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        raise _refusal("has no usable host or port") from None


def _flag(options: dict[str, str], name: str) -> bool:
    text = options.get(name, "").lower()
    if text not in YES | NO:
        raise _refusal(f"must say True or False as {name}")
    return text in YES


def _timeout(options: dict[str, str]) -> int:
    text = options.get("timeout", "0")
    if not (text.isascii() and text.isdigit()):
        raise _refusal("has no usable timeout; write seconds as a whole number")
    return int(text) or TIMEOUT_SECONDS


def mailbox(data_dir: Path) -> Path:
    """Return the folder for e-mails of a development service, which sends none.

    Only its owner can read the folder, because links in e-mails open reports.
    """
    folder = data_dir / "mail"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_mode & OTHERS_PERMISSIONS:
            folder.chmod(0o700)
    except OSError as e:
        raise ImproperlyConfigured(
            f"The folder {folder} cannot be made private ({e.strerror}); make it "
            "yours, or set DATA_DIR to a folder that is."
        ) from None
    return folder


def scanner_address() -> tuple[str, int] | None:
    """Return host and port of ClamAV's daemon. Raises ImproperlyConfigured."""
    text = env.str("CLAMAV", "")
    if not text:
        return None
    parts = urlsplit(f"//{text}" if _has_host(f"//{text}") else "")
    if not (parts.hostname and parts.port and parts.netloc == text):
        raise ImproperlyConfigured("CLAMAV must be host:port, as in clamav:3310.")
    return parts.hostname, parts.port


def proxy_addresses(entries: list[str]) -> list[str]:
    """Return the networks of TRUSTED_PROXIES. Raises ImproperlyConfigured."""
    networks = []
    for entry in entries:
        try:
            networks.append(str(unmap(ip_network(entry.strip(), strict=False))))
        except ValueError:
            raise ImproperlyConfigured(
                f"TRUSTED_PROXIES has {entry!r}, which is no address or network, such "
                "as 10.0.0.5 or 10.0.0.0/24."
            ) from None
    return networks


def admin_networks(entries: list[str]) -> list[str]:
    """Return the entries of ADMIN_NETWORKS. Raises ImproperlyConfigured."""
    try:
        return read_networks(entries)
    except WrongNetwork as e:
        raise ImproperlyConfigured(f"ADMIN_NETWORKS: {e}") from None


def outbound_proxy() -> Proxy | None:
    """Return the proxy for calls to other systems. Raises ImproperlyConfigured.

    The refusal names the variable and not its value, which may hold a password.
    """
    url = optional_secret("OUTBOUND_PROXY")
    try:
        return Proxy.parse(url) if url else None
    except ValueError as e:
        raise ImproperlyConfigured(f"OUTBOUND_PROXY {e}.") from None


def certificates_file(name: str, path: str) -> str:
    """Return the path of a PEM file, or "". Raises ImproperlyConfigured."""
    try:
        if path:
            ssl.create_default_context(cafile=path)
    except OSError:
        # Also the error of a file without certificates.
        raise ImproperlyConfigured(
            f"{name} must be a file of certificates in PEM that the service can read."
        ) from None
    return path


def own_certificate_file(name: str, path: str) -> str:
    """Return the path of a PEM file and key, or "". Raises ImproperlyConfigured."""
    try:
        if path:
            # OpenSSL asks for a password at the terminal unless it is given one.
            ssl.create_default_context().load_cert_chain(path, password="")
    except OSError:
        raise ImproperlyConfigured(
            f"{name} must be a file in PEM that the service can read, with its"
            " certificate and its key without a password."
        ) from None
    return path


def audit_export_url(url: str) -> str:
    """Return the address of AUDIT_EXPORT_URL, or "". Raises ImproperlyConfigured."""
    if not url:
        return ""
    parts = urlsplit(url if _has_host(url) else "")
    is_bare = not (parts.path.strip("/") or parts.query)
    is_known = parts.scheme == "https" or (parts.scheme == "syslog+tls" and is_bare)
    if not is_known or "@" in parts.netloc or "#" in url:
        raise ImproperlyConfigured(
            "AUDIT_EXPORT_URL must be syslog+tls://host:6514 or https://host/path."
        )
    return url


def document_storage(data_dir: Path) -> dict[str, Any]:
    """Return the storage for Django's STORAGES. Raises ImproperlyConfigured."""
    bucket = env.str("DOCUMENTS_BUCKET", "")
    if not bucket:
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {
                "location": Path(
                    one_line("DOCUMENTS_DIR", str(data_dir / "documents"))
                ),
                "file_permissions_mode": 0o600,
                "directory_permissions_mode": 0o700,
            },
        }
    if refusal := missing_extra("bucket"):
        raise ImproperlyConfigured(refusal)
    if not BUCKET.fullmatch(bucket):
        raise ImproperlyConfigured(
            "DOCUMENTS_BUCKET must be the name of a bucket, such as kyb-documents, or "
            "an ARN; its address is DOCUMENTS_S3_URL."
        )
    addressing = env.str("DOCUMENTS_S3_ADDRESSING", "")
    if addressing not in {"", "auto", "path", "virtual"}:
        raise ImproperlyConfigured(
            "DOCUMENTS_S3_ADDRESSING must be path, virtual or auto."
        )
    access_key = env.str("DOCUMENTS_S3_ACCESS_KEY", "")
    secret = optional_secret("DOCUMENTS_S3_SECRET_KEY")
    if bool(access_key) != bool(secret):
        raise ImproperlyConfigured(
            "One of DOCUMENTS_S3_ACCESS_KEY and DOCUMENTS_S3_SECRET_KEY is not set; "
            "set both or none."
        )
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": bucket,
            # Amazon's own endpoint is the default.
            "endpoint_url": web_address("DOCUMENTS_S3_URL") or None,
            "region_name": env.str("DOCUMENTS_S3_REGION", "") or None,
            # If these are None, boto3 finds credentials, such as the machine's role.
            "access_key": access_key or None,
            "secret_key": secret or None,
            "addressing_style": addressing or None,
            "default_acl": "private",
            "file_overwrite": True,
        },
    }
