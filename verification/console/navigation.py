"""The navigation of the console: groups of sections, and what waits in them.

A page's URL name begins with the name of its section.
"""

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import IntegerField, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from monitoring.models import alerts_of
from verification.db.base import run_sql
from verification.decisions.case_list import open_cases_of
from verification.privacy.joins import joins
from verification.privacy.models import OPEN_CORRECTIONS, Correction, SubjectRequest
from verification.values.clock import now
from webhooks.events import RETENTION
from webhooks.redelivery import failed_deliveries
from workspaces.members import Permission
from workspaces.models import Account, Client, Environment, Workspace

# These stand for the place and the time in the statement that counts.
ANY_WORKSPACE = UUID(int=0)
ANY_ENVIRONMENT = "any"
ANY_TIME = datetime.max.replace(tzinfo=UTC)
# Counts stop here, so that a page costs the same however much waits.
MOST = 99


@dataclass(frozen=True, slots=True)
class Count:
    """The numbers of waiting and of late items in a section, at most MOST + 1."""

    waiting: int
    late: int = 0
    # The number's meaning, for screen readers
    words: Promise | str = ""
    is_bad: bool = False

    @property
    def most(self) -> int:
        return MOST

    @staticmethod
    def text(number: int) -> str:
        """Return the number, which stops at MOST."""
        return f"{MOST}+" if number > MOST else f"{number}"


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    label: Promise
    icon: str
    group: Promise
    needs: Permission = Permission.SEE
    # True if both environments share the page
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
    _workspace(
        "settings-brand", _("Brand"), "palette", needs=Permission.MANAGE_SETTINGS
    ),
    _workspace("settings", _("Settings"), "settings"),
    _workspace("golive", _("Go live"), "rocket", needs=Permission.SEE_ADMINISTRATION),
)


def section_of(url_name: str) -> Section | None:
    """Return the section of a page; the longest name that the page's begins with."""
    found = [s for s in SECTIONS if f"{url_name}-".startswith(f"{s.name}-")]
    return max(found, key=lambda section: len(section.name), default=None)


def groups_for(
    client: Client, offered: Set[Permission]
) -> Iterable[tuple[Promise, list[Section]]]:
    """Return the groups with the sections that these permissions open here."""
    is_sandbox = client.environment == Environment.SANDBOX
    seen = [
        section
        for section in SECTIONS
        if section.needs in offered
        and (is_sandbox or not section.in_sandbox_only)
        and not (section.name == "golive" and client.workspace.is_live)
    ]
    return [(group, list(of)) for group, of in groupby(seen, lambda s: s.group)]


def count_waiting(client: Client, sections: Collection[str]) -> dict[str, Count]:
    """Return the counts of these sections, without those where nothing waits.

    One statement counts them all.
    """
    asked = tuple(name for name in WAITING if name in sections)
    names, sql, parameters = _counting(asked)
    values: dict[Any, Any] = {
        ANY_WORKSPACE: client.workspace.pk,
        ANY_ENVIRONMENT: client.environment,
        ANY_TIME: now(),
    }
    (counted,) = run_sql(sql, [values.get(one, one) for one in parameters])
    found = dict(zip(names, counted, strict=True))
    return {
        name: WAITING[name].count(found[name], found.get(f"{name}_late", 0))
        for name in asked
        if found[name]
    }


@cache
def _counting(sections: tuple[str, ...]) -> tuple[list[str], str, tuple[Any, ...]]:
    """Return the names, the statement and the parameters of the counts.

    Each page needs it, and to build it costs more than the rest of the navigation.
    """
    client = Client(
        Workspace(pk=ANY_WORKSPACE), Account(environment=ANY_ENVIRONMENT), actor=""
    )
    counts: dict[str, FirstRows] = {}
    for name in sections:
        waiting = WAITING[name]
        rows = waiting.rows(client)
        counts[name] = FirstRows(rows)
        if waiting.late:
            counts[f"{name}_late"] = FirstRows(rows.filter(waiting.late))
    one = Workspace.objects.filter(pk=ANY_WORKSPACE).values_list(*counts.values())
    return [*counts], *one.query.sql_with_params()


class FirstRows(Subquery):
    """Counts the rows of a query, no further than MOST + 1."""

    template = "(SELECT count(*) FROM (%(subquery)s) first)"
    output_field = IntegerField()

    def __init__(self, rows: QuerySet) -> None:
        super().__init__(rows.order_by().values("pk")[: MOST + 1])


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows that wait in a section, and the words for them."""

    rows: Callable[[Client], QuerySet]
    words: Promise
    # The rows that are late
    late: Q | None = None
    is_bad: bool = False

    def count(self, waiting: int, late: int) -> Count:
        return Count(waiting, late, self.words, is_bad=self.is_bad or bool(late))


def _open_requests(client: Client) -> QuerySet[SubjectRequest]:
    """Return the requests of open corrections, and the open joins."""
    disputes = Correction.objects.filter(
        report__workspace=client.workspace.pk,
        report__environment=client.environment,
        status__in=OPEN_CORRECTIONS,
    )
    # Two lists, so that each is read by the index of its open rows
    asked = joins().filter(answered_at=None, **client.lookups).values("pk")
    both = disputes.values("request").union(asked)
    return SubjectRequest.objects.filter(pk__in=both)


WAITING = {
    "queue": Waiting(
        lambda c: open_cases_of(*c.where), _("waiting"), late=Q(due_at__lt=ANY_TIME)
    ),
    "monitoring": Waiting(lambda c: alerts_of(c).filter(read=False), _("unread")),
    "corrections": Waiting(
        _open_requests,
        _("open"),
        # The sandbox has no deadlines.
        late=Q(due_at__lt=ANY_TIME, environment=Environment.PRODUCTION),
    ),
    "webhooks": Waiting(
        lambda c: failed_deliveries(*c.where, Now() - RETENTION),
        _("failed"),
        is_bad=True,
    ),
}
