"""How a line of the log is written, by every process: one JSON object."""

from typing import Any

FORMAT: dict[str, Any] = {
    "fmt": "%(levelname)s %(name)s %(message)s",
    "rename_fields": {"levelname": "level"},
    # In UTC, with its offset, whatever the zone of the host.
    "timestamp": "time",
}
