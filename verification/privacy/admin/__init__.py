"""Admin pages of privacy, a module for each topic; Django imports this one."""

from verification.privacy.admin import (
    consent_admin,
    correction_admin,
    erasure_admin,
    request_admin,
    retention_admin,
)

__all__ = [
    "consent_admin",
    "correction_admin",
    "erasure_admin",
    "request_admin",
    "retention_admin",
]
