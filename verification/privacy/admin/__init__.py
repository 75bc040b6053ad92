"""Admin pages of privacy, a module for each topic; Django imports this one."""

from verification.privacy.admin import corrections, erasures, requests, retention

__all__ = ["corrections", "erasures", "requests", "retention"]
