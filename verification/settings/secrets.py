"""The secrets of an installation, from the environment, a file or a command.

The command asks a key management service or decrypts a file when a process starts, so
that no key lies on the machine's disk.
"""

import base64
import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

# 32 hexadecimal characters hold 128 bits.
SECRET_KEY_LENGTH = 32
KEY_ID = re.compile(r"[a-z0-9]{1,8}")
# Seconds; a key management service answers within a few.
COMMAND_TIMEOUT = 30
# The suffixes of a secret's name in the variables that may hold it.
FORMS = ("", "_FILE", "_COMMAND")
# What encrypts, hashes and signs
KEYS = {"SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY", "SIGNING_KEY"}
# Each secret that this process has read -> the variable that named it
read_from: dict[str, str] = {}


def is_deployment_check() -> bool:
    """Return whether this is `check --deploy`, which lists missing settings."""
    return sys.argv[1:2] == ["check"] and "--deploy" in sys.argv


def is_liveness_probe() -> bool:
    """Return whether this is `jobs --alive`, which reads one heartbeat.

    It needs no key, and asks no key management service each minute.
    """
    return sys.argv[1:] == ["jobs", "--alive"]


def missing_secrets() -> list[str]:
    """Return the required secrets without a value."""
    return [
        name
        for name in ("SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY")
        if not any(os.environ.get(name + form) for form in FORMS)
    ]


def require_secrets(*, development: bool) -> None:
    """Raise ImproperlyConfigured that names all required secrets without a value."""
    missing = missing_secrets()
    if development or not missing:
        return
    verb, each = ("is", missing[0]) if len(missing) == 1 else ("are", "each of them")
    raise ImproperlyConfigured(
        f"{', '.join(missing)} {verb} not set. Set {each}, or NAME_FILE to a file that "
        "holds it, or NAME_COMMAND to a command that prints it "
        "(docs/operator/configuration.md says how to make them), or DEBUG=True for "
        "development."
    )


def secret_key(data_dir: Path, *, development: bool) -> str:
    """Return Django's SECRET_KEY."""
    key = _read("SECRET_KEY", data_dir, development, lambda: secrets.token_urlsafe(50))
    if len(key) < SECRET_KEY_LENGTH and not development:
        raise ImproperlyConfigured(
            f"SECRET_KEY must have at least {SECRET_KEY_LENGTH} characters; "
            "docs/operator/configuration.md says how to make one."
        )
    return key


def field_keys(data_dir: Path, *, development: bool) -> list[tuple[str, bytes]]:
    """Return FIELD_KEYS as (key id, 32 bytes); the first encrypts, all decrypt.

    Written `k2:<base64>,k1:<base64>`.
    """
    text = _read("FIELD_KEYS", data_dir, development, lambda: f"k1:{_random_key()}")
    ring = [_field_key(item) for item in text.split(",")]
    if len({key_id for key_id, _ in ring}) != len(ring):
        raise ImproperlyConfigured("FIELD_KEYS names a key id twice.")
    return ring


def lookup_key(data_dir: Path, *, development: bool) -> tuple[bytes, ...]:
    """Return LOOKUP_KEY, for keyed hashes of identifiers and links, oldest first.

    Written `<base64>`, or `<base64>,<base64>` with the newest first.
    """
    text = _read("LOOKUP_KEY", data_dir, development, _random_key)
    keys = [_key_bytes("LOOKUP_KEY", item.strip()) for item in text.split(",")]
    if len(set(keys)) != len(keys):
        raise ImproperlyConfigured("LOOKUP_KEY names a key twice.")
    return tuple(reversed(keys))


def signing_key() -> bytes:
    """Return SIGNING_KEY, which signs certificates, or b"" if it is not set.

    Written `<base64>` of the 32 bytes of an Ed25519 key.
    """
    text = optional_secret("SIGNING_KEY")
    return _key_bytes("SIGNING_KEY", text) if text else b""


