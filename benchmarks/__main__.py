"""Run the named benches, or all of them."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import pkgutil
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import benchmarks
from benchmarks.figures import BENCHES, run, summary
from verification.db import embedded

# Those of very many reports come last: they use another database, and fill it. Before
# "growth" stops web server and jobs, the benches use the running ones.
FIRST = [
    "create-batch",
    "create-single",
    "latency",
    "hosted-pages",
    "payment-events",
    "engine",
    "drain",
    "memory",
    "overload",
    "growth",
    "deliveries",
    "sources",
    "monitoring",
    "api-requests",
]
# They use a copy of the database of very many reports, and the others its web server.
LAST = {"backup", "key-rotation"}
# It takes more than half an hour.
LONG = "kills"
NOT_BENCHES = {
    "__main__",
    "bare",
    "client",
    "receiver",
    "registers",
    "settings",
    "tasks",
}


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="only show that they run")
    parser.add_argument(
        "--reports", type=int, help="in a database of very many (default: 1000000)"
    )
    parser.add_argument(
        "--thin", action="store_true", help="fill it with reports of 3 KB"
    )
    arguments = parser.parse_args()
    with _folder() as folder, _server(folder) as server_url:
        known = _discover()
        if unknown := set(arguments.names) - set(known):
            parser.error(f"no bench {', '.join(unknown)}; known: {', '.join(known)}")
        names = arguments.names or [name for name in known if name != LONG]
        _run(names, folder, server_url, arguments)


def _run(
    names: list[str], folder: Path, server_url: str, arguments: argparse.Namespace
) -> None:
    from benchmarks.service import Service

    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {_machine()}")
    tiny, thin = arguments.tiny, arguments.thin
    with closing(Service(folder, server_url, lasting=tiny, thin=thin)) as service:
        figures = {
            name: run(name, service, tiny=tiny, reports=arguments.reports)
            for name in names
        }
    summary(figures)


def _discover() -> list[str]:
    import django

    django.setup()
    # This process calls parts of the service itself, whose log would hide the figures.
    logging.disable(logging.INFO)
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name not in NOT_BENCHES:
            importlib.import_module(f"benchmarks.{module.name}")
    others = [name for name in BENCHES if name not in FIRST]
    others.sort(key=lambda name: (BENCHES[name].is_filled, name in LAST))
    return [name for name in FIRST if name in BENCHES] + others


@contextmanager
def _folder() -> Iterator[Path]:
    if lasting := os.environ.get("BENCH_DATA_DIR"):
        yield Path(lasting)
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield Path(folder)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Yield the URL of the database server, which runs until the benches end."""
    os.environ["DATA_DIR"] = str(folder)
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    embedded.acquire(folder)
    try:
        yield os.environ.setdefault("DATABASE_URL", embedded.url(folder))
    finally:
        embedded.release(folder)


def _machine() -> str:
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {platform.platform(terse=True)}, {python}"


if __name__ == "__main__":
    sys.exit(main())
