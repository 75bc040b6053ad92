"""Files that only their user can read: the key, secrets and cursors of `vrf`."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from ._settings import Settings


def read_key() -> tuple[str, str]:
    """Return key and address from the environment, or as `vrf login` stored them.

    Both come from one place. Otherwise a key could be sent to another service.
    """
    key = os.environ.get("VERIFICATION_API_KEY")
    url = os.environ.get("VERIFICATION_BASE_URL")
    if bool(key) != bool(url):
        raise ValueError(
            "set both VERIFICATION_API_KEY and VERIFICATION_BASE_URL, or neither"
        )
    if not key or not url:
        stored = _read("login.json")
        key, url = stored.get("api_key"), stored.get("base_url")
    if not key or not url:
        raise ValueError("no key is stored: run vrf login")
    return key, url


def write_key(key: str, url: str) -> None:
    _write("login.json", {"api_key": key, "base_url": url})


class Place:
    """The cursor of one key's listener, and the secret with which it signs."""

    def __init__(self, settings: Settings) -> None:
        text = f"{settings.base_url} {settings.api_key}"
        self._name = f"listen-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        stored = _read(self._name)
        self.secret: str = stored.get("secret") or _new_secret()
        self.cursor: str | None = stored.get("cursor")

    def move(self, cursor: str) -> None:
        self.cursor = cursor
        _write(self._name, {"secret": self.secret, "cursor": cursor})


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _folder() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "verification-reports"


def _read(name: str) -> dict[str, Any]:
    path = _folder() / name
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} is damaged: delete it")
    return stored


def _write(name: str, content: dict[str, Any]) -> None:
    """Replace a file as a whole. At no moment can another user read it."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f"{name}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    draft.replace(folder / name)
