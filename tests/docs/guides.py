"""Read the guides, and run their commands against a service."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.world.service import Service
from workspaces.models import Scope

# What the tabs of each page print, in Python and TypeScript; privacy erases the report
# about which decisions decides.
PRINTED_BY_TABS = {
    "docs/client/quickstart.md": "READY LOW\n",
    "docs/client/errors.md": "400 validation-failed",
    "docs/client/sandbox.md": "READY\nCONSENT_EXPIRY\n",
    "docs/client/monitoring.md": "".join(f"{month} READY\n" for month in range(12)),
    "docs/client/webhooks.md": "webhook.test\n",
    "docs/client/consent.md": "PENDING\n",
    "docs/client/payments.md": "PAID\n",
    "docs/client/going-live.md": "Acacia sandbox",
    "docs/client/decisions.md": "DECLINED FINAL\n",
    "docs/client/privacy.md": "Signature Verified Successfully\n",
}
# Samples with one of these run until the reader stops them.
ENDLESS = re.compile(r"serve_forever|\.listen\(|\.follow\(")
# For requests that a key makes only if its owner has named their scopes
ALL_SCOPES = f"--scopes={','.join(Scope.values)}"


def read_guide(page: str | Path) -> str:
    return (settings.BASE_DIR / page).read_text()


def code_blocks(page: str | Path, language: str) -> list[str]:
    fence = rf"^```{language}\n(.*?)^```"
    return re.findall(fence, read_guide(page), re.MULTILINE | re.DOTALL)


def tab_program(page: str, language: str) -> str:
    """Return the samples of a page as one program, as a reader runs them in turn."""
    blocks = code_blocks(page, language)
    return "\n".join(block for block in blocks if not ENDLESS.search(block))


def endless_sample(page: str, language: str, call: str) -> str:
    (sample,) = (block for block in code_blocks(page, language) if call in block)
    return sample


def headings(page: str | Path) -> set[str]:
    """Return the anchors of the page's headings, as links name them."""
    titles = re.findall(r"^#+ (.+)$", read_guide(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}


def create_test_key(service: Service, *options: str) -> str:
    made = service.manage("create_workspace", "Reader", "--owner", "o@reader.test")
    workspace = json.loads(made)["workspaceId"]
    made = service.manage("create_key", workspace, "--environment=sandbox", *options)
    return json.loads(made)["key"]


def run_command(
    command: str, service: Service, folder: Path | None = None, **variables: str
) -> Any:
    """Run a shell command of a guide, and return the JSON that it prints."""
    here = re.sub(
        r"http://localhost:8000|https://production\.example", service.url, command
    )
    done = subprocess.run(
        ["bash", "-c", here],
        cwd=folder,
        env=variables,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout) if done.stdout else None
