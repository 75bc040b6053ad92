"""Static files: addresses that change with their content.

There is no collect step: files are served from where they are installed. `{% static %}`
gives `/static/v-<hash of the content>/<name>`, which browsers keep for a year; browsers
revalidate other addresses of a file, such as those within stylesheets. During an update
a server of the other version answers with its own file, which browsers do not keep.
"""

import hashlib
import os
from functools import cache

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage


class VersionedStorage(StaticFilesStorage):
    def url(self, name: str | None) -> str:
        version = version_of(name or "")
        return super().url(f"v-{version}/{name}" if version else name)


def version_of(name: str) -> str | None:
    """Return the hash of a file's present content, or None if there is no such file."""
    # An exception is not cached, because anybody can request names that do not exist.
    try:
        path = _find_path(name)
    except FileNotFoundError:
        return None
    status = os.stat(path)
    return _hash_of(path, status.st_mtime_ns, status.st_size)


@cache
def _find_path(name: str) -> str:
    path = finders.find(name)
    if not path or not os.path.isfile(path):
        raise FileNotFoundError(name)
    return str(path)


@cache
def _hash_of(path: str, modified_at: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
