"""The asynchronous client. The other one is made of this file by `build.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

import httpx

from . import _settings, _waiting, webhooks
from ._requests import Again, Attempts, Request
from .api.checks import AsyncChecks
from .api.corrections import AsyncCorrections
from .api.erasures import AsyncErasures
from .api.exports import AsyncExports
from .api.monitoring import AsyncMonitoring
from .api.packages import AsyncPackages
from .api.policy import AsyncPolicy
from .api.reports import AsyncReports
from .api.sandbox import AsyncSandbox
from .api.webhooks import AsyncWebhooks
from .errors import WaitTimeout
from .models import CreatedReport, Report, ReportItem
from .types import UNSET

T = TypeVar("T")


class AsyncReportsOfClient(AsyncReports):
    async def create(
        self,
        report: ReportItem | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> CreatedReport:
        """Create one report, and launch it unless its `draft` is true.

        The launch is billed. However often the network makes the client repeat the
        request, one report is created. Give a key of your own if your program may call
        this again for the same order.
        """
        answer = await self.create_many(
            {"reports": [report]}, idempotency_key=idempotency_key or UNSET
        )
        return answer.reports[0]

    async def wait_until_completed(
        self, report_id: str, *, timeout: float = 600, decided: bool = False
    ) -> Report:
        """Return the report once it has ended, however it ended: look at `status`.

        With `decided`, wait for the decision that counts as well. Raise
        `ActionRequired` as soon as a person must act, and `WaitTimeout` after so many
        seconds.
        """
        deadline, pause, ended_at = monotonic() + timeout, 0.5, 0.0
        while True:
            report = await self.get(report_id)
            if _waiting.has_ended(report):
                ended_at = ended_at or monotonic()
                if not decided or _waiting.is_decided(report, monotonic() - ended_at):
                    return report
            else:
                _waiting.require_nobody(report)
                if _waiting.may_wait_for_referee(report):
                    timeline = await self.get_timeline(report_id)
                    _waiting.require_no_referee(report, timeline)
            left = deadline - monotonic()
            if left <= 0:
                raise WaitTimeout(
                    f"the report is {report.status} after {timeout} seconds", report
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, 10.0)


class AsyncWebhooksOfClient(AsyncWebhooks):
    verify = staticmethod(webhooks.verify)


class AsyncClient:
    """A client of one installation with one API key.

    `base_url` is the address of the installation, without a path. Both arguments are
    read from the environment if they are left out: `VERIFICATION_API_KEY` and
    `VERIFICATION_BASE_URL`. `http` is your own client of httpx, if you need proxies
    or certificates of your own; close it yourself.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 30,
        max_retries: int = 4,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._settings = _settings.read(api_key, base_url)
        self._max_retries = max_retries
        self._own_http = None if http else httpx.AsyncClient(timeout=timeout)
        self._http = http or self._own_http or httpx.AsyncClient()
        self.reports = AsyncReportsOfClient(self)
        self.checks = AsyncChecks(self)
        self.packages = AsyncPackages(self)
        self.monitoring = AsyncMonitoring(self)
        self.webhooks = AsyncWebhooksOfClient(self)
        self.corrections = AsyncCorrections(self)
        self.erasures = AsyncErasures(self)
        self.exports = AsyncExports(self)
        self.policy = AsyncPolicy(self)
        self.sandbox = AsyncSandbox(self)

    @property
    def environment(self) -> str:
        """`sandbox` or `production`, as the key's prefix tells."""
        return self._settings.environment

    async def send(self, request: Request[T]) -> T:
        """Send one request of an operation, again as long as that helps and is safe."""
        attempts = Attempts(request, self._max_retries)
        arguments = self._settings.arguments(request)
        while True:
            try:
                with attempts.attempt():
                    response = await self._http.request(**arguments)
                return attempts.read(response)
            except Again as again:
                await asyncio.sleep(again.seconds)

    async def aclose(self) -> None:
        if self._own_http:
            await self._own_http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.base_url}, {self.environment})"
