"""Admin pages of privacy, a module for each topic; Django imports this one."""

from verification.privacy.admin import (
    correction_admin,
    erasure_admin,
    request_admin,
    retention_admin,
)

__all__ = ["correction_admin", "erasure_admin", "request_admin", "retention_admin"]
