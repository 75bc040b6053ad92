"""Row identifiers: UUIDv7, so that rows made together lie together in an index."""

from uuid_utils.compat import uuid7

__all__ = ["uuid7"]
