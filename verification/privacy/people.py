"""People: what proves that a row is about somebody, and how their rows are found.

Two questions, two answers:

- Clients and staff speak for a number. `Person.of(report)` is everybody whom they
  named by it.
- A visitor of a link has proved the report of the link, and the address to which the
  code of the visit went. Name, number and date of birth prove nothing: everybody who
  has seen the ID card knows them. `Proof.covers` says which rows follow, and
  `privacy.joins` asks the client or staff about rows without an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from monitoring.models import Rule
from verification.consents.decisions import ACCEPTED_LIKENESSES
from verification.consents.messages import CONTACT_MEMBERS, addresses_of
from verification.db.encryption import keyed_hash
from verification.notifications.models import Channel
from verification.privacy.models import Hold, Outcome, SubjectRequest
from verification.providers.name_comparison import names_alike
from verification.reports.models import Report
from verification.reports.objections import Named
from verification.values.clock import now
from workspaces.models import Environment, Workspace


def may_be_same_person(report: Report, other: Named) -> bool:
    """Return whether a row with the same number could be about this report's person.

    A client may have typed the number of somebody else: names have to be alike, and
    dates of birth the same. Somebody who knows all these of another person has another
    address, so a row with an address shares one with the report. A row without one has
    the same date of birth in its place, if the report has an address. Rules seldom have
    an address, and need neither. This is enough to ask for a newer consent, and to ask
    the client; what a visitor may see or end needs a `Proof`.
    """
    if report == other:
        return True
    mine, theirs = _addresses(report), _addresses(other)
    if theirs and mine.isdisjoint(theirs):
        return False
    born = [(one.subject or {}).get("dateOfBirth") for one in (report, other)]
    if all(born) and born[0] != born[1]:
        return False
    needs_birth = mine and not theirs and not isinstance(other, Rule)
    if needs_birth and not all(born):
        return False
    names = report.subject_name, other.subject_name
    return names[0] == names[1] or names_alike(*names) in ACCEPTED_LIKENESSES


def _addresses(row: Named) -> set[str]:
    return {address.casefold() for _, address in addresses_of(row.subject or {})}


@dataclass(frozen=True, slots=True)
class Proof:
    """What the visitor of a report's link has proved to be theirs.

    `address` is the one that received the code of the visit; "" if there was no code.
    `is_confirmed` says that the client or staff have confirmed the person.
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

        The link proves its own report, and the rule that ordered it. Another row has
        the proved address, or none of the person's and their confirmation. An address
        that the report has beside the proved one proves nothing: a thief may have
        ordered it with their own and that of the victim.
        """
        report = self.report
        if report == other:
            return True
        if isinstance(other, Rule) and other.pk == report.monitoring_id:
            return True
        if not may_be_same_person(report, other):
            return False
        if theirs := _addresses(other):
            return self.address.casefold() in theirs
        return self.is_confirmed


def proved_address(report: Report, channel: str) -> str:
    """Return the subject's address behind a channel by which they got a code.

    The sandbox sends codes to few addresses. There the report's address counts without
    one, so that its pages show what those of production will.
    """
    subject: Mapping[str, Any] = report.subject or {}
    if channel:
        return str(subject.get(CONTACT_MEMBERS[Channel(channel)]) or "")
    known = addresses_of(subject)
    is_test = report.environment == Environment.SANDBOX
    return known[0][1] if known and is_test else ""


def address_digest(address: str) -> bytes:
    """Return the keyed hash under which a request remembers the proved address."""
    return keyed_hash("proved-address", address.casefold())


def _is_confirmed(report: Report, address: str) -> bool:
    """Return whether the client or staff have confirmed the person at this address."""
    confirmed = SubjectRequest.objects.filter(
        workspace=report.workspace_id,
        environment=report.environment,
        subject_id=report.subject_id,
        outcome=Outcome.DONE,
        proved_address=address_digest(address),
    )
    return any(
        one.report == report
        or (address and one.report and may_be_same_person(one.report, report))
        for one in confirmed.select_related("report")
    )


@dataclass(frozen=True, slots=True)
class Person:
    """The subject of reports in one workspace and environment.

    Without a `proof` these are all that have the number, for clients and staff. With
    one, they are what it covers.
    """

    workspace: Workspace
    environment: str
    subject_id: UUID
    proof: Proof | None = None

    @classmethod
    def of(cls, report: Report, proof: Proof | None = None) -> Person:
        return cls(report.workspace, report.environment, report.subject_id, proof)

    def has(self, row: Named) -> bool:
        """Return whether a row with the number is about this person."""
        return self.proof is None or self.proof.covers(row)

    def reports(self) -> list[Report]:
        """Return the reports about the person that are not erased."""
        rows = self._with_number(Report.objects.filter(erased_at=None))
        return [report for report in rows if self.has(report)]

    def rules(self) -> list[Rule]:
        return [rule for rule in self._with_number(Rule.objects) if self.has(rule)]

    def is_held(self) -> bool:
        """Return whether staff hold a report about the person."""
        reports = [report.pk for report in self.reports()]
        return Hold.objects.open(now()).filter(report__in=reports).exists()

    def _with_number(self, rows: Any) -> Any:
        return rows.filter(
            workspace=self.workspace,
            environment=self.environment,
            subject_id=self.subject_id,
        )
