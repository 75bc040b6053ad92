"""Requests from the page /my-data: a person asks for links to all that is held on them.

The page stores the request, whatever it names, and says the same to everybody. This
job then looks for reports in production that know both the number and the address, and
sends the links to that address alone, as each report spells it: another spelling may be
somebody else's mailbox. So the page does not disclose whether a person is known.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from verification import links
from verification.consents.links import AccessNotSendable, renew_access_link
from verification.consents.models import Consent, ConsentStatus
from verification.consents.subject_messages import CONTACT_MEMBERS
from verification.db.encryption import keyed_hash
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.notifications.recipients import address_hash, count_today
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.privacy.people import carrying
from verification.privacy.requests import answer_request, open_request
from verification.reports.hosted_links import ResendTooSoon
from verification.reports.models import Report, person_identities, subject_id
from verification.reports.status import SUBJECT_ACTOR, locked_reports
from verification.values.formats import one_line
from workspaces.models import Environment, Workspace

# For one number and address in a day: more would only fill a mailbox. For an address
# alone, strangers could use up the requests of its owner.
MOST_PER_PERSON = 3
SUBJECT_IDS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Typed:
    """The form of a person; `address` is an e-mail address, or a number in E.164."""

    country: str
    number: str
    channel: Channel
    address: str
    language: str


@transaction.atomic
def ask_for_data(typed: Typed) -> None:
    """Store the request, unless its person has had the requests of the day.

    It costs the same for people who are known here and for all others.
    """
    identity = person_identities(typed.country, typed.number)[0]
    address = address_hash(typed.channel, typed.address).hex()
    hashed = keyed_hash("my-data of a person", *identity, address).hex()
    if not count_today(f"my-data:{hashed}", MOST_PER_PERSON):
        return
    request = open_request(
        RequestKind.ACCESS,
        Origin.MY_DATA,
        requested_by=SUBJECT_ACTOR,
        details=asdict(typed) | {"channel": typed.channel.value},
    )
    schedule_job(answer_my_data, request.pk)


@job
@transaction.atomic
def answer_my_data(request_id: UUID | str) -> None:
    """Send links to the reports that the request names, and erase its details."""
    requests = SubjectRequest.objects.select_for_update(no_key=True)
    request = requests.get(pk=request_id)
    if request.answered_at or not request.details:
        return
    details = request.details
    typed = Typed(**{**details, "channel": Channel(details["channel"])})
    found = list(_links(typed))
    if found:
        notify(*_messages(request, typed, found))
    SubjectRequest.objects.filter(pk=request.pk).update(details=None)
    answer_request(request, Outcome.DONE if found else Outcome.NOTHING_FOUND)


@dataclass(frozen=True, slots=True)
class _Link:
    report: Report
    address: str
    client: str
    url: str


def _links(typed: Typed) -> Iterator[_Link]:
    """Yield a link for each client that holds a report about this person.

    It is the newest that opens data; if there is none, of a consent that waits.
    """
    known = _known_reports(typed)
    for _, rows in groupby(known, key=lambda row: row[1]):
        ids = [report_id for report_id, _ in rows]
        waiting = set(_waiting(ids))
        for report_id in sorted(ids, key=waiting.__contains__):
            report = locked_reports().get(pk=report_id)
            if url := _url(report):
                address = (report.subject or {})[CONTACT_MEMBERS[typed.channel]]
                client = one_line(report.workspace.requester.name)
                yield _Link(report, address, client, url)
                break


def _waiting(report_ids: list[UUID]) -> QuerySet[Consent, UUID]:
    """Return which of these reports wait for the consent of their subject."""
    waiting = Consent.objects.filter(
        report__in=report_ids,
        report__completed_at=None,
        status=ConsentStatus.PENDING,
    )
    return waiting.values_list("report_id", flat=True)


def _known_reports(typed: Typed) -> list[tuple[UUID, UUID]]:
    """Return (report, workspace) that know number and address, newest first.

    They are sorted by workspace, so that two jobs lock reports in the same order.
    """
    wanted = address_hash(typed.channel, typed.address)
    member = CONTACT_MEMBERS[typed.channel]
    found: list[Report] = []
    all_ids = list(_subject_ids(typed))
    for first in range(0, len(all_ids), SUBJECT_IDS_AT_ONCE):
        ids = all_ids[first : first + SUBJECT_IDS_AT_ONCE]
        reports = Report.objects.filter(
            carrying(ids), environment=Environment.PRODUCTION, erased_at=None
        )
        for report in reports.only("subject", "workspace_id", "created_at"):
            address = (report.subject or {}).get(member)
            if address and address_hash(typed.channel, address) == wanted:
                found.append(report)
    found.sort(key=lambda one: one.created_at, reverse=True)
    found.sort(key=lambda one: one.workspace_id)
    return [(one.pk, one.workspace_id) for one in found]


def _subject_ids(typed: Typed) -> Iterator[UUID]:
    identities = person_identities(typed.country, typed.number)
    for workspace_id in Workspace.objects.order_by("pk").values_list("pk", flat=True):
        for identity in identities:
            yield subject_id(workspace_id, Environment.PRODUCTION, identity)


def _url(report: Report) -> str:
    """Return the link to the data of this report's subject; "" if there is none.

    A consent that still waits keeps its link, which may be in use now.
    """
    consent = Consent.objects.filter(report=report).select_related("report").first()
    if consent is None:
        return ""
    if consent.status != ConsentStatus.PENDING or report.is_ended:
        try:
            consent = renew_access_link(report)
        except (AccessNotSendable, ResendTooSoon):
            # A link of the last minute is on its way.
            return ""
    elif consent.token_digest is None:
        # A draft whose client has not obtained a consent
        return ""
    return links.consent_url(consent.pk, consent.generation)


def _messages(
    request: SubjectRequest, typed: Typed, found: list[_Link]
) -> Iterator[OutgoingMessage]:
    """Yield an e-mail for each spelling of the address, or an SMS for each link.

    The message is erased with its report; the e-mail, with the first of its reports.
    """
    messages: list[tuple[_Link, dict[str, Any]]] = [
        (one, {"requester": one.client, "link": one.url}) for one in found
    ]
    if typed.channel == Channel.EMAIL:
        spelled: dict[str, list[_Link]] = {}
        for one in found:
            spelled.setdefault(one.address, []).append(one)
        messages = [
            (same[0], {"links": [{"client": o.client, "link": o.url} for o in same]})
            for same in spelled.values()
        ]
    for number, (first, context) in enumerate(messages):
        yield OutgoingMessage(
            Kind.MY_DATA,
            typed.channel,
            f"my-data:{request.pk}:{number}",
            first.address,
            context,
            typed.language,
            report_id=first.report.pk,
        )
