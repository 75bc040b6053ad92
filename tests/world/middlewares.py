"""One chain of middlewares for all test clients, as a web server has one.

A client would build a chain for its first request, which takes a millisecond. After a
change of a setting, which a middleware may have read, the next client builds it anew.
"""

from typing import Any

from django.core.signals import setting_changed
from django.test.client import ClientHandler

_build = ClientHandler.load_middleware
_built: dict[str, Any] = {}


def share_middlewares() -> None:
    ClientHandler.load_middleware = _load  # type: ignore[method-assign]
    setting_changed.connect(_forget)


def _load(handler: ClientHandler, is_async: bool = False) -> None:
    if not _built:
        before = set(vars(handler))
        _build(handler, is_async)
        _built.update((k, v) for k, v in vars(handler).items() if k not in before)
    vars(handler).update(_built)


def _forget(**_: object) -> None:
    _built.clear()
