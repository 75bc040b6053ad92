"""How a line of the log is written, by every process: one JSON object."""

from typing import Any

FORMAT: dict[str, Any] = {
    "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s",
    "rename_fields": {"asctime": "time", "levelname": "level"},
}
