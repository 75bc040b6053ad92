"""The clients that `make clients` builds, offered to developers."""

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from verification.api.docs import in_english, render_docs
from verification.api.guides import addresses


def client_files() -> dict[str, str]:
    """Return the names of the files that are built, by their kind."""
    return {
        kind: path.name
        for kind in ("whl", "tgz")
        for path in sorted(settings.CLIENTS_DIR.glob(f"*.{kind}"))
    }


@require_safe
@in_english
def docs_clients(request: HttpRequest) -> HttpResponse:
    files = {
        kind: f"{settings.BASE_URL}/docs/clients/{name}"
        for kind, name in client_files().items()
    }
    here = reverse("docs-clients")
    return render_docs(
        request, "docs/clients.html", here, files=files, sandbox=addresses()[0]
    )


@require_safe
def client_file(request: HttpRequest, name: str) -> FileResponse:
    if name not in client_files().values():
        raise Http404
    return FileResponse(
        (settings.CLIENTS_DIR / name).open("rb"), as_attachment=True, filename=name
    )
