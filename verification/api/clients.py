"""The clients that `make clients` builds, offered to developers."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from verification.web.pages import page


def client_files() -> dict[str, str]:
    """Return the names of the files that are built, by their kind."""
    return {
        kind: path.name
        for kind in ("whl", "tgz")
        for path in sorted(settings.CLIENTS_DIR.glob(f"*.{kind}"))
    }


@require_safe
@page
def docs_clients(request: HttpRequest) -> HttpResponse:
    files = {
        kind: f"{settings.BASE_URL}/docs/clients/{name}"
        for kind, name in client_files().items()
    }
    return render(request, "docs/clients.html", {"files": files})


@require_safe
def client_file(request: HttpRequest, name: str) -> FileResponse:
    if name not in client_files().values():
        raise Http404
    return FileResponse(
        (settings.CLIENTS_DIR / name).open("rb"), as_attachment=True, filename=name
    )
