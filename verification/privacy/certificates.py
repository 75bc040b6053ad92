"""Certificates of erasures: their contents, signature, and published keys.

A certificate is a JSON text without personal data. The signature is Ed25519 over its
exact bytes. Every key that has signed one stays published, so that a certificate can be
verified for ever: docs/client/privacy.md says how.
"""

from base64 import b64encode
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from django.conf import settings
from django.urls import reverse
from django.utils import translation

from monitoring.models import Rule
from verification.documents import pdf
from verification.privacy.models import Erasure, Origin, SigningKey
from verification.privacy.personal_data import TABLES
from verification.values.formats import one_line
from verification.values.local_time import FULL_FORMAT, format_nairobi, utc_text

KEY_ID_DIGITS = 16
RULES = Rule._meta.db_table
# Table -> what the certificate calls its rows
WORDS = {RULES: "monitoring rules", **{table.name: table.what for table in TABLES}}
REQUESTED_BY = {
    Origin.SUBJECT: "the data subject",
    Origin.MY_DATA: "the data subject",
    Origin.CLIENT: "the client",
    Origin.STAFF: "the operator",
}
KEPT = (
    "ids, checks, states, times and prices of the reports; entries of the ledger, "
    "invoices and receipts without payers; the audit trail"
)


class NotEnded(Exception):
    """The erasure has not ended, so that it has no certificate."""


def certify(erasure: Erasure, at: datetime) -> None:
    """Set the certificate and its signature on an erasure that ends at this time."""
    request = erasure.request
    key_id, _ = _public_key(_todays_key())
    text = orjson.dumps(
        {
            "type": "erasure-certificate",
            "version": 1,
            "number": erasure.number,
            "erasure": str(erasure.pk),
            "request": request.number,
            "requestedBy": REQUESTED_BY[Origin(request.origin)],
            "requestedAt": utc_text(request.received_at),
            "erasedAt": utc_text(at),
            "workspace": str(request.workspace_id),
            "environment": request.environment,
            "searchedBy": sorted(erasure.searched_by),
            "reports": sorted(map(str, erasure.report_ids)),
            "erased": {
                WORDS[table]: count for table, count in sorted(erasure.counts.items())
            },
            "kept": KEPT,
            "operator": settings.OPERATOR_NAME,
            "key": key_id,
        },
        option=orjson.OPT_INDENT_2,
    )
    erasure.certificate = text.decode()
    _, erasure.signature = sign(text)


def sign(text: bytes) -> tuple[str, bytes]:
    """Return the key's id and its signature, and publish the key."""
    key = _todays_key()
    key_id, pem = _public_key(key)
    SigningKey.objects.get_or_create(pk=key_id, defaults={"pem": pem})
    return key_id, key.sign(text)


def is_signed(text: bytes, signature: bytes, pem: str) -> bool:
    """Return whether the key with this public part has signed the text."""
    public = load_pem_public_key(pem.encode())
    if not isinstance(public, Ed25519PublicKey):
        return False
    try:
        public.verify(signature, text)
    except InvalidSignature:
        return False
    return True


def facts_of(erasure: Erasure) -> dict[str, Any]:
    """Return the members of the certificate. Raises NotEnded."""
    if erasure.ended_at is None:
        raise NotEnded
    facts: dict[str, Any] = orjson.loads(erasure.certificate)
    return facts


def signed_members(erasure: Erasure) -> dict[str, str]:
    """Return the certificate, its signature and its key's address. Raises NotEnded."""
    key = facts_of(erasure)["key"]
    return {
        "certificate": erasure.certificate,
        "signature": _signature_of(erasure),
        "key": key,
        "keyUrl": _key_url(key),
    }


def _signature_of(erasure: Erasure) -> str:
    return b64encode(bytes(erasure.signature or b"")).decode()


def published_keys() -> list[SigningKey]:
    """Return today's key, and all that have signed a certificate, newest first."""
    key_id, pem = _public_key(_todays_key())
    former = SigningKey.objects.exclude(pk=key_id).order_by("-first_used_at")
    return [SigningKey(pk=key_id, pem=pem), *former]


def certificate_pdf(erasure: Erasure, language: str = "en") -> bytes:
    """Render the facts of the certificate with its signature, as PDF/UA."""
    facts = facts_of(erasure)
    workspace = erasure.request.workspace
    ended_at = erasure.ended_at or erasure.created_at
    with translation.override(language):
        at = format_nairobi(ended_at, FULL_FORMAT)
        requested_at = format_nairobi(erasure.request.received_at, FULL_FORMAT)
    data = {
        "language": language,
        "number": facts["number"],
        "request": facts["request"],
        "requestedBy": erasure.request.origin,
        "requestedAt": requested_at,
        "at": at,
        "workspace": one_line(workspace.requester.name) if workspace else "",
        "workspaceId": facts["workspace"],
        "isPlay": facts["environment"] == "sandbox",
        # Certificates of an older version do not say it.
        "searchedBy": facts.get("searchedBy", []),
        "reports": facts["reports"],
        "erased": sorted(facts["erased"].items()),
        "operator": facts["operator"],
        "contact": settings.OPERATOR_CONTACT,
        "key": facts["key"],
        "keyUrl": _key_url(facts["key"]),
        "digest": sha256(erasure.certificate.encode()).hexdigest(),
        "signature": _signature_of(erasure),
    }
    return pdf.render_document("erasure_certificate.typ", ended_at, data)


def _key_url(key_id: str) -> str:
    """Return the address at which the public key is published."""
    return settings.BASE_URL + reverse("signing-key", args=[key_id])


def _todays_key() -> Ed25519PrivateKey:
    return _private_key(settings.SIGNING_KEY, settings.SECRET_KEY)


@cache
def _private_key(configured: bytes, secret: str) -> Ed25519PrivateKey:
    """Return the configured key, or one that is derived from SECRET_KEY."""
    if not configured:
        derive = HKDF(SHA256(), length=32, salt=None, info=b"erasure certificates")
        configured = derive.derive(secret.encode())
    return Ed25519PrivateKey.from_private_bytes(configured)


def _public_key(key: Ed25519PrivateKey) -> tuple[str, str]:
    """Return the id of the public key, and the key as PEM."""
    public, form = key.public_key(), PublicFormat.SubjectPublicKeyInfo
    digest = sha256(public.public_bytes(Encoding.DER, form)).hexdigest()
    return digest[:KEY_ID_DIGITS], public.public_bytes(Encoding.PEM, form).decode()
