"""People: the proof that a row is about a person, and the search for their rows.

- Clients and staff request by number. `Person.of(report)` stands for all the subjects
  that they named by that number.
- A visitor of a link has proved the report of the link, and the address that received
  the code of the visit. Name, number and date of birth are no proof: everybody who has
  seen the ID card knows them. `Proof.covers` decides about other rows, and
  `privacy.joins` asks the client or staff about rows without an address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from monitoring.models import Rule
from verification.consents.subject_messages import CONTACT_MEMBERS, addresses_of
from verification.db.encryption import keyed_hash
from verification.jobs.queue import beat, job
from verification.notifications.models import Channel
from verification.privacy.models import Hold, Outcome, RequestKind, SubjectRequest
from verification.reports.models import (
    IDENTIFIERS,
    Report,
    SearchEntry,
    Subject,
    objection_ids,
)
from verification.reports.objections import (
    Named,
    address_set,
    has_name_of,
    may_be_same_person,
)
from verification.reports.queries import Terms
from verification.reports.status import lock_person
from verification.values.clock import now
from workspaces.models import Environment, Workspace

FILLED_AT_ONCE = 500
# Reports of the sandbox cost nothing, so there the search ends after this many of them,
# and steps from number to number: no page reads a million.
MOST_IN_SANDBOX, STEPS_IN_SANDBOX = 1000, 20
# The kind of identity of a subject without any number
NAME = "name"


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of a visitor of a report's link.

    `address` received the code of the visit; it is "" if there was no code.
    `is_confirmed` is true if the client or staff have confirmed the person.
    """

    report: Report
    address: str = ""
    is_confirmed: bool = False

    @classmethod
    def of(cls, report: Report, channel: str = "") -> Proof:
        """Return the proof of a visitor who typed the code sent by this channel."""
        address = proved_address(report, channel)
        return cls(report, address, _is_confirmed(report, address))

    def covers(self, other: Named) -> bool:
        """Return whether this proves a row with the person's number, too.

        The link proves its own report, and the rule that ordered it. Another row needs
        the proved address, or a confirmed person if it has no address. The report's
        other addresses are no proof: a thief may have ordered the report with their own
        address and the victim's.
        """
        report = self.report
        if report == other:
            return True
        if isinstance(other, Rule) and other.pk == report.monitoring_id:
            return True
        if not may_be_same_person(report, other):
            return False
        if theirs := address_set(other):
            return self.address.casefold() in theirs
        return self.is_confirmed


def proved_address(report: Report, channel: str) -> str:
    """Return the subject's address of the channel by which they got a code.

    The sandbox sends codes to few addresses. There the report's address needs no code,
    so that the sandbox shows the same pages as production.
    """
    subject: Mapping[str, Any] = report.subject or {}
    if channel:
        return str(subject.get(CONTACT_MEMBERS[Channel(channel)]) or "")
    known = addresses_of(subject)
    is_test = report.environment == Environment.SANDBOX
    return known[0][1] if known and is_test else ""


def address_digest(address: str) -> bytes:
    """Return the keyed hash of a proved address, as requests store it."""
    return keyed_hash("proved-address", address.casefold())