def optional_secret(name: str) -> str:
    """Return the secret, or "" if nothing names it.

    `NAME` holds it, the file that `NAME_FILE` names holds it, or the command in
    `NAME_COMMAND` prints it.
    """
    given = [name + form for form in FORMS if os.environ.get(name + form)]
    if len(given) > 1:
        raise ImproperlyConfigured(f"{' and '.join(given)} are set; keep one of them.")
    if not given:
        return ""
    value = os.environ[given[0]]
    read_from[name] = given[0]
    if given[0] == f"{name}_FILE":
        return _require_text(given[0], _from_file(name, Path(value)))
    if given[0] == f"{name}_COMMAND":
        if is_liveness_probe() and name in KEYS:
            return ""
        value = _from_command(name, value)
    # SECRET_KEY has signed with all of its characters until now.
    elif name != "SECRET_KEY":
        value = value.strip()
    return _require_text(given[0], value)


def header_secret(name: str) -> str:
    """Return a secret for a header of requests. Raises ImproperlyConfigured."""
    value = optional_secret(name)
    if not (value.isascii() and value.isprintable()):
        raise ImproperlyConfigured(
            f"{read_from[name]} has a line break or a character that no header of a "
            "request can have, such as a curly quote; remove it."
        )
    return value


def _require_text(variable: str, value: str) -> str:
    """Return the secret. Raises ImproperlyConfigured if it is blank or not printable.

    Editors of other systems begin a file with an invisible mark, which no source takes.
    """
    if not value.strip():
        raise ImproperlyConfigured(f"{variable} is blank; set or remove it.")
    if any(not c.isprintable() and not c.isspace() for c in value):
        raise ImproperlyConfigured(
            f"{variable} has an invisible character, as at the start of a file that "
            "was saved as “UTF-8 with BOM”; remove it."
        )
    return value


def _random_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _field_key(item: str) -> tuple[str, bytes]:
    key_id, _, encoded = item.strip().partition(":")
    if not KEY_ID.fullmatch(key_id):
        raise ImproperlyConfigured(
            "FIELD_KEYS must be written id:base64,id:base64 with ids of 1 to 8 "
            "characters a-z and 0-9."
        )
    return key_id, _key_bytes("FIELD_KEYS", encoded)


def _key_bytes(name: str, encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ImproperlyConfigured(
            f"{name} must hold 32 bytes written in base64; "
            "docs/operator/configuration.md says how to make it."
        )
    return key


def _read(name: str, data_dir: Path, development: bool, make: Callable[[], str]) -> str:
    if value := optional_secret(name):
        return value
    if is_deployment_check() and not development:
        return make()
    require_secrets(development=development)
    if is_liveness_probe():
        return make()
    return _development_secret(data_dir, name.lower(), make)


def _from_file(name: str, path: Path) -> str:
    try:
        value = path.read_text().strip()
    except OSError as e:
        raise ImproperlyConfigured(f"{name}_FILE cannot be read: {e}") from e
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name}_FILE names no text: {path}") from None
    if not value:
        raise ImproperlyConfigured(f"{name}_FILE names an empty file: {path}")
    return value


def _from_command(name: str, command: str) -> str:
    """Return what the command prints. The log gets its standard error."""
    value, failure = _run(command)
    if failure:
        # The cause tells `jobs --alive` that the command may have worked before.
        cause = ChildProcessError(failure)
        raise ImproperlyConfigured(f"{name}_COMMAND {failure}.") from cause
    return value


@cache
def _run(command: str) -> tuple[str, str]:
    """Return what the command prints, or an empty text and why it failed.

    Django reads the settings again after a refusal; the command must not hang twice.
    """
    try:
        ran = subprocess.run(  # noqa: S603
            shlex.split(command) or [command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=COMMAND_TIMEOUT,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return "", f"did not end within {COMMAND_TIMEOUT} seconds"
    except UnicodeDecodeError:
        return "", "printed no text"
    except (OSError, ValueError) as e:
        return "", f"cannot be run: {e}"
    if ran.returncode:
        return "", f"ended with {ran.returncode}"
    value = ran.stdout.strip()
    return value, "" if value else "printed nothing"


def _development_secret(data_dir: Path, name: str, make: Callable[[], str]) -> str:
    path = data_dir / "keys" / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_once(path, make)
        return path.read_text()
    except OSError as e:
        raise ImproperlyConfigured(
            f"The folder {data_dir} cannot be used ({e.strerror}: {e.filename}); make "
            "it writable for this user, or set DATA_DIR to a folder that is."
        ) from None


def _make_once(path: Path, make: Callable[[], str]) -> None:
    # The file is written under another name and then linked. If two processes start at
    # once, one of them makes the secret, and neither reads half of it.
    descriptor, aside = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        Path(aside).unlink()
