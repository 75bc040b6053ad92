"""The storage of uploaded documents, from the environment.

    STORAGES["documents"] = document_storage(env, DATA_DIR)

The storage is a local folder, or the bucket that `DOCUMENTS_BUCKET` names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import Env

from verification.extras import missing_extra
from verification.settings.secrets import optional_secret


def scanner_address(env: Env) -> tuple[str, int] | None:
    """Host and port of ClamAV's daemon, from CLAMAV. Raises ImproperlyConfigured."""
    text = env.str("CLAMAV", "")
    if not text:
        return None
    parts = urlsplit(f"//{text}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not (host and port and parts.netloc == text):
        raise ImproperlyConfigured("CLAMAV must be host:port, as in clamav:3310.")
    return host, port


def document_storage(env: Env, data_dir: Path) -> dict[str, Any]:
    """Return the storage for Django's STORAGES. Raises ImproperlyConfigured."""
    bucket = env.str("DOCUMENTS_BUCKET", "")
    if not bucket:
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {
                "location": data_dir / "documents",
                "file_permissions_mode": 0o600,
                "directory_permissions_mode": 0o700,
            },
        }
    if refusal := missing_extra("bucket"):
        raise ImproperlyConfigured(refusal)
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": bucket,
            # None means Amazon's own endpoint.
            "endpoint_url": env.str("DOCUMENTS_S3_URL", "") or None,
            "region_name": env.str("DOCUMENTS_S3_REGION", "") or None,
            # Without these, boto3 finds credentials itself, such as the machine's role.
            "access_key": env.str("DOCUMENTS_S3_ACCESS_KEY", "") or None,
            "secret_key": optional_secret("DOCUMENTS_S3_SECRET_KEY") or None,
            "addressing_style": env.str("DOCUMENTS_S3_ADDRESSING", "") or None,
            "default_acl": "private",
            "file_overwrite": True,
        },
    }
