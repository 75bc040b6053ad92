"""The first steps of each environment work as the page shows them."""

import html
import json
import re
import subprocess
from decimal import Decimal

import pytest

from tests.reports.test_availability import offer_checks_in
from tests.world.clients import Api, approve_workspace
from tests.world.console import ConsoleVisitor
from verification.checks.models import CheckResult
from verification.notifications.models import Notification
from verification.reports.models import Report
from workspaces import ledger
from workspaces.models import LedgerEntry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def at_home(live_server, settings) -> None:
    settings.BASE_URL = live_server.url


def commands(page: str) -> list[str]:
    found = re.findall(r"<pre[^>]*>(curl.*?)</pre>", page, re.DOTALL)
    return [html.unescape(command) for command in found]


def run(command: str, **values: str) -> dict:
    """Run a command of the page with these values; return the API's answer."""
    for name, value in values.items():
        assert name in command
        command = command.replace(name, value)
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    return json.loads(done.stdout)


def test_sandbox_commands_order_a_report(at_home, owner: ConsoleVisitor, api: Api):
    (order,) = commands(owner.page("dashboard"))
    (report,) = run(order, YOUR_KEY=api.text)["reports"]

    api.work()

    assert api.report(report["id"])["status"] == "READY"


def test_suspended_workspace_has_no_first_steps(owner: ConsoleVisitor):
    assert "First steps" in owner.page("dashboard")
    owner.workspace.suspend("Unpaid")

    assert "First steps" not in owner.page("dashboard")


def test_production_commands_price_and_order_a_report(
    at_home, owner: ConsoleVisitor, live_api: Api
):
    approve_workspace(live_api.workspace)
    name = """Ng'ang'a "Jo" <b>O'Brien</b>"""
    owner.member.user.first_name = name
    owner.member.user.save()
    page = owner.page("dashboard", "production")
    assert "1 of 4 steps done" in page
    money = {"actor": "tests", "note": ""}
    ledger.top_up(live_api.workspace, "production", Decimal(1000), **money)

    price, order = commands(owner.page("dashboard", "production"))
    typed = {"YOUR_KEY": live_api.text, "YOUR_ID_NUMBER": "23456789"}
    assert run(price, **typed)["total"]["amount"] == 50
    assert not Report.objects.exists()
    (made,) = run(order, **typed)["reports"]

    report = live_api.report(made["id"])
    assert (report["status"], report["subject"]["fullName"]) == (
        "PENDING_CONSENT",
        name,
    )
    asked = Notification.objects.get(kind="CONSENT_REQUEST", channel="EMAIL")
    assert asked.recipient == owner.member.user.email
    assert "is billed" in page
    assert LedgerEntry.objects.filter(kind="CHARGE", report_id=made["id"]).exists()
    assert "90000000" not in page


@pytest.mark.parametrize(
    ("answered", "ordered"),
    [(("CRB_STANDARD", "CRB_SCORE"), ["CRB_SCORE"]), (("BUSINESS_VERIFICATION",), [])],
)
def test_production_commands_order_what_has_a_source(
    at_home, owner: ConsoleVisitor, live_api: Api, answered, ordered
):
    approve_workspace(live_api.workspace)
    money = {"actor": "tests", "note": ""}
    ledger.top_up(live_api.workspace, "production", Decimal(1000), **money)
    offer_checks_in(**dict.fromkeys(answered, "KE"))

    page = owner.page("dashboard", "production")

    typed = {"YOUR_KEY": live_api.text, "YOUR_ID_NUMBER": "23456789"}
    for command in commands(page)[1:]:
        run(command, **typed)
    asked = CheckResult.objects.values_list("definition__name", flat=True)
    assert list(asked) == ordered
    assert ("has a source here yet" in page) is not bool(ordered)


def test_production_before_approval_shows_no_commands(owner: ConsoleVisitor, api: Api):
    page = owner.page("dashboard", "production")

    assert commands(page) == []
    assert "Go live" in page


def test_commands_name_the_host_of_their_environment(
    owner: ConsoleVisitor, live_api, settings
):
    approve_workspace(live_api.workspace)
    settings.BASE_URL = "https://verify.example"
    settings.SANDBOX_HOST = "sandbox.verify.example"
    settings.PRODUCTION_HOST = "api.verify.example"
    settings.ALLOWED_HOSTS = ["*"]

    (sandbox,) = commands(owner.page("dashboard"))
    price, order = commands(owner.page("dashboard", "production"))

    assert "https://sandbox.verify.example/api/v1/reports " in sandbox
    assert "https://api.verify.example/api/v1/reports/quote " in price
    assert "https://api.verify.example/api/v1/reports " in order
