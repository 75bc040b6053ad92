"""The Python client and its guide against the running service."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
import standardwebhooks

from tests.clients.answering_server import Answer, AnsweringServer
from tests.clients.python_client import SOURCES, install_client
from tests.docs.guides import (
    ALL_SCOPES,
    PRINTED_BY_TABS,
    endless_sample,
    tab_program,
)
from tests.service.conftest import Client
from tests.world.service import Service
from tests.world.waiting import until

READER = Path(__file__).parents[1] / "clients" / "read_answers.py"
MONITORING = "docs/client/monitoring.md"
README = (SOURCES / "README.md").read_text()
(QUICK_START,) = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the client."""
    return install_client(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def environment(service: Service, client: Client) -> dict[str, str]:
    return {
        "VERIFICATION_API_KEY": client.key,
        "VERIFICATION_BASE_URL": service.url,
        "NO_PROXY": "*",
        "PATH": os.environ["PATH"],
    }


def test_quick_start_ends_with_a_completed_report(
    programs: Path, environment: dict[str, str], tmp_path: Path
):
    (tmp_path / "order.py").write_text(QUICK_START)

    done = subprocess.run(
        [programs / "python", "order.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "READY LOW\n", done.stderr
    assert len([line for line in QUICK_START.splitlines() if line]) <= 12


def test_year_of_monitoring_runs_as_printed_and_raises_its_alerts(
    programs: Path, environment: dict[str, str], client: Client
):
    done = subprocess.run(
        [programs / "python", "-c", tab_program(MONITORING, "python")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert PRINTED_BY_TABS[MONITORING] in done.stdout, done.stderr

    def alerts() -> list[dict[str, Any]]:
        rule = client.get("/monitoring").json()["content"][0]
        found = client.get("/monitoring/alerts", size=50).json()["content"]
        return [alert for alert in found if alert["monitoringId"] == rule["id"]]

    until(lambda: len(alerts()) == 12, alerts)
    assert len({alert["reportId"] for alert in alerts()}) == 12


@pytest.mark.slow
def test_tabs_of_the_guides_run_as_printed(
    programs: Path, environment: dict[str, str], service: Service, tmp_path: Path
):
    client = Client(service, "sandbox", ALL_SCOPES)
    own = {"VERIFICATION_API_KEY": client.key, "REPORT_ID": client.order_ended()}

    for page in PRINTED_BY_TABS:
        if page == MONITORING:
            continue
        done = subprocess.run(
            [programs / "python", "-c", tab_program(page, "python")],
            cwd=tmp_path,
            env=environment | own,
            capture_output=True,
            text=True,
            check=False,
        )
        assert PRINTED_BY_TABS[page] in done.stdout, done.stderr


def test_follower_of_the_guide_goes_on_where_it_was(
    programs: Path, environment: dict[str, str], service: Service, tmp_path: Path
):
    client = Client(service, "sandbox")
    program = endless_sample("docs/client/webhooks.md", "python", ".follow(")
    place = tmp_path / "events.cursor"

    def follow(events: int) -> list[str]:
        """Run the program until it has stored its place after so many events."""
        before = place.read_text() if place.exists() else ""
        with subprocess.Popen(
            [programs / "python", "-u", "-c", program],
            cwd=tmp_path,
            env=environment | {"VERIFICATION_API_KEY": client.key},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout
            printed = [process.stdout.readline().strip() for _ in range(events)]
            until(lambda: place.exists() and place.read_text() not in ("", before))
            process.kill()
        return printed

    hook = {"url": "https://hooks.acacia.example/", "secret": "a-secret-of-the-test"}
    client.post("/webhooks/config", hook | {"enabledEvents": ["report.ready"]})
    sent = [client.post("/webhooks/test").json() for _ in range(2)]
    first = follow(2)
    sent.append(client.post("/webhooks/test").json())

    assert first + follow(1) == [f"webhook.test {one['id']}" for one in sent]


def test_client_generated_for_1_0_reads_the_answers_of_today(
    service: Service, tmp_path: Path
):
    """Its document closed the enumerations, so it reads the values of its time."""
    client = Client(service, "sandbox")
    document = SOURCES.parents[1] / "tests/api/released/1.0.0.yaml"
    generator = [sys.executable, "-m", "openapi_python_client", "generate"]
    names = ["--meta=none", "--output-path", str(tmp_path / "released_client")]
    subprocess.run(
        [*generator, *names, "--path", str(document)], check=True, capture_output=True
    )

    done = subprocess.run(
        [sys.executable, str(READER), client.key, service.url],
        env={"PYTHONPATH": str(tmp_path), "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


class Command:
    """Runs `vrf` as a developer does, with a home of its own."""

    def __init__(self, programs: Path, home: Path) -> None:
        self._program = str(programs / "vrf")
        self._environment = {"XDG_CONFIG_HOME": str(home), "NO_PROXY": "*"}

    def run(self, *arguments: str, typed: str = "", **variables: str) -> str:
        done = subprocess.run(
            [self._program, *arguments],
            env=self._environment | variables,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (1 if done.stderr else 0), done
        return done.stderr or done.stdout

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [self._program, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)


def test_vrf_orders_acts_and_forwards_events(
    programs: Path, service: Service, tmp_path: Path
):
    client = Client(service, "sandbox")
    vrf = Command(programs, tmp_path)
    item = {
        "subject": {
            "subjectType": "INDIVIDUAL",
            "fullName": "Wanjiku Kamau",
            "idNumber": "90000000",
        },
        "checksRequested": ["IDENTITY"],
        "purpose": "Loan application",
        "consent": {"mode": "SERVICE_HOSTED"},
    }

    assert vrf.run("reports", "list") == "vrf: no key is stored: run vrf login\n"
    login = ["login", "--url", service.url]
    assert "401 invalid-api-key" in vrf.run(*login, typed="vrf_test_0\n")
    assert vrf.run(*login, typed=f"{client.key}\n") == "Logged in to Acacia, sandbox.\n"
    (stored,) = tmp_path.rglob("*.json")
    assert stored.stat().st_mode & 0o777 == 0o600

    failing, working = Answer(status=500), Answer(status=204)
    with (
        AnsweringServer(failing, working) as receiver,
        vrf.running("listen", "--forward-to", f"{receiver.url}/hook") as listening,
    ):
        secret = listening.stdout.readline().split()[-1]
        report = json.loads(vrf.run("reports", "create", "-", typed=json.dumps(item)))
        waited = vrf.run("reports", "wait", report["id"])
        assert waited.startswith("vrf: the subject must consent at http")
        assert "consent.grant" in vrf.run("trigger", "grant", report["id"])
        vrf.run("trigger", "consent.grant", report["id"])
        ended = json.loads(vrf.run("reports", "wait", report["id"]))
        until(lambda: "report.ready" in [e.body["event"] for e in receiver.received])

    assert ended["status"] == "READY"
    assert json.loads(vrf.run("reports", "get", report["id"])) == ended
    listed = vrf.run("reports", "list", "--limit", "1")
    assert listed == f"{report['id']}\tREADY\tWanjiku Kamau\n"
    first, again, *others = receiver.received
    assert first.path == "/hook"
    assert first.body["event"] == again.body["event"] == "report.created"
    for each in receiver.received:
        standardwebhooks.Webhook(secret).verify(each.content, each.headers)
    assert len({each.headers["webhook-id"] for each in [again, *others]}) == 3
    other = json.loads(vrf.run("reports", "create", "-", typed=json.dumps(item)))
    skipped = json.loads(vrf.run("skip", "report", other["id"]))
    assert skipped["done"]["name"].startswith("CONSENT_")
    assert "localhost only" in vrf.run("listen", "--forward-to", "http://acacia.test")


def test_vrf_serves_an_assistant_what_it_may_read(
    programs: Path,
    environment: dict[str, str],
    live_client: Client,
    tmp_path: Path,
):
    vrf = Command(programs, tmp_path)
    live = environment | {"VERIFICATION_API_KEY": live_client.key}

    async def ask() -> tuple[dict[str, Any], dict[str, Any]]:
        program = mcp.StdioServerParameters(
            command=str(programs / "vrf"), args=["mcp"], env=environment
        )
        async with mcp.Client(program) as assistant:
            tools = {tool.name: tool for tool in (await assistant.list_tools()).tools}
            calls = {
                "list_checks": {},
                "list_test_subjects": {},
                "quote": {"checks": ["IDENTITY", "EMPLOYER_VERIFICATION"]},
                "explain_problem": {"code": "insufficient-balance"},
            }
            answers = {
                name: await assistant.call_tool(name, arguments)
                for name, arguments in calls.items()
            }
            (guide, *_) = (await assistant.call_tool("list_guides")).content
            answers["read_guide"] = await assistant.call_tool(
                "read_guide", {"title": guide.text}
            )
            refused = {"checks": ["BUSINESS_VERIFICATION"]}
            answers["refused"] = await assistant.call_tool("quote", refused)
        return tools, answers

    tools, answers = asyncio.run(ask())

    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert not answers["quote"].is_error, answers["quote"]
    assert answers["quote"].structured_content["total"]["amount"] == 550
    assert "IDENTITY" in answers["list_checks"].content[0].text
    assert "90000000" in answers["list_test_subjects"].content[0].text
    assert "balance" in answers["explain_problem"].content[0].text
    assert "create" in answers["read_guide"].content[0].text
    assert answers["refused"].is_error
    assert "accepts COMPANY only" in answers["refused"].content[0].text
    assert "test key" in vrf.run("mcp", **live)
