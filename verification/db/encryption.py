"""Encryption of fields at rest, and keyed hashes to look rows up without reading them.

A sealed value is AES-256-GCM under a key of its own column (HKDF from the ring
FIELD_KEYS), bound to column and row: a value copied to another row or column, a changed
byte or an unknown key raises `cryptography.exceptions.InvalidTag` or `UnknownKey`.

A JSON value may be compressed first, as a sealed value cannot be: the payload of an
event becomes a seventh. A reader of the database sees the length of a sealed value,
compressed or not.
"""

from __future__ import annotations

import hmac
import os
import uuid
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import local
from typing import Any

import orjson
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.apps import apps
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.query_utils import DeferredAttribute
from zstandard import (
    FORMAT_ZSTD1_MAGICLESS,
    ZstdCompressionDict,
    ZstdCompressionParameters,
    ZstdCompressor,
    ZstdDecompressor,
)

# The first byte of a sealed value. No release wrote a 2.
PLAIN, COMPRESSED = 1, 3
NONCE_BYTES = 12
# Compressed values are read with this file, which therefore never changes. zstd's
# trainer made it from the values that orders of every check in the sandbox seal.
DICTIONARY = ZstdCompressionDict(
    Path(__file__).with_name("sealed_values.zstd").read_bytes()
)
# Higher levels take several times as long and save a twentieth.
LEVEL = 9
# The first byte of the value says the format.
FORMAT = FORMAT_ZSTD1_MAGICLESS


class _Compression(local):
    """The compressor of each thread, which threads may not share."""

    def __init__(self) -> None:
        parameters = ZstdCompressionParameters.from_level(
            LEVEL, format=FORMAT, write_dict_id=False
        )
        self.compress = ZstdCompressor(
            dict_data=DICTIONARY, compression_params=parameters
        ).compress
        self.decompress = ZstdDecompressor(
            dict_data=DICTIONARY, format=FORMAT
        ).decompress


_zstd = _Compression()


class UnknownKey(Exception):
    """The value was sealed with a key that FIELD_KEYS no longer names."""


def seal(
    plaintext: bytes, *, column: str, row: object, compressed: bool = False
) -> bytes:
    """Return version, length of key id, key id, nonce, and ciphertext with its tag."""
    key_id, _ = settings.FIELD_KEYS[0]
    nonce = os.urandom(NONCE_BYTES)
    version = COMPRESSED if compressed else PLAIN
    sealed = _cipher(key_id, column).encrypt(
        nonce,
        _zstd.compress(plaintext) if compressed else plaintext,
        _associated_data(column, row, version),
    )
    return bytes((version, len(key_id))) + key_id.encode() + nonce + sealed


def unseal(sealed: bytes, *, column: str, row: object) -> bytes:
    key_id, version = key_id_of(sealed), sealed[0]
    start = 2 + len(key_id)
    nonce = sealed[start : start + NONCE_BYTES]
    ciphertext = sealed[start + NONCE_BYTES :]
    plaintext = _cipher(key_id, column).decrypt(
        nonce, ciphertext, _associated_data(column, row, version)
    )
    return _zstd.decompress(plaintext) if version == COMPRESSED else plaintext


def is_compressed(sealed: bytes) -> bool:
    return sealed[0] != PLAIN


def key_id_of(sealed: bytes) -> str:
    """Return the id of the key that sealed this value."""
    if len(sealed) < 2 or sealed[0] not in (PLAIN, COMPRESSED):
        raise UnknownKey("not a sealed value, or one of an unknown version")
    return sealed[2 : 2 + sealed[1]].decode("ascii", "replace")


def key_fingerprints() -> dict[str, str]:
    """Return a keyed hash of a constant for the id of each key."""
    return {
        key_id: hmac.new(key, b"field key", "sha256").hexdigest()[:32]
        for key_id, key in settings.FIELD_KEYS
    }


@cache
def sealed_fields() -> list[EncryptedJSONField]:
    """Return the sealed fields of all models."""
    return [
        field
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedJSONField)
    ]


def _associated_data(column: str, row: object, version: int) -> bytes:
    place = f"{column}|{row}"
    return (place if version == PLAIN else f"{place}|{version}").encode()


@cache
def _cipher(key_id: str, column: str) -> AESGCM:
    ring = dict(settings.FIELD_KEYS)
    if key_id not in ring:
        raise UnknownKey(f"FIELD_KEYS has no key {key_id!r}")
    derive = HKDF(SHA256(), length=32, salt=None, info=f"field|{column}".encode())
    return AESGCM(derive.derive(ring[key_id]))


class _SealedValue(bytes):
    """A value as the table has it, which is not decrypted yet."""


class _UnsealOnAccess(DeferredAttribute):
    field: EncryptedJSONField

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        value = super().__get__(instance, cls)
        if isinstance(value, _SealedValue):
            value = self.field.open(value, instance.pk)
            instance.__dict__[self.field.attname] = value
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        # Because of `__set__`, Python calls the descriptor before it reads the
        # instance's dictionary.
        instance.__dict__[self.field.attname] = value


