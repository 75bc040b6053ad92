"""Smile ID and Metropol with the calls of a bench; they answer after 200 ms.

python -m benchmarks.registers PORT

Metropol under `/down` is down after 200 ms, and under `/hang` it never answers.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from verification.providers.smile_id import signature

PARTNER, KEY, STAMP = "085", "of no worth", "2026-01-02T03:04:05.678Z"
SECONDS = 0.2


async def identity(request: web.Request) -> web.Response:
    query = await request.json()
    await asyncio.sleep(SECONDS)
    return web.json_response(
        {
            "SmileJobID": "0000001105",
            "PartnerParams": query["partner_params"],
            "ResultCode": "1012",
            "IsFinalResult": "true",
            "Actions": {"Verify_ID_Number": "Verified"},
            "IDNumber": query["id_number"],
            "FullName": "JANE WANJIKU KAMAU",
            "DOB": "1990-01-31",
            "timestamp": STAMP,
            "signature": signature(KEY, PARTNER, STAMP),
        }
    )


async def score(request: web.Request) -> web.Response:
    query = await request.json()
    await asyncio.sleep(SECONDS)
    found = {"api_code": None, "has_error": False, "credit_score": 700}
    number = query["identity_number"]
    return web.json_response({**found, "identity_number": number, "trx_id": "1"})


async def down(request: web.Request) -> web.Response:
    await asyncio.sleep(SECONDS)
    raise web.HTTPServiceUnavailable


async def hang(request: web.Request) -> web.Response:
    await asyncio.sleep(3_600)
    raise web.HTTPServiceUnavailable


def main(port: int) -> None:
    app = web.Application()
    app.router.add_post("/v1/id_verification", identity)
    app.router.add_post("/v2_1/score/consumer", score)
    app.router.add_post("/down/{path:.*}", down)
    app.router.add_post("/hang/{path:.*}", hang)
    app.router.add_get("/healthz", lambda request: web.Response())
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
