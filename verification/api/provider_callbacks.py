"""Requests that providers sign: events of payments, and answers of live sources."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from drf_spectacular.types import OpenApiTypes
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verification.api.authentication import rate_limit_problem
from verification.api.content import (
    JsonOnlyNegotiation,
    check_content_length,
    read_limited,
)
from verification.api.operations import operation
from verification.api.problems import Problem
from verification.api.schema import OperationSchema
from verification.checks.callbacks import record_callback, store_answer
from verification.payments.alerts import count_refused_signature
from verification.payments.provider_events import record_provider_event
from verification.payments.registry import (
    SIGNATURE_HEADERS,
    has_signature_header,
    provider_by_signature,
)
from verification.providers.base import BadSignature
from verification.providers.registry import provider_named
from verification.providers.smile_id import SmileId
from verification.providers.smile_id_v3 import SmileIdV3
from verification.values.clock import now
from verification.web.request import client_address
from workspaces import rate_limits

MAX_EVENT_BYTES = 256 * 1024
# An answer may hold a photo.
MAX_CALLBACK_BYTES = 2 * 1024 * 1024

Source = TypeVar("Source", SmileId, SmileIdV3)

logger = logging.getLogger(__name__)


class _IgnoreAcceptHeader(JsonOnlyNegotiation):
    """Any Accept header will do: providers read only the status."""

    def select_renderer(  # type: ignore[override]
        self,
        request: Request,
        renderers: Sequence[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type or ""


class _EventSchema(OperationSchema):
    def get_auth(self) -> list[dict[str, Any]]:
        """One signature scheme for each payment provider."""
        schemes = {f"{name.capitalize()}Signature": name for name in SIGNATURE_HEADERS}
        for scheme, name in schemes.items():
            described = {
                "type": "apiKey",
                "in": "header",
                "name": SIGNATURE_HEADERS[name],
                "description": f"An event of {name.capitalize()}, signed by it.",
            }
            self._component("securitySchemes", scheme, described)
        return [{scheme: []} for scheme in schemes]

    def _codes(self) -> Iterator[str]:
        yield from ("malformed-body", "invalid-signature")
        yield from ("request-timeout", "body-too-large")
        yield from ("rate-limited", "internal-error", "unavailable", "overloaded")


class PaymentEventView(APIView):
    authentication_classes = []
    permission_classes = []
    throttle_classes = []
    content_negotiation_class = _IgnoreAcceptHeader
    http_method_names = ["post"]
    schema = _EventSchema()

    @operation(
        "receivePaymentEvent",
        "Take in an event of the payment provider",
        scope=None,
        body={"application/json": OpenApiTypes.OBJECT},
        answer={"type": "object"},
        outcome="Received.",
    )
    def post(self, request: Request) -> Response:
        """For the payment provider, not for clients: it takes no API key.

        The provider's signature over the bytes of the body is what authenticates it.
        An event is never believed: it has the service ask the provider. Repeated,
        unknown and late events are received like any other. At most 256 KiB.
        """
        _receive_event(request)
        return Response({})


def _receive_event(request: HttpRequest) -> None:
    check_content_length(request, MAX_EVENT_BYTES)
    try:
        provider = provider_by_signature(request.headers)
        body = read_limited(request, MAX_EVENT_BYTES)
        event = provider.read_event(body, request.headers)
    except BadSignature:
        _refuse_unsigned_event(request)
    _require_object(body)
    record_provider_event(provider.name, event, body)


def _refuse_unsigned_event(request: HttpRequest) -> NoReturn:
    """Refuse an unsigned event and store nothing; only unsigned events are limited."""
    logger.warning("an event without a payment provider's signature was refused")
    rate = _count_unsigned(request, "unsigned-payment-events")
    if rate.exceeded:
        raise rate_limit_problem(rate)
    if has_signature_header(request.headers):
        count_refused_signature()
    raise Problem("invalid-signature", headers={"WWW-Authenticate": "Signature"})


def _require_object(body: bytes) -> None:
    """Require a JSON object; the service relies on no member of it."""
    try:
        event = json.loads(body.decode())
    except UnicodeDecodeError as e:
        detail = f"The body is signed, and is not UTF-8 at byte {e.start}."
        raise Problem("malformed-body", detail) from None
    except (ValueError, RecursionError):
        detail = "The body is signed, and is not JSON."
        raise Problem("malformed-body", detail) from None
    if not isinstance(event, dict):
        detail = "The body is signed, and is not a JSON object."
        raise Problem("malformed-body", detail)


@csrf_exempt
@require_POST
def smile_id(request: HttpRequest) -> HttpResponse:
    """Record which job has an answer; the check then fetches it."""

    def take(source: SmileId, body: bytes) -> None:
        record_callback(source.name, source.read_callback(body))

    return _receive_callback(request, SmileId, take)


@csrf_exempt
@require_POST
def smile_id_v3(request: HttpRequest) -> HttpResponse:
    """Store the answer, which no other call of Smile ID's V3 returns."""

    def take(source: SmileIdV3, body: bytes) -> None:
        if callback := source.read_callback(body, request.headers, now()):
            store_answer(source.name, callback)

    return _receive_callback(request, SmileIdV3, take)


def _receive_callback(
    request: HttpRequest, adapter: type[Source], take: Callable[[Source, bytes], None]
) -> HttpResponse:
    """Pass the body to `take`, and answer as the source expects."""
    source = provider_named(adapter.name)
    if not isinstance(source, adapter):
        return JsonResponse({"error": "not configured"}, status=404)
    try:
        check_content_length(request, MAX_CALLBACK_BYTES)
        body = read_limited(request, MAX_CALLBACK_BYTES)
    except Problem:
        return JsonResponse({"error": "too large"}, status=413)
    try:
        take(source, body)
    except BadSignature:
        logger.warning("a callback without its source's signature was refused")
        rate = _count_unsigned(request, "unsigned-callbacks")
        status = 429 if rate.exceeded else 401
        return JsonResponse({"error": "invalid signature"}, status=status)
    return JsonResponse({})


def _count_unsigned(request: HttpRequest, kind: str) -> rate_limits.Rate:
    most = settings.FAILED_AUTHENTICATIONS_PER_MINUTE
    return rate_limits.count_for_address(str(client_address(request)), kind, most)
