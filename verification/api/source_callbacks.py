"""Callbacks that live sources send and sign; they are no operations of the API."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.timezone import now
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from verification.checks.callbacks import record_callback, store_answer
from verification.providers.base import BadSignature
from verification.providers.registry import provider_named
from verification.providers.smile_id import SmileId
from verification.providers.smile_id_v3 import SmileIdV3
from verification.web.client_address import client_address
from workspaces import rate_limits

# An answer may hold a photo.
MAX_BYTES = 2 * 1024 * 1024
Source = TypeVar("Source", SmileId, SmileIdV3)

logger = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def smile_id(request: HttpRequest) -> HttpResponse:
    """Record which job has an answer; the check then fetches it."""

    def take(source: SmileId, body: bytes) -> None:
        record_callback(source.name, source.read_callback(body))

    return _handle_callback(request, SmileId, take)


@csrf_exempt
@require_POST
def smile_id_v3(request: HttpRequest) -> HttpResponse:
    """Store the answer, which no other call of Smile ID's V3 returns."""

    def take(source: SmileIdV3, body: bytes) -> None:
        if callback := source.read_callback(body, request.headers, now()):
            store_answer(source.name, callback)

    return _handle_callback(request, SmileIdV3, take)


def _handle_callback(
    request: HttpRequest, adapter: type[Source], take: Callable[[Source, bytes], None]
) -> HttpResponse:
    """Pass the body to `take`, and answer as the source expects."""
    source = provider_named(adapter.name)
    if not isinstance(source, adapter):
        return JsonResponse({"error": "not configured"}, status=404)
    body = request.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        return JsonResponse({"error": "too large"}, status=413)
    try:
        take(source, body)
    except BadSignature:
        return _refuse_unsigned(request)
    return JsonResponse({})


def _refuse_unsigned(request: HttpRequest) -> HttpResponse:
    logger.warning("a callback without its source's signature was refused")
    address, most = client_address(request), settings.FAILED_AUTHENTICATIONS_PER_MINUTE
    rate = rate_limits.count_for_address(str(address), "unsigned-callbacks", most)
    status = 429 if rate.exceeded else 401
    return JsonResponse({"error": "invalid signature"}, status=status)
