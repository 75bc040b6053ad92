"""Callbacks of live sources, who sign them: no operation of the API."""

from __future__ import annotations

import logging

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.timezone import now
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from verification.addresses import client_address
from verification.checks.calling_back import answered_back, called_back
from verification.providers.base import BadSignature
from verification.providers.registry import provider_named
from verification.providers.smile_id import SmileId
from verification.providers.smile_id_v3 import SmileIdV3
from workspaces import rates

# Theirs may hold a photo.
MAX_BYTES = 2 * 1024 * 1024

logger = logging.getLogger(__name__)


@csrf_exempt
@require_POST
def smile_id(request: HttpRequest) -> HttpResponse:
    """Nothing of it is kept or believed but which job it is about."""
    source = provider_named(SmileId.name)
    if not isinstance(source, SmileId):
        return JsonResponse({"error": "not configured"}, status=404)
    body = request.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        return JsonResponse({"error": "too large"}, status=413)
    try:
        job = source.read_callback(body)
    except BadSignature:
        return _unsigned(request)
    called_back(source.name, job)
    return JsonResponse({})


@csrf_exempt
@require_POST
def smile_id_v3(request: HttpRequest) -> HttpResponse:
    """The answer itself, which is told nowhere else."""
    source = provider_named(SmileIdV3.name)
    if not isinstance(source, SmileIdV3):
        return JsonResponse({"error": "not configured"}, status=404)
    body = request.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        return JsonResponse({"error": "too large"}, status=413)
    try:
        callback = source.read_callback(body, request.headers, now())
    except BadSignature:
        return _unsigned(request)
    if callback:
        answered_back(source.name, callback)
    return JsonResponse({})


def _unsigned(request: HttpRequest) -> HttpResponse:
    logger.warning("a callback without its source's signature was refused")
    address, most = client_address(request), settings.FAILED_AUTHENTICATIONS_PER_MINUTE
    rate = rates.count_from(str(address), "unsigned-callbacks", most)
    status = 429 if rate.exceeded else 401
    return JsonResponse({"error": "invalid signature"}, status=status)
