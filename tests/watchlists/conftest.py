from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.watchlists.files import FILES

Load = Callable[..., str]


@pytest.fixture
def load(db: None, tmp_path: Path) -> Load:
    """Load a list as an operator does, by default from its file in `files`."""

    def load(name: str, content: str | bytes | None = None, **options: bool) -> str:
        text = FILES[name] if content is None else content
        path = tmp_path / f"{name}.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        out = StringIO()
        call_command("load_watchlist", name, str(path), stdout=out, **options)
        return out.getvalue()

    return load
