"""Access tokens of GavaConnect: one for all threads, made anew before it expires."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from verification.providers.base import Refused
from verification.providers.calls import REFUSED, Api, Declined, Reply, unavailable

PATH = "/v1/token/generate"
# A check may need six calls: two tokens, two questions, and each of them again.
SECONDS = 9.0
# Tokens are said to last an hour; one that dies on the way costs a call.
EARLY, LIFE = 60.0, 300.0


class Token:
    """Asked for once, however many threads wait; they share a failure as well."""

    def __init__(self, api: Api, credentials: str) -> None:
        self._api, self._credentials = api, credentials
        self._lock = threading.Lock()
        self._made: Future[str] | None = None
        self._until = 0.0

    def bearer(self) -> str:
        mine: Future[str] | None = None
        with self._lock:
            made = self._made
            if made is None or (made.done() and time.monotonic() >= self._until):
                self._made = made = mine = Future()
        if mine:
            self._make(mine)
        return made.result(timeout=2 * SECONDS)

    def drop(self, bearer: str) -> None:
        """This one is no longer taken; another thread may have replaced it."""
        with self._lock:
            made = self._made
            usable = made and made.done() and not made.exception()
            if made and usable and made.result() == bearer:
                self._made = None

    def _make(self, made: Future[str]) -> None:
        try:
            bearer, life = self._ask()
        except BaseException as e:
            self._until = 0.0
            made.set_exception(e)
        else:
            self._until = time.monotonic() + life
            made.set_result(bearer)

    def _ask(self) -> tuple[str, float]:
        try:
            answer = self._api.call(
                "GET",
                PATH,
                params={"grant_type": "client_credentials"},
                headers={"Authorization": self._credentials},
            )
        except Declined as e:
            told = f"KRA does not take the credentials (status {e.status})."
            raise Refused(REFUSED, told) from None
        bearer = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(bearer, str) or not bearer:
            raise unavailable("KRA", "answered without a token")
        return bearer, _life(answer.get("expires_in"))


def _life(seconds: object) -> float:
    """A number or a text that is one."""
    try:
        told = float(str(seconds))
    except ValueError:
        told = LIFE
    return max(told - EARLY, told / 2)


def has_expired(reply: Reply) -> bool:
    """401, or the gateway's fault, which comes with status 500."""
    if reply.status == 401:
        return True
    body = reply.parsed() if reply.status == 500 else None
    fault = body.get("fault") if isinstance(body, dict) else None
    return isinstance(fault, dict) and "access_token_expired" in str(fault)
