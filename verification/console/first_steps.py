"""The first steps of a new workspace, and orders to paste in three languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from verification.console.base import Place, Text
from verification.providers.sandbox import list_reserved_numbers
from verification.reports.request import RuleContext, catalogue, find_faults
from webhooks.models import Configuration
from workspaces.models import ApiKey

FIRST_ORDER = {
    "reports": [
        {
            "subject": {
                "subjectType": "INDIVIDUAL",
                "fullName": "Amina Wanjiru Otieno",
                "idNumber": "90000000",
            },
            "checksRequested": ["IDENTITY"],
            "purpose": "Tenancy application",
            "consent": {
                "mode": "CUSTOMER_ATTESTED",
                "obtained": True,
                "obtainedAt": "2026-01-15T09:00:00Z",
                "method": "CUSTOMER_WEB_FORM",
                "policyVersion": "1",
            },
        }
    ]
}
# The names of the sandbox's outcomes for the first test subjects
ENDINGS: dict[str, Text] = {
    "CLEAR": _("Clear"),
    "NOT_FOUND": _("Not found"),
    "NAME_MISMATCH": _("Another name"),
    "ADVERSE": _("Something adverse"),
    "DOWN": _("The source is down"),
}
KEY = "YOUR_KEY"
CURL = """curl -s {url} \\
  -H 'Authorization: Bearer {key}' \\
  -H 'Content-Type: application/json' -d '{body}'"""
PYTHON = """import requests

answer = requests.post(
    "{url}",
    headers={{"Authorization": "Bearer {key}"}},
    json={body},
    timeout=30,
)
print(answer.json())"""
TYPESCRIPT = """const answer = await fetch("{url}", {{
  method: "POST",
  headers: {{
    Authorization: "Bearer {key}",
    "Content-Type": "application/json",
  }},
  body: JSON.stringify({body}),
}});
console.log(await answer.json());"""


class Sample(NamedTuple):
    """A request in one language; `code` is its class in the style sheet."""

    code: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Steps:
    """The state of the first steps; production has other steps than the sandbox."""

    key: ApiKey | None
    has_report: bool
    has_webhook: bool
    is_live: bool
    has_money: bool
    needs_money: bool
    is_sandbox: bool

    @property
    def all(self) -> list[bool]:
        if self.is_sandbox:
            return [bool(self.key), self.has_report, self.has_webhook, self.is_live]
        money = [self.has_money] if self.needs_money else []
        return [bool(self.key), *money, self.has_report, self.has_webhook]

    @property
    def report_number(self) -> int:
        """The number of a production step: topping up is not for all."""
        return 3 if self.needs_money else 2

    @property
    def webhook_number(self) -> int:
        return 3 if self.is_sandbox else self.report_number + 1

    @property
    def done(self) -> int:
        return sum(self.all)

    @property
    def is_over(self) -> bool:
        return all(self.all)


def steps_of(place: Place, *, has_report: bool) -> Steps:
    account = place.account
    return Steps(
        ApiKey.objects.filter(**place.lookups).order_by("-id").first(),
        has_report,
        Configuration.objects.filter(**place.lookups).exists(),
        place.workspace.is_live,
        account.spendable is None or account.spendable > 0,
        account.billing == account.Billing.PREPAID,
        place.is_sandbox,
    )


def samples_of(
    place: Place, body: Mapping[str, Any], address: str = "reports", key: str = KEY
) -> list[Sample]:
    """Return a POST of the body in each language."""
    url = f"{place.api_url}/api/v1/{address}"
    # The shell's text ends at an apostrophe.
    shell = json.dumps(body, indent=2).replace("'", r"\u0027")
    python = pformat(body, sort_dicts=False, width=78).replace("\n", "\n         ")
    script = json.dumps(body, indent=2).replace("\n", "\n  ")
    return [
        Sample("curl", "curl", CURL.format(url=url, key=key, body=shell)),
        Sample("python", "Python", PYTHON.format(url=url, key=key, body=python)),
        Sample("ts", "TypeScript", TYPESCRIPT.format(url=url, key=key, body=script)),
    ]


def first_subjects() -> list[tuple[str, Text]]:
    """Return the reserved numbers that people try first, and how a check ends."""
    numbers = {one["outcome"]: one["idNumber"] for one in list_reserved_numbers()}
    return [(numbers[outcome], ending) for outcome, ending in ENDINGS.items()]


def order_about(place: Place) -> dict[str, Any] | None:
    """Return a first production order about the member.

    It has the first check that needs no other inputs. Returns None if all need some.
    """
    user = place.member.user
    subject = {
        "subjectType": "INDIVIDUAL",
        "fullName": user.get_full_name() or "YOUR_NAME",
        "idNumber": "12345678",
        "email": user.email,
    }
    item = {
        "subject": subject,
        "checksRequested": [""],
        "purpose": "Trying our own account",
        "consent": {"mode": "SERVICE_HOSTED"},
    }
    rules = RuleContext(catalogue(), place.environment)
    for name in rules.definitions:
        item["checksRequested"] = [name]
        if not any(find_faults(item, rules)):
            subject["idNumber"] = "YOUR_ID_NUMBER"
            return {"reports": [item]}
    return None
