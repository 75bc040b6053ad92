"""The asynchronous client. The other one is made of this file by `build.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Any, TypeVar

import httpx

from . import _report_state as state
from . import _settings, webhooks
from ._requests import UNSENT, Request
from .api import AsyncApis
from .api.balance import get_balance
from .api.events import AsyncEventsApi
from .api.me import get_me
from .api.reports import AsyncReportsApi, create_reports
from .api.webhooks import AsyncWebhooksApi
from .errors import ConnectionFailed, Problem, WaitTimeout
from .models import Balance, CreatedReport, Me, Report, ReportItem
from .types import UNSET
from .webhooks import Event

T = TypeVar("T")


class AsyncReports(AsyncReportsApi):
    async def create(
        self,
        report: ReportItem | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> CreatedReport:
        """Create one report, and launch it unless its `draft` is true.

        The launch is billed. The client's retries create no second report. If your
        program may call this again for the same order, pass an `idempotency_key` that
        it has stored.
        """
        request = create_reports.request(
            {"reports": [report]}, idempotency_key=idempotency_key or UNSET
        )
        return await self._client.send(request.returning(lambda all: all.reports[0]))

    async def wait_until_completed(
        self, report_id: str, *, timeout: float = 600, decided: bool = False
    ) -> Report:
        """Return the report once it has ended. `status` says how it ended.

        With `decided`, the client also waits for the decision that counts. Raise
        `ActionRequired` as soon as a person must act, and `WaitTimeout` after `timeout`
        seconds.
        """
        deadline, pause, ended_at = monotonic() + timeout, 0.5, 0.0
        while True:
            report = await self.get(report_id)
            if state.has_ended(report):
                ended_at = ended_at or monotonic()
                if not decided or state.is_decided(report, monotonic() - ended_at):
                    return report
            else:
                state.raise_if_person_must_act(report)
                if state.may_wait_for_referee(report):
                    timeline = await self.get_timeline(report_id)
                    state.raise_if_referee_must_answer(report, timeline)
            left = deadline - monotonic()
            if left <= 0:
                raise WaitTimeout(
                    f"the report is {report.status} after {timeout} seconds", report
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, 10.0)


class AsyncWebhooks(AsyncWebhooksApi):
    verify = staticmethod(webhooks.verify)


class AsyncEvents(AsyncEventsApi):
    async def follow(
        self,
        *,
        cursor: str | None = None,
        types: Sequence[str] = (),
        since: datetime | None = None,
        store: Callable[[str], Awaitable[object]] | None = None,
        interval: float = 2.0,
    ) -> AsyncIterator[Event]:
        """Yield events as they happen, without end. Ask every `interval` seconds.

        Store `event.cursor` when you have processed an event, and pass it as `cursor`
        next time: you miss no event, and may get a few twice. Without a cursor the
        first event is the oldest one, or the first one after `since`.

        A cursor expires after 30 days. If your `types` are rare, pass `store`: the
        client calls it with the cursor after each page, also after an empty one.
        """
        names = ",".join(types) or UNSET
        # A cursor does not hold `since`, so each page needs it.
        start = UNSET if cursor or since is None else since
        while True:
            page = await self.list(
                cursor=cursor or UNSET, since=start, size=200, types=names
            )
            for place, event in enumerate(page.content, start=1):
                is_last = place == len(page.content)
                yield webhooks.pulled(event, page.next_cursor if is_last else cursor)
            cursor = page.next_cursor
            if store:
                await store(cursor)
            if not page.has_more:
                await asyncio.sleep(interval)


class AsyncClient(AsyncApis):
    """A client of one installation with one API key.

    `base_url` is the address of the installation, without a path. Both arguments are
    read from the environment if they are left out: `VERIFICATION_API_KEY` and
    `VERIFICATION_BASE_URL`. `http` is your own client of httpx, if you need proxies
    or certificates of your own; close it yourself.
    """

    reports: AsyncReports
    webhooks: AsyncWebhooks
    events: AsyncEvents

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 30,
        max_retries: int = 4,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.settings = _settings.read(api_key, base_url)
        self._max_retries = max_retries
        self._http = http or httpx.AsyncClient(timeout=timeout)
        self._closes_http = http is None
        super().__init__(self)
        self.reports = AsyncReports(self)
        self.webhooks = AsyncWebhooks(self)
        self.events = AsyncEvents(self)

    @property
    def environment(self) -> str:
        """`sandbox` or `production`, as the key's prefix tells."""
        return self.settings.environment

    async def me(self) -> Me:
        """Return what the key is, its workspace, scopes and limits."""
        return await self.send(get_me.request())

    async def balance(self) -> Balance:
        """Return the money of the workspace in the key's environment."""
        return await self.send(get_balance.request())

    async def send(self, request: Request[T]) -> T:
        """Send one request of an operation, again as long as that helps and is safe."""
        arguments = self.settings.arguments(request)
        attempt, may_have_happened = 0, False
        while True:
            try:
                return request.read(await self._answer(arguments))
            except (ConnectionFailed, Problem) as failure:
                if may_have_happened and request.is_deleted(failure):
                    return request.parse(httpx.Response(204))
                # An earlier attempt counts, too.
                failure.may_have_happened |= may_have_happened
                may_have_happened = failure.may_have_happened
                seconds = request.pause(failure, attempt)
                if seconds is None or attempt >= self._max_retries:
                    raise
            attempt += 1
            await asyncio.sleep(seconds)

    async def _answer(self, arguments: dict[str, Any]) -> httpx.Response:
        try:
            return await self._http.request(**arguments)
        except httpx.RequestError as error:
            place = f"{arguments['method']} {arguments['url']}"
            raise ConnectionFailed(
                f"{place}: {type(error).__name__} {error}".rstrip(),
                may_have_happened=not isinstance(error, UNSENT),
            ) from error

    async def aclose(self) -> None:
        if self._closes_http:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.base_url}, {self.environment})"