def _is_confirmed(report: Report, address: str) -> bool:
    """Return whether the client or staff have confirmed the person at this address."""
    confirmed = SubjectRequest.objects.filter(
        workspace=report.workspace_id,
        environment=report.environment,
        subject_id__in=report.subject_ids,
        outcome=Outcome.DONE,
        proved_address=address_digest(address),
    )
    return any(
        one.report == report
        or (address and one.report and may_be_same_person(one.report, report))
        for one in confirmed.select_related("report")
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The rows about a person, and the ids of the numbers that led to them.

    The reports are the newest first, and not erased.
    """

    reports: list[Report]
    rules: list[Rule]
    subject_ids: set[UUID]

    def kinds(self) -> set[str]:
        """Return the kinds of the numbers; NAME for a subject without any."""
        return {kind for report in self.reports for kind in _kinds(report)}


@dataclass(frozen=True, slots=True)
class Person:
    """The subject of reports in one workspace and environment.

    The search follows every number: a report with an ID number and a PIN leads to
    reports with that PIN alone, and so on. A mistyped number must not lead to another
    person, so the name decides at each step:

    - With a `proof`, the person's rows are the rows that it covers, and their numbers
      lead on.
    - Without a proof, clients and staff request by number. All rows with its
      `subject_id` belong, whatever their names, as the client sees them as one subject.
      Any other row that shares a number belongs if it has the name of `report`, and
      only the numbers of rows with that name lead on.
    - Staff may type a number, without a name. All rows that carry it belong; their
      other numbers lead on if all these rows have one name.
    """

    workspace: Workspace
    environment: str
    subject_id: UUID
    report: Report | None = None
    proof: Proof | None = None

    @classmethod
    def of(cls, report: Report, proof: Proof | None = None) -> Person:
        scope = report.workspace, report.environment, report.subject_id
        return cls(*scope, report, proof)

    @property
    def _is_test(self) -> bool:
        return self.environment == Environment.SANDBOX

    def find(self) -> Found:
        """Return the rows about the person; in the sandbox MOST_IN_SANDBOX reports."""
        reports: dict[UUID, Report] = {}
        names = {self.report.subject_name} if self.report else set()
        ids, new, steps = {self.subject_id}, {self.subject_id}, 0
        while new:
            steps += 1
            if self._is_test and (
                steps > STEPS_IN_SANDBOX or len(reports) >= MOST_IN_SANDBOX
            ):
                break
            rows = [
                row
                for row in self._carrying(new)
                if row.pk not in reports
                # A report stays out if a correction has replaced the number.
                and (row.subject_id in new or not new.isdisjoint(row.subject_ids))
            ]
            names = names or {row.subject_name for row in rows}
            new = set[UUID]()
            for row in rows:
                has_name = has_name_of(row, names)
                if not self._is_theirs(row, has_name=has_name):
                    continue
                reports[row.pk] = row
                if has_name:
                    new |= {*row.subject_ids} - ids
            ids |= new
        if self._is_test and self.report and len(reports) >= MOST_IN_SANDBOX:
            # It may be older than these.
            reports.setdefault(self.report.pk, self.report)
        newest = sorted(reports.values(), key=lambda one: one.pk, reverse=True)
        newest.sort(key=lambda one: one.created_at, reverse=True)
        return Found(newest, self._rules(newest, ids, names), ids)

    def lock(self) -> Found:
        """Lock the person by all their numbers, and return the rows found then."""
        locked: set[UUID] = set()
        while missing := (found := self.find()).subject_ids - locked:
            # A newly found number is locked out of order. If that causes a deadlock,
            # PostgreSQL ends one transaction, and its job or visitor tries again.
            lock_person(*missing)
            locked |= missing
        return found

    def _carrying(self, ids: Collection[UUID]) -> QuerySet[Report]:
        reports = Report.objects.filter(
            workspace=self.workspace, environment=self.environment, erased_at=None
        )
        found = reports.select_related("workspace", "consent")
        if self._is_test:
            found = found.filter(carrying(ids, MOST_IN_SANDBOX))
            return found.order_by("-created_at", "-id")[:MOST_IN_SANDBOX]
        return found.filter(carrying(ids))

    def _rules(
        self, reports: Sequence[Report], ids: set[UUID], names: set[str]
    ) -> list[Rule]:
        """Return the rules with a first number in `ids`, and the rules of `reports`."""
        ordered_by = {one.monitoring_id for one in reports if one.monitoring_id}
        rules = Rule.objects.filter(
            Q(subject_id__in=ids) | Q(pk__in=ordered_by),
            workspace=self.workspace,
            environment=self.environment,
        )
        return [
            rule
            for rule in rules[: MOST_IN_SANDBOX if self._is_test else None]
            if self._is_theirs(rule, has_name=has_name_of(rule, names))
        ]

    def _is_theirs(self, row: Report | Rule, *, has_name: bool) -> bool:
        if self.proof:
            return self.proof.covers(row)
        if self.report:
            return has_name or row.subject_id == self.subject_id
        return has_name or self.subject_id in row.subject_ids


def is_held(reports: Iterable[Report]) -> bool:
    """Return whether staff hold one of these reports."""
    ids = [report.pk for report in reports]
    return Hold.objects.open(now()).filter(report__in=ids).exists()


def carrying(ids: Collection[UUID], most: int | None = None) -> Q:
    """Return the condition for reports with one of these numbers, in any place.

    `most` limits those that have it behind another number.
    """
    entries = SearchEntry.objects.filter(further_ids__overlap=list(ids))
    # PostgreSQL would read all reports for a subquery beside the other condition.
    return Q(subject_id__in=ids) | Q(
        pk__in=list(entries.values_list("pk", flat=True)[:most])
    )


def _kinds(report: Report) -> set[str]:
    subject = report.subject or {}
    return {name for name in IDENTIFIERS if subject.get(name)} or {NAME}


@transaction.atomic
def _renew_id(report: Report, subject: Subject) -> None:
    """Give a report, its rule and its requests the id that its subject has now."""
    former, row_id = report.subject_id, report.monitoring_id or report.pk
    known = subject.in_workspace(report.workspace_id, report.environment, row_id)
    if known.id == former:
        return
    lock_person(former, known.id)
    for rows in (
        Rule.objects.filter(pk=row_id),
        Report.objects.filter(pk=report.pk),
        SubjectRequest.objects.filter(report=report),
    ):
        rows.filter(subject_id=former).update(subject_id=known.id)


@job
def fill_further_ids() -> None:
    """Write the further ids of reports and objections of an older version.

    Tells namesakes apart, who shared an id there, and folds the names of these reports
    as searches do now. The older version goes on writing such rows until it is
    replaced.
    """
    entries = SearchEntry.objects.filter(further_ids=None)
    related = entries.select_related("report")
    while beat() and (some := list(related[:FILLED_AT_ONCE])):
        for entry in some:
            report = entry.report
            entry.further_ids = report.subject_ids[1:]
            subject = Subject.of(report.subject) if report.subject else None
            if subject and not subject.numbers():
                _renew_id(report, subject)
            if subject and subject.search_name != report.search_name:
                terms = Terms(report.workspace_id, report.environment)
                with transaction.atomic():
                    same = Report.objects.filter(search_name=report.search_name)
                    folded = {"search_name": subject.search_name}
                    if same.filter(pk=report.pk).update(**folded):
                        entries.filter(pk=entry.pk).update(
                            further_ids=entry.further_ids,
                            terms=terms.of(report.pk, subject, report.reference),
                        )
        # A correction may have written the row since it was read.
        entries.bulk_update(some, ["further_ids"])
    objections = SubjectRequest.objects.filter(
        kind=RequestKind.OBJECTION, further_ids=None, report__erased_at=None
    )
    for request in objections.select_related("report").iterator():
        if request.report:
            where = request.report.workspace_id, request.report.environment
            request.further_ids = objection_ids(*where, request.report.subject or {})
            request.save(update_fields=["further_ids"])
