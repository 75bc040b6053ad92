"""A Django view that does nothing, in the service's web server: the floor of a request.

PORT=8001 python -m benchmarks.bare
"""

import os

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path


def answer(request: HttpRequest) -> HttpResponse:
    answer = b'{"bytes": %d}' % len(request.body)
    return HttpResponse(answer, status=201, headers={"Content-Length": len(answer)})


urlpatterns = [path("api/v1/reports", answer), path("healthz", answer)]

if __name__ == "__main__":
    from granian import Granian
    from granian.constants import Interfaces

    Granian(
        "benchmarks.bare:application",
        port=int(os.environ["PORT"]),
        interface=Interfaces.WSGI,
        workers=2,
        blocking_threads=1,
        backpressure=128,
        websockets=False,
        log_access=False,
    ).serve()
else:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=[],
        ROOT_URLCONF=__name__,
        SECRET_KEY="none",  # noqa: S106
    )
    application = WSGIHandler()
