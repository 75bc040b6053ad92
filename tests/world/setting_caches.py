"""Caches of the test process that a changed setting empties.

All test clients share one chain of middlewares, as the requests of a web server do. A
client would build a chain for its first request, which takes a millisecond. A
middleware may have read the changed setting, so the next client builds the chain anew.
"""

from typing import Any

from django.core.signals import setting_changed
from django.test.client import ClientHandler

from verification.db import encryption
from verification.payments import registry

_build = ClientHandler.load_middleware
_built: dict[str, Any] = {}
KEPT = {
    "FIELD_KEYS": encryption._cipher,
    "PAYMENT_PROVIDERS": registry._live,
}


def follow_settings() -> None:
    ClientHandler.load_middleware = _load  # type: ignore[method-assign]
    setting_changed.connect(_forget)


def _load(handler: ClientHandler, is_async: bool = False) -> None:
    if not _built:
        before = set(vars(handler))
        _build(handler, is_async)
        _built.update((k, v) for k, v in vars(handler).items() if k not in before)
    vars(handler).update(_built)


def _forget(setting: str, **_: object) -> None:
    _built.clear()
    if setting in KEPT:
        KEPT[setting].cache_clear()