class EncryptedJSONField(models.BinaryField):
    """A JSON value, sealed to its row and decrypted when it is first read.

    The erasure of a report empties the sealed fields of its tables.

    The row needs its primary key before it is saved, as all our models have.
    """

    descriptor_class = _UnsealOnAccess
    # For the type checker: the value is any JSON value.
    _pyi_private_get_type: Any
    _pyi_private_set_type: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["editable"] = False
        super().__init__(*args, **kwargs)

    @property
    def column_name(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"

    def seal(self, value: Any, pk: object) -> bytes | None:
        if value is None:
            return None
        return seal(
            orjson.dumps(value),
            column=self.column_name,
            row=pk,
            compressed=settings.COMPRESS_SEALED_VALUES,
        )

    def open(self, sealed: bytes, pk: object) -> Any:
        return orjson.loads(unseal(bytes(sealed), column=self.column_name, row=pk))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else _SealedValue(value)

    def pre_save(self, model_instance: Any, add: bool) -> bytes | None:
        value = model_instance.__dict__.get(self.attname)
        if isinstance(value, _SealedValue):
            return bytes(value)
        return self.seal(value, model_instance.pk)

    def value_to_string(self, obj: Any) -> str:
        return ""


def keyed_hash(purpose: str, *parts: object) -> bytes:
    """Return HMAC-SHA256 under LOOKUP_KEY, which finds equal values and reveals no
    more.

    Each further key of LOOKUP_KEY hashes the hash again. So `manage.py rehash` updates
    a stored hash from the hash alone, and the former keys alone cannot make one.
    """
    return keyed_hashes(purpose, *parts)[-1]


def keyed_hashes(purpose: str, *parts: object) -> list[bytes]:
    """Return the keyed hash as it was under the first key ever, and after each further
    key; the last is today's."""
    hashed = "\x1f".join([purpose, *map(str, parts)]).encode()
    return [hashed := _rehash(hashed, key) for key in settings.LOOKUP_KEY]


def keyed_uuid(purpose: str, *parts: object) -> uuid.UUID:
    """A keyed hash in the form of a UUID (version 8: vendor specific)."""
    further = settings.LOOKUP_KEY[1:]
    made = _to_uuid8(keyed_hashes(purpose, *parts)[0])
    return KeyedUUIDField.rehashed(made, further)


def _rehash(value: bytes, key: bytes) -> bytes:
    return hmac.digest(key, value, "sha256")


def _to_uuid8(hashed: bytes) -> uuid.UUID:
    raw = hashed[:16]
    marks = bytes((raw[6] & 0x0F | 0x80, raw[7], raw[8] & 0x3F | 0x80))
    return uuid.UUID(bytes=raw[:6] + marks + raw[9:])


class _KeyedField:
    """A field that is its base field in the database and in migrations."""

    base_path: str

    def deconstruct(self) -> Any:
        name, _, *rest = super().deconstruct()  # type: ignore[misc]
        return name, self.base_path, *rest


class KeyedHashField(_KeyedField, models.BinaryField):
    """A column for the results of `keyed_hash`."""

    base_path = "django.db.models.BinaryField"

    @staticmethod
    def rehashed(value: bytes, keys: Iterable[bytes]) -> bytes:
        """Return a stored value as it is under these further keys too."""
        for key in keys:
            value = _rehash(bytes(value), key)
        return value


class KeyedUUIDField(_KeyedField, models.UUIDField):
    """A column for the results of `keyed_uuid`."""

    base_path = "django.db.models.UUIDField"

    @staticmethod
    def rehashed(value: uuid.UUID, keys: Iterable[bytes]) -> uuid.UUID:
        for key in keys:
            value = _to_uuid8(_rehash(value.bytes, key))
        return value


class KeyedUUIDsField(_KeyedField, ArrayField):
    """A column for several results of `keyed_uuid`."""

    base_path = "django.contrib.postgres.fields.ArrayField"

    @staticmethod
    def rehashed(value: list[uuid.UUID], keys: Iterable[bytes]) -> list[uuid.UUID]:
        further = list(keys)
        return [KeyedUUIDField.rehashed(one, further) for one in value]


class KeyedTermsField(_KeyedField, ArrayField):
    """Keyed hashes of 64 bits each, by which a row is searched."""

    base_path = "django.contrib.postgres.fields.ArrayField"

    @staticmethod
    def rehashed(value: list[int], keys: Iterable[bytes]) -> list[int]:
        term_keys = derive_term_keys(keys)
        return [hash_term(term_keys, term.to_bytes(8, signed=True)) for term in value]


def derive_term_keys(keys: Iterable[bytes]) -> list[bytes]:
    return [_rehash(b"search terms", key) for key in keys]


def hash_term(keys: Iterable[bytes], value: bytes) -> int:
    """Return 64 bits of a hash of the value under each of the keys in turn."""
    for key in keys:
        # blake2b takes a key by itself, and is several times faster than an HMAC.
        value = blake2b(value, digest_size=8, key=key).digest()
    return int.from_bytes(value, signed=True)
