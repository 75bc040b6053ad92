from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.watchlists.files import FILES
from verification.watchlists.models import Edition

Load = Callable[..., str]


@pytest.fixture
def load(db: None, tmp_path: Path) -> Load:
    """Load a list as an operator does, by default from its file in `files`.

    The files are small, so a first file is loaded with --may-shrink by default.
    """

    def load(name: str, content: str | bytes | None = None, **options: bool) -> str:
        text = FILES[name] if content is None else content
        path = tmp_path / f"{name}.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        is_first = not Edition.objects.filter(list=name).exists()
        options.setdefault("may_shrink", is_first)
        out = StringIO()
        call_command("load_watchlist", name, str(path), stdout=out, **options)
        return out.getvalue()

    return load
