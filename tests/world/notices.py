"""Decline with a notice, deliver it, and let declines wait."""

from __future__ import annotations

from typing import Any

from tests.world.clients import Api, person
from tests.world.decisions import Officer
from tests.world.policies import DECLINE_HIGH, switch_on
from verification.decisions import decide as verbs
from verification.decisions.decide import Maker, NewDecision
from verification.decisions.models import (
    AdverseNotice,
    Decision,
    NoticeRule,
    PolicyVersion,
)
from verification.decisions.notices import record_outcomes
from verification.notifications.delivery import send_due_notifications
from workspaces.models import Client

# The sandbox of tests may write to it.
EMAIL = "wanjiku@kamau.test"


def create_report(api: Api, *checks: str, **subject: Any) -> str:
    """Return a report that is ready; it has a credit check unless `checks` has none."""
    item = person(**({"email": EMAIL} | subject))
    if checks:
        item["checksRequested"] = list(checks)
    made: str = api.create(item)["id"]
    api.work()
    return made


def decline(
    officer: Officer, report_id: Any, code: str = "OWN_CRITERIA", **more: Any
) -> Decision:
    maker = Maker.of_member(officer.member, officer.actor)
    new = NewDecision("DECLINED", [code], **more)
    return verbs.decide(officer.client, report_id, new, maker)


def decline_by_policy(api: Api, report_id: Any) -> Decision:
    version = PolicyVersion.objects.filter(workspace=api.workspace).first()
    version = version or switch_on(api, DECLINE_HIGH)
    client = Client(api.workspace, api.account, str(version))
    new = NewDecision("DECLINED", ["OWN_CRITERIA"])
    return verbs.decide(client, report_id, new, Maker.of_policy(version, {}))


def deliver() -> AdverseNotice:
    """Send what is due, and return the only notice with the outcome."""
    send_due_notifications()
    record_outcomes()
    return AdverseNotice.objects.get()


def wait(days: int, api: Api) -> None:
    """Let declines with a notice wait."""
    NoticeRule.objects.update_or_create(
        workspace=api.workspace, defaults={"waiting_days": days}
    )
