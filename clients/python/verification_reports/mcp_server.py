"""`vrf mcp` serves what an assistant may read while it writes an integration.

It works with a test key only, and sends no data about people: a price is that of an
order about a subject of the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from html.parser import HTMLParser
from typing import Any, Literal

import httpx
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from . import AsyncClient, VerificationError, __version__
from .models import CheckDefinition

INSTRUCTIONS = """Facts about the report verification service that this project uses:
its checks, prices, test subjects, guides and problems. Nothing is ordered."""
# A guide in `llms.txt`: its title, and the path of its Markdown
GUIDE = re.compile(r"\[([^\]]+)\]\([a-z]+://[^/]+(/docs/[\w-]+\.md)\)")
# Inputs of checks that are not numbers of a test subject, by their type
SAMPLES: dict[str, Any] = {
    "EMAIL": "test.subject@example.com",
    "PHONE": "+254700000000",
    "DATE": "1990-01-31",
    "NUMBER": 1,
    "COUNTRY": "KE",
}


def serve(api_key: str, base_url: str) -> None:
    """Serve on standard input and output until they are closed."""
    client = AsyncClient(api_key, base_url)
    if client.environment != "sandbox":
        raise ValueError("assistants get a test key (vrf_test_) only")
    make_server(client).run()


def make_server(client: AsyncClient) -> MCPServer[Any]:
    server = MCPServer(
        "verification-reports",
        version=__version__,
        instructions=INSTRUCTIONS,
        log_level="WARNING",
    )
    base_url = client.settings.base_url

    def tool(function: Callable[..., Awaitable[Any]]) -> None:
        """Add a tool. Tell the assistant why a call was refused."""

        @wraps(function)
        async def explaining(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except (VerificationError, ValueError, httpx.HTTPError) as error:
                raise ToolError(str(error)) from error

        server.tool(annotations=ToolAnnotations(read_only_hint=True))(explaining)

    async def read_page(path: str) -> str:
        """Return a public page of the service; the key is not sent."""
        async with httpx.AsyncClient(timeout=30) as http:
            answer = await http.get(base_url + path)
        if not answer.is_success:
            raise ValueError(f"{path}: the service answers {answer.status_code}")
        return answer.text

    async def read_guides() -> dict[str, str]:
        """Return the paths of the guides by their titles."""
        return dict(GUIDE.findall(await read_page("/llms.txt")))

    @tool
    async def list_checks() -> list[dict[str, Any]]:
        """List the checks with their inputs, results, prices and kinds of subject."""
        page = await client.checks.list()
        return [check.to_dict() for check in page.content]

    @tool
    async def list_test_subjects() -> list[dict[str, Any]]:
        """List the numbers that decide how a check ends in the sandbox."""
        page = await client.sandbox.list_subjects()
        return [subject.to_dict() for subject in page.content]

    @tool
    async def quote(
        checks: list[str], subject_type: Literal["INDIVIDUAL", "COMPANY"] = "INDIVIDUAL"
    ) -> dict[str, Any]:
        """Price a report with these checks, for a test subject. Nothing is ordered."""
        definitions = (await client.checks.list()).content
        chosen = [check for check in definitions if check.name in checks]
        item = {
            "subject": sample_subject(chosen, subject_type),
            "checksRequested": checks,
            "purpose": "Quote",
            "consent": {"mode": "SERVICE_HOSTED"},
        }
        return (await client.reports.quote({"reports": [item]})).to_dict()

    @tool
    async def list_guides() -> list[str]:
        """List the titles of the guides."""
        return list(await read_guides())

    @tool
    async def read_guide(title: str) -> str:
        """Return a guide as Markdown."""
        guides = await read_guides()
        if title not in guides:
            raise ValueError(f"the guides are: {', '.join(guides)}")
        return await read_page(guides[title])

    @tool
    async def explain_problem(code: str) -> str:
        """Explain a problem by its code, such as insufficient-balance."""
        if not re.fullmatch("[a-z0-9-]+", code):
            raise ValueError("a code has small letters, digits and hyphens")
        return text_of(await read_page(f"/problems/{code}"))

    return server


def sample_subject(checks: list[CheckDefinition], subject_type: str) -> dict[str, Any]:
    """Return a test subject with the inputs of the checks."""
    numbers = {
        "idNumber": "90000000",
        "kraPin": "A900000000Z",
        "registrationNumber": "SBX-0000000",
    }
    inputs = {
        one.key: numbers.get(one.key, SAMPLES.get(one.type_, "Test"))
        for check in checks
        for one in check.required_inputs
        if subject_type in one.required_for
    }
    return {"subjectType": subject_type, "fullName": "Test Subject", **inputs}


class _Text(HTMLParser):
    """Collects the text of a page's main part."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside = self._inside or tag == "main"

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "main"

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.parts.append(data.strip())


def text_of(html: str) -> str:
    parser = _Text()
    parser.feed(html)
    return "\n".join(parser.parts)
