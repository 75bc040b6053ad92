"""Static files: addresses that change with their content, and compression.

There is no collect step: files are served from where they are installed. `{% static %}`
gives `/static/v-<hash of the content>/<name>`, which browsers keep for a year; browsers
revalidate other addresses of a file, such as those within stylesheets. During an update
a server of the other version answers with its own file, which browsers do not keep.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware

from verification.web.pages import is_api

CACHE_FOREVER = "public, max-age=31536000, immutable"
VERSION = re.compile(r"v-([0-9a-f]{16})/(.+)")
COMPRESSIBLE = re.compile(
    r"(text/|image/svg|application/(javascript|json|vnd\.oai|yaml))"
)


class VersionedStorage(StaticFilesStorage):
    def url(self, name: str | None) -> str:
        version = version_of(name or "")
        return super().url(f"v-{version}/{name}" if version else name)


class StaticMiddleware(WhiteNoiseMiddleware):
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        named = VERSION.fullmatch(path.removeprefix(self.static_prefix))
        if named:
            path = self.static_prefix + named[2]
        file = self.find_file(path) if self.autorefresh else self.files.get(path)
        if file is None:
            return self.get_response(request)
        # Compression makes the ETag weak.
        seen = request.META.get("HTTP_IF_NONE_MATCH", "")
        request.META["HTTP_IF_NONE_MATCH"] = seen.removeprefix("W/")
        response: HttpResponseBase = self.serve(file, request)
        if named and version_of(named[2]) == named[1]:
            response["Cache-Control"] = CACHE_FOREVER
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compress pages and static files; API responses are left to the proxy.

    Pages can hold secrets next to a visitor's input (BREACH). Django masks the token of
    each form differently each time, and adds random bytes to compressed pages.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        kind = response.get("Content-Type", "")
        is_call = is_api(request) and "Authorization" in request.headers
        if is_call or response.status_code == 206 or not COMPRESSIBLE.match(kind):
            return response
        return super().process_response(request, response)


def version_of(name: str) -> str | None:
    """Return the hash of a file's present content, or None if there is no such file."""
    if not (path := _path_of(name)):
        return None
    status = os.stat(path)
    return _hash_of(path, status.st_mtime_ns, status.st_size)


@cache
def _find_path(name: str) -> str:
    path = finders.find(name)
    if not path or not os.path.isfile(path):
        raise FileNotFoundError(name)
    return str(path)


def _path_of(name: str) -> str | None:
    # An exception is not cached, because anybody can request names that do not exist.
    try:
        return _find_path(name)
    except FileNotFoundError:
        return None


@cache
def _hash_of(path: str, modified_at: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
