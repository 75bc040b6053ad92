"""Client of the report verification service, synchronous and asynchronous."""

from ._async_client import AsyncClient
from ._client import Client
from ._version import __version__
from .errors import (
    ActionRequired,
    ConnectionFailed,
    Fault,
    InvalidSignature,
    Problem,
    VerificationError,
    WaitTimeout,
)
from .webhooks import Event

__all__ = [
    "ActionRequired",
    "AsyncClient",
    "Client",
    "ConnectionFailed",
    "Event",
    "Fault",
    "InvalidSignature",
    "Problem",
    "VerificationError",
    "WaitTimeout",
    "__version__",
]
