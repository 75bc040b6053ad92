"""The navigation of the console: groups of sections, and what waits in them.

A page's URL name begins with the name of its section.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.models import alerts_of
from verification.decisions.case_list import open_cases_of
from verification.privacy.models import OPEN_CORRECTIONS, Correction
from verification.values.clock import now
from webhooks.models import DeliveryStatus, deliveries_of
from workspaces.members import ALLOWED, Permission
from workspaces.models import Client, Environment, Member

# Counts stop here, so that a page costs the same however much waits.
MOST = 99


@dataclass(frozen=True, slots=True)
class Count:
    """How many things wait in a section, at most MOST + 1; `late` of them are late."""

    waiting: int
    late: int = 0
    # What waits, for people who cannot see the number's place.
    words: Promise | str = ""
    is_bad: bool = False

    @property
    def late_text(self) -> str:
        return f"{MOST}+" if self.late > MOST else f"{self.late}"

    @property
    def most(self) -> int:
        return MOST


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    label: Promise
    icon: str
    group: Promise
    needs: Permission = Permission.SEE
    # The same in both environments
    of_workspace: bool = False
    in_sandbox_only: bool = False


WORK, INSIGHT, DEVELOP, WORKSPACE = (
    _("Work"),
    _("Insight"),
    _("Develop"),
    _("Workspace"),
)
_develop = partial(Section, group=DEVELOP, needs=Permission.SEE_ADMINISTRATION)
_workspace = partial(Section, group=WORKSPACE, of_workspace=True)
SECTIONS = (
    Section("dashboard", _("Home"), "house", WORK),
    Section("reports", _("Reports"), "file-check-2", WORK),
    Section("queue", _("Queue"), "inbox", WORK),
    Section("monitoring", _("Monitoring"), "activity", WORK),
    Section("corrections", _("Corrections"), "message-square-warning", WORK),
    Section("figures", _("Figures"), "chart-column", INSIGHT),
    Section("exports", _("Exports"), "download", INSIGHT),
    _develop("keys", _("Keys"), "key-round", of_workspace=True),
    _develop("webhooks", _("Webhooks"), "webhook"),
    _develop("requests", _("Requests"), "list-tree"),
    Section(
        "sandbox", _("Test subjects"), "flask-conical", DEVELOP, in_sandbox_only=True
    ),
    _develop(
        "mailbox",
        _("Mailbox"),
        "mail",
        needs=Permission.MANAGE_MAILBOX,
        in_sandbox_only=True,
    ),
    _workspace("money", _("Balance"), "wallet", needs=Permission.SEE_ADMINISTRATION),
    _workspace("members", _("Members"), "users", needs=Permission.SEE_ADMINISTRATION),
    Section("policy", _("Policy"), "git-branch", WORKSPACE),
    _workspace("settings-packages", _("Packages"), "package"),
    _workspace("settings-brand", _("Brand"), "palette"),
    _workspace("settings", _("Settings"), "settings"),
    _workspace("golive", _("Go live"), "rocket", needs=Permission.SEE_ADMINISTRATION),
)


def section_of(url_name: str) -> Section | None:
    """Return the section of a page; the longest name that the page's begins with."""
    found = [s for s in SECTIONS if f"{url_name}-".startswith(f"{s.name}-")]
    return max(found, key=lambda section: len(section.name), default=None)


def groups_for(
    member: Member, environment: str
) -> Iterable[tuple[Promise, list[Section]]]:
    """Return the groups with the sections that the member's role sees here."""
    allowed = ALLOWED[member.role]
    is_sandbox = environment == Environment.SANDBOX
    seen = [
        section
        for section in SECTIONS
        if section.needs in allowed
        and (is_sandbox or not section.in_sandbox_only)
        and not (section.name == "golive" and member.workspace.is_live)
    ]
    return [(group, list(of)) for group, of in groupby(seen, lambda s: s.group)]


def count_waiting(client: Client, sections: Collection[str]) -> dict[str, Count]:
    """Return the counts of these sections, without those where nothing waits."""
    found = {name: count(client) for name, count in COUNTS.items() if name in sections}
    return {name: count for name, count in found.items() if count.waiting}


def _count_cases(client: Client) -> Count:
    cases = open_cases_of(client.workspace.pk, client.environment)
    late = _capped(cases.filter(due_at__lt=now()))
    return Count(_capped(cases), late, _("cases"), is_bad=bool(late))


def _count_alerts(client: Client) -> Count:
    return Count(
        _capped(alerts_of(client).filter(read=False)), words=_("unread alerts")
    )


def _count_corrections(client: Client) -> Count:
    found = Correction.objects.filter(
        report__workspace=client.workspace.pk,
        report__environment=client.environment,
        status__in=OPEN_CORRECTIONS,
    )
    late = _capped(found.filter(request__due_at__lt=now()))
    return Count(_capped(found), late, _("open"), is_bad=bool(late))


def _count_failed(client: Client) -> Count:
    deliveries = deliveries_of(client.workspace.pk, client.environment)
    failed = _capped(deliveries.filter(status=DeliveryStatus.FAILED))
    return Count(failed, words=_("failed deliveries"), is_bad=True)


def _capped(rows: QuerySet) -> int:
    return rows[: MOST + 1].count()


COUNTS: dict[str, Callable[[Client], Count]] = {
    "queue": _count_cases,
    "monitoring": _count_alerts,
    "corrections": _count_corrections,
    "webhooks": _count_failed,
}
