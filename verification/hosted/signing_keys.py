"""The public keys that verify certificates of erasures, as PEM."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from verification.privacy.certificates import published_keys

MEDIA_TYPE = "application/x-pem-file"


@require_safe
def show_all(request: HttpRequest) -> HttpResponse:
    """Return today's key, then the former keys."""
    pem = "".join(key.pem for key in published_keys())
    return HttpResponse(pem, content_type=MEDIA_TYPE)


@require_safe
def show(request: HttpRequest, key_id: str) -> HttpResponse:
    """Return the key with this id, which a certificate names."""
    for key in published_keys():
        if key.pk == key_id:
            return HttpResponse(key.pem, content_type=MEDIA_TYPE)
    raise Http404
