"""Generate the Python client from the API document, and build its wheel.

    python clients/python/build.py FOLDER

writes the wheel to FOLDER. The same commit gives the same bytes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import yaml
from openapi_python_client import generate
from openapi_python_client.config import ClassOverride, Config, ConfigFile, MetaType
from openapi_python_client.parser.errors import ErrorLevel

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
DOCUMENT = PROJECT / "docs" / "openapi.yaml"
PACKAGE = "verification_reports"
METHODS = {"get", "post", "put", "patch", "delete"}
# One is an alias of PATCH; the other is for payment providers.
LEFT_OUT = {"readAllAlertsByPut", "receivePaymentEvent"}
# What makes the synchronous client of the asynchronous one
SYNCHRONOUS = [
    (r"\bAsync(\w+)", r"\1"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\basyncio\b", "time"),
    (r"\baclose\b", "close"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\basynchronous\b", "synchronous"),
]


def client_document() -> dict[str, Any]:
    """Return the API document with what a client reads of it.

    Ids stay text, as clients must not read their form. Refusals are errors, which
    the client raises itself.
    """
    text = DOCUMENT.read_text()
    document: dict[str, Any] = yaml.load(
        re.sub(r"^ +format: uuid\n", "", text, flags=re.MULTILINE), yaml.CSafeLoader
    )
    for operations in document["paths"].values():
        for method in METHODS & operations.keys():
            operation = operations[method]
            if operation["operationId"] in LEFT_OUT:
                del operations[method]
                continue
            responses = operation["responses"]
            operation["responses"] = {
                status: responses[status] for status in responses if status < "300"
            }
    return document


def generate_package(folder: Path) -> Path:
    """Write the package to a folder, and return where it is."""
    package = folder / PACKAGE
    package.mkdir(parents=True)
    document = folder / "document.yaml"
    document.write_text(
        yaml.dump(client_document(), Dumper=yaml.CSafeDumper, sort_keys=False)
    )
    config = Config.from_sources(
        ConfigFile(
            literal_enums=True,
            # In a module of its member's name, mypy mistakes one for the other.
            class_overrides={
                "Balance": ClassOverride(class_name="Balance", module_name="balances")
            },
            post_hooks=[],
            content_type_overrides={"application/pdf": "application/octet-stream"},
        ),
        MetaType.NONE,
        document,
        file_encoding="utf-8",
        overwrite=True,
        output_path=package,
    )
    found = generate(config=config, custom_template_path=HERE / "templates")
    document.unlink()
    if any(error.level is ErrorLevel.ERROR or error.detail for error in found):
        raise SystemExit("\n".join(f"{one.header}: {one.detail}" for one in found))
    for unused in ("client.py", "errors.py"):
        (package / unused).unlink()
    for model in (package / "models").glob("*.py"):
        # Python would iterate over a page by numbers, and raise KeyError.
        iteration = "    __iter__ = None\n\n    def __getitem__("
        model.write_text(model.read_text().replace("    def __getitem__(", iteration))
    shutil.copytree(HERE / PACKAGE, package, dirs_exist_ok=True)
    client = (package / "_async_client.py").read_text()
    for pattern, replacement in SYNCHRONOUS:
        client = re.sub(pattern, replacement, client)
    (package / "_client.py").write_text(client)
    (package / "_version.py").write_text(f'__version__ = "{service_version()}"\n')
    for command in (["check", "--fix-only", "--select=F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--quiet"]
        subprocess.run([*ruff, "--no-cache", str(package)], check=True)
    return package


def service_version() -> str:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def build_wheel(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        generate_package(Path(work))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(HERE / name, work)
        hatchling = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        subprocess.run([*hatchling, "--directory", str(folder)], cwd=work, check=True)


if __name__ == "__main__":
    build_wheel(Path(sys.argv[1]).resolve())
