"""Alerts, dashboard, runbooks and the table of figures name what `/metrics` prints."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands
from django.test import Client

from tests.sources.test_health import count_calls
from tests.sources.two import two as two
from tests.web.test_metrics import TOKEN, samples
from tests.web.test_metrics import standby as standby
from tests.web.test_metrics import token as token
from verification.audit_trail.check import check_nightly
from verification.backups.models import Backup, RestoreDrill
from verification.jobs.models import Heartbeat
from verification.notifications.models import Notification
from verification.payments.alerts import count_failed_opening
from verification.payments.audit import audit_nightly

ROOT = settings.BASE_DIR
ALERTS = ROOT / "deploy" / "alerts.yaml"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]
]
RUNBOOKS = (ROOT / "docs" / "operator" / "runbooks.md").read_text()
METRICS = (ROOT / "docs" / "operator" / "metrics.md").read_text()
ALERT_TESTS = ("tests/docs/alerts.yaml", "tests/docs/alerts_of_days.yaml")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
FIGURE = re.compile(r"\bverification_\w+")


@pytest.fixture
def printed(
    client: Client, token: None, two: Any, standby: Any, settings: Any
) -> set[str]:
    """Return the names of all figures, with a row for each of them."""
    count_calls("first", {"ANSWERED": 1}, milliseconds=9)
    count_failed_opening("stripe", "SOURCE_REFUSED")
    audit_nightly()
    check_nightly()
    settings.AUDIT_EXPORT_URL = "https://logs.acacia.test"
    Backup.objects.create(rows=1, seconds=1)
    RestoreDrill.objects.create()
    Heartbeat.objects.create(cluster="one")
    Notification.objects.create(
        kind="PAYMENT_TROUBLE",
        channel="EMAIL",
        cause="a",
        recipient="ops@acacia.test",
        context={},
        language="en",
        sandbox=False,
        attempts=1,
        error="UNREACHABLE",
        next_attempt_at="2030-01-01T00:00Z",
    )
    # The counts of requests have one after the first.
    client.get("/metrics", **TOKEN)
    return {name for name, *_ in samples(client.get("/metrics", **TOKEN).text)}


def test_alerts_use_figures_that_exist(printed: set[str]):
    used = {name for rule in RULES for name in FIGURE.findall(rule["expr"])}

    assert len(used) > 25
    assert used <= printed


def test_dashboard_uses_figures_that_exist(printed: set[str]):
    used = {name for text in _expressions(DASHBOARD) for name in FIGURE.findall(text)}

    assert len(used) > 25
    assert used <= printed


def test_page_lists_all_figures(printed: set[str]):
    table = METRICS.split("All names begin with `verification_`:")[1].split("\n\n")[1]
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]

    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in printed}
    # A counter also prints when it was made.
    families -= {name.removesuffix("_total") for name in printed if "_total" in name}
    assert sorted(f"verification_{name}" for name in listed) == sorted(families)


def test_each_alert_leads_to_its_section_of_the_runbooks():
    names = [rule["alert"] for rule in RULES]
    sections = re.findall(r"^## (Verification\w+)$", RUNBOOKS, re.MULTILINE)

    assert sections == names
    for rule in RULES:
        link = f"{{{{ $externalURL }}}}/user/runbooks.html#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == link
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith(".")


@pytest.mark.slow
def test_page_of_prometheus_has_the_sections_and_their_links(tmp_path: Path):
    if not shutil.which("pandoc"):
        pytest.skip("pandoc is not installed (Debian has it)")
    text = METRICS.split("## Runbooks at a click")[1]
    script = text.split("```sh\n")[1].split("```")[0]
    install, *rest = script.replace("/etc/prometheus", str(tmp_path)).splitlines()

    subprocess.run(["sh", "-ec", "\n".join(rest)], cwd=ROOT / "docs", check=True)

    assert install.startswith("apt-get install")
    page = (tmp_path / "user" / "runbooks.html").read_text()
    for rule in RULES:
        assert f'id="{rule["alert"].lower()}"' in page
    linked = set(re.findall(r'href="([\w-]+\.html)', page))
    assert "metrics.html" in linked
    assert linked <= {file.name for file in (tmp_path / "user").iterdir()}
    assert '.md"' not in page
    assert ".md#" not in page


def test_each_section_of_the_runbooks_says_what_it_means_and_what_to_do():
    form = r"\w+\n\n[^-#].*?\n\n- \*\*Look:\*\* .+?\n- \*\*Do:\*\* .+"
    for section in RUNBOOKS.split("\n## Verification")[1:]:
        assert re.fullmatch(form, section, re.DOTALL), section


def test_runbooks_name_commands_of_an_installation():
    named = set(re.findall(r"`verification (\w+)", RUNBOOKS))
    named |= set(re.findall(r"^verification (\w+)", RUNBOOKS, re.MULTILINE))

    assert len(named) > 8
    assert named <= get_commands().keys()
    # Neither is there on such a machine.
    assert "manage.py" not in RUNBOOKS
    assert "$DATABASE_URL" not in RUNBOOKS


def test_runbooks_ask_pages_of_operators_past_the_proxies():
    addresses = re.findall(r"curl (?:-s )?(\S+?)(?:/readyz|/metrics)", RUNBOOKS)

    assert addresses
    assert set(addresses) == {"http://127.0.0.1:8000"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "deploy/alerts.yaml"),
        ("test", "rules", *ALERT_TESTS),
    ],
    ids=["check", "test"],
)
@pytest.mark.slow
def test_prometheus_accepts_the_rules(arguments: tuple[str, ...]):
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")

    done = subprocess.run(
        [promtool, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_dashboards_expressions(tmp_path: Path):
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(_expressions(DASHBOARD))
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def _expressions(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _expressions(one)]
    if not isinstance(value, dict):
        return []
    mine = [value["expr"]] if "expr" in value else []
    return mine + _expressions(list(value.values()))
