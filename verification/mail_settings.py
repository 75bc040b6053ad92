"""Django's settings of the mail server, from EMAIL_URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_email_url
from django.core.exceptions import ImproperlyConfigured

# `submission` begins with STARTTLS; `smtp` does what `?tls=True` or `?ssl=True` says.
SCHEMES = {"smtp", "submission", "console", "file", "dummy"}
# For each step of a conversation with the server.
SECONDS = 10
# Rights of everybody but the owner.
OTHERS = 0o077


def mail_settings(url: str) -> dict[str, Any]:
    """EMAIL_BACKEND, EMAIL_HOST and so on. Raises ImproperlyConfigured."""
    if urlsplit(url).scheme not in SCHEMES:
        # Without the address, which may hold a password.
        raise ImproperlyConfigured(
            f"EMAIL_URL must begin with one of {', '.join(sorted(SCHEMES))}, and ://."
        )
    try:
        found: dict[str, Any] = dj_email_url.parse(url)
    except ValueError as e:
        raise ImproperlyConfigured("EMAIL_URL has no usable port or timeout.") from e
    return {**found, "EMAIL_TIMEOUT": found["EMAIL_TIMEOUT"] or SECONDS}


def mailbox(data_dir: Path) -> Path:
    """The folder of e-mails that a developer's service writes instead of sending them.

    Their links open reports, so that its owner alone can read it.
    """
    folder = data_dir / "mail"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_mode & OTHERS:
            folder.chmod(0o700)
    except OSError as e:
        raise ImproperlyConfigured(
            f"The folder {folder} cannot be made private ({e.strerror}); make it "
            "yours, or set DATA_DIR to a folder that is."
        ) from None
    return folder
