"""Policies of the lender, and their job."""

from __future__ import annotations

from typing import Any

from tests.world.clients import Api
from tests.world.decisions import Officer
from verification.decisions import policies
from verification.decisions.models import PolicyVersion
from verification.decisions.policies import SeenDraft
from verification.decisions.rules import read_rules
from verification.jobs.models import Job


def condition(
    fact: str, comparison: str, value: Any, check: str | None = None
) -> dict[str, Any]:
    return {"check": check, "fact": fact, "comparison": comparison, "value": value}


def rule(then: str, *when: dict[str, Any], codes: Any = ()) -> dict[str, Any]:
    return {"when": list(when), "then": then, "codes": list(codes)}


# A person of the sandbox has a low score, and the adverse one has 90.
APPROVE_LOW = rule("APPROVED", condition("score", "BELOW", 30))
DECLINE_HIGH = rule(
    "DECLINED", condition("score", "AT_LEAST", 70), codes=["OWN_CRITERIA"]
)


def draft_policy(
    api: Api, *rules: dict[str, Any], officer: Any = None
) -> PolicyVersion:
    by = officer or Officer(api, "OWNER", "policy-maker")
    draft = policies.open_draft(by.client, by.member, by.actor, None)
    wanted = read_rules(list(rules))
    return policies.save_draft(by.client, seen(draft), wanted, by.member, by.actor)


def seen(draft: PolicyVersion) -> SeenDraft:
    return SeenDraft(draft.pk, policies.digest_of(draft))


def activate(draft: PolicyVersion, by: Officer, mode: str = "DECIDE") -> PolicyVersion:
    return policies.activate(by.client, seen(draft), mode, by.member, by.actor)


def switch_on(api: Api, *rules: dict[str, Any], mode: str = "DECIDE") -> PolicyVersion:
    """Switch a policy with these rules on, as an owner does in the console."""
    count = PolicyVersion.objects.count()
    by = Officer(api, "OWNER", f"policy-maker-{count}")
    return activate(draft_policy(api, *rules, officer=by), by, mode)


def waiting_reports() -> list[str]:
    """Return the reports that wait for a policy."""
    jobs = Job.objects.filter(function="verification.decisions.policies.apply_policy")
    return [one.arguments[0] for one in jobs.order_by("id")]


def run_policy() -> None:
    """Run the jobs that decide by policies, and keep them: they are safe to repeat."""
    for report_id in waiting_reports():
        policies.apply_policy(report_id)
