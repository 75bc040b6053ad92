"""Messages to members: their choices, and the recipients of each message.

A member chooses for each kind and environment: at once, in the daily digest, or never.
By default, members who may act get alerts, waiting decisions and notices to hand over
of production in the digest. Messages for owners go at once to the longest-standing
owner; if that owner turns them off, to the next one.

A member gets only messages about pages that the role may see, and only at an address
that the mail server has not refused for good.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from verification import links
from verification.notifications.models import Channel, Kind, RefusedAddress
from verification.notifications.outbox import OutgoingMessage, notify
from verification.notifications.recipients import address_hash
from verification.values.clock import now
from workspaces.members import Permission, has_permission, lock_workspace
from workspaces.models import (
    Environment,
    Member,
    MemberMessage,
    MessageChoice,
    MessageTime,
    MessageWindow,
    Role,
    Workspace,
)

# The permission to see the page of a message
NEEDED = dict.fromkeys(MemberMessage, Permission.SEE) | {
    MemberMessage.DECISION_WAITING: Permission.DECIDE_REPORTS,
    MemberMessage.HAND_OVER: Permission.DECIDE_REPORTS,
    MemberMessage.LOW_BALANCE: Permission.SEE_ADMINISTRATION,
    MemberMessage.WEBHOOK: Permission.SEE_ADMINISTRATION,
}
# One owner gets these at once by default.
OWNERS_KINDS = {
    MemberMessage.RULES_PAUSED,
    MemberMessage.LOW_BALANCE,
    MemberMessage.WEBHOOK,
}
# The digest of members who may act has these of production.
DIGEST_KINDS = {
    MemberMessage.DECISION_WAITING: Permission.DECIDE_REPORTS,
    MemberMessage.HAND_OVER: Permission.DECIDE_REPORTS,
    MemberMessage.ALERT: Permission.MANAGE_MONITORING,
}
# Kinds with one message for each event; `digests` gathers the others.
SENT_BY_THEIR_CAUSE = OWNERS_KINDS
# The value for the whole digest in links that turn messages off
DIGEST = "DIGEST"

Key = tuple[str, MemberMessage]


@dataclass(frozen=True, slots=True)
class Choices:
    """When the members of one workspace want each kind; all of them are active."""

    members: Sequence[Member]
    chosen: Mapping[tuple[UUID, str, str], MessageTime]

    def time(self, member: Member, environment: str, kind: MemberMessage) -> str:
        """Return when the member gets this kind, by choice or default."""
        if not has_permission(member, NEEDED[kind]):
            return MessageTime.OFF
        chosen = self.chosen.get((member.pk, environment, kind))
        return chosen or self._default(member, environment, kind)

    def wanted(self, time: MessageTime) -> dict[Key, list[Member]]:
        """Return who wants which kinds at this time, by environment and kind."""
        found: dict[Key, list[Member]] = {}
        for environment in Environment.values:
            for kind in kinds_of(environment):
                members = [
                    m for m in self.members if self.time(m, environment, kind) == time
                ]
                if members:
                    found[environment, kind] = members
        return found

    def unread(self, environment: str) -> list[MemberMessage]:
        """Return the kinds that need a reader and that nobody gets."""
        able = reachable(self.members)
        return [
            kind
            for kind in kinds_of(environment)
            if kind in OWNERS_KINDS
            and all(self.time(m, environment, kind) == MessageTime.OFF for m in able)
        ]

    def _default(
        self, member: Member, environment: str, kind: MemberMessage
    ) -> MessageTime:
        if kind in OWNERS_KINDS:
            owners = (
                m
                for m in self.members
                if m.role == Role.OWNER
                and self.chosen.get((m.pk, environment, kind)) != MessageTime.OFF
            )
            is_first = member == next(owners, None)
            return MessageTime.NOW if is_first else MessageTime.OFF
        needed = DIGEST_KINDS.get(kind)
        is_live = environment == Environment.PRODUCTION
        if needed and is_live and has_permission(member, needed):
            return MessageTime.DAILY
        return MessageTime.OFF


def kinds_of(environment: str) -> list[MemberMessage]:
    """Return the kinds of this environment: play money has no threshold."""
    is_sandbox = environment == Environment.SANDBOX
    return [k for k in MemberMessage if not (is_sandbox and k == "LOW_BALANCE")]


def choices_of(workspace_ids: Iterable[UUID]) -> dict[UUID, Choices]:
    """Return the choices in each of these workspaces that has active members."""
    ids = list(workspace_ids)
    found = Member.objects.filter(workspace__in=ids, user__is_active=True)
    members: dict[UUID, list[Member]] = defaultdict(list)
    for member in found.select_related("user", "workspace").order_by("id"):
        members[member.workspace_id].append(member)
    chosen: dict[UUID, dict[tuple[UUID, str, str], MessageTime]] = defaultdict(dict)
    rows = MessageChoice.objects.filter(member__workspace__in=ids)
    for row in rows.annotate(workspace_id=F("member__workspace")):
        key = row.member_id, row.environment, row.kind
        chosen[row.workspace_id][key] = MessageTime(row.time)
    return {pk: Choices(own, chosen[pk]) for pk, own in members.items()}


@transaction.atomic
def choose(member: Member, environment: str, times: Mapping[str, str]) -> None:
    """Set when the member gets each of these kinds.

    Messages go out again to an address that has refused some.
    """
    # Serial, so that each kind that somebody wants at once has its window.
    lock_workspace(member.workspace_id)
    for kind, time in times.items():
        MessageChoice.objects.update_or_create(
            member=member, environment=environment, kind=kind, defaults={"time": time}
        )
        if time == MessageTime.NOW and kind not in SENT_BY_THEIR_CAUSE:
            # Earlier events are no news, so the window begins now. The lock is needed
            # as a job deletes the windows of unwanted kinds.
            MessageWindow.objects.select_for_update().get_or_create(
                workspace_id=member.workspace_id,
                environment=environment,
                kind=kind,
                defaults={"told_until": now()},
            )
    _refusals([member]).delete()


def turn_off(member: Member, what: str) -> None:
    """Turn off what the link of a message names: a kind, or all of the digest."""
    choices = choices_of([member.workspace_id])[member.workspace_id]
    for environment in Environment.values:
        kinds = kinds_of(environment)
        off = [k for k in kinds if what == off_name(environment, k)]
        if what == DIGEST:
            off = [
                k
                for k in kinds
                if choices.time(member, environment, k) == MessageTime.DAILY
            ]
        if off:
            choose(member, environment, dict.fromkeys(off, MessageTime.OFF))


def off_name(environment: str, kind: str) -> str:
    """Return the name of one kind in links, such as `production-REPORT_READY`."""
    return f"{environment}-{kind}"


def is_off_link(token: str, member: Member, what: str) -> bool:
    """Return whether this is the token of a link of `links_of`."""
    return links.is_token(token, _purpose(what), member.pk)


def links_of(member: Member, what: str, environment: str) -> dict[str, str]:
    """Return the links of a message for its template and its headers."""
    token = links.token(_purpose(what), member.pk, 1)
    return {
        "choicesUrl": links.console_url("messages", member.workspace_id, environment),
        "offUrl": links.console_url("messages-off", member.pk, what, token),
    }


def _purpose(what: str) -> str:
    return f"messages-off:{what}"


def reachable(members: Iterable[Member]) -> list[Member]:
    """Return the members whose addresses have not refused a message for good."""
    found = list(members)
    refused = {bytes(row.address_hash) for row in _refusals(found)}
    return [m for m in found if _address_hash(m) not in refused]


def _refusals(members: Iterable[Member]) -> QuerySet[RefusedAddress]:
    hashes = [_address_hash(member) for member in members]
    return RefusedAddress.objects.filter(address_hash__in=hashes)


def has_refused(member: Member) -> bool:
    """Return whether the member's address has refused a message for good."""
    return not reachable([member])


def _address_hash(member: Member) -> bytes:
    return address_hash(Channel.EMAIL, member.user.email)


def notify_members(
    workspace: Workspace,
    environment: str,
    wish: MemberMessage,
    kind: Kind,
    cause: str,
    context: dict[str, Any],
) -> None:
    """Send an e-mail of this kind to each member who wants it at once.

    A workspace that nobody has joined yet gets it at the address of its future owner.
    """

    def write(recipient: str, cause: str, **links: str) -> OutgoingMessage:
        return OutgoingMessage(
            kind,
            Channel.EMAIL,
            cause,
            recipient,
            {"workspace": workspace.name, **context, **links},
            workspace_id=workspace.pk,
            sandbox=environment == Environment.SANDBOX,
        )

    choices = choices_of([workspace.pk]).get(workspace.pk)
    if choices is None:
        notify(write(workspace.contact_email, cause))
        return
    members = choices.wanted(MessageTime.NOW).get((environment, wish), [])
    what = off_name(environment, wish)
    notify(
        *(
            write(m.user.email, f"{cause}:{m.pk}", **links_of(m, what, environment))
            for m in reachable(members)
        )
    )
