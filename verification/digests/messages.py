"""Send news to members by their choice: at once, or in a daily digest.

At once means within three minutes. One message has the news of a minute, and the next
message of its kind waits for ten minutes: 500 reports of a batch are one message.
`MessageWindow` has a row for each kind that a member wants at once, so the job reads
nothing for other workspaces.

The digest is written at seven in Nairobi. The outbox takes one for a member and day,
even if the job runs again or is killed.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import OuterRef, Q, Value
from django.db.models.functions import Greatest

from verification.digests.news import (
    Counts,
    Period,
    first_moment,
    page_url,
    row_urls,
)
from verification.jobs.queue import beat, job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.values.clock import now
from verification.values.local_time import NAIROBI, utc_text
from workspaces.member_messages import (
    DIGEST,
    choices_of,
    links_of,
    off_name,
    reachable,
)
from workspaces.models import (
    DigestDay,
    Environment,
    Member,
    MemberMessage,
    MessageTime,
    MessageWindow,
    Workspace,
)

# A transaction that ends a report commits within this time.
COMMIT_DELAY = timedelta(seconds=30)
GATHER = timedelta(minutes=1)
REST = timedelta(minutes=10)
# Older news are no news, such as those of the time when a workspace was suspended.
LONGEST_WINDOW = timedelta(days=1)
LONGEST_QUIET = timedelta(hours=1)
LONGEST_DIGEST = timedelta(days=7)
MORNING = time(7, tzinfo=NAIROBI)
DIGEST_DAYS_KEPT = timedelta(days=30)
WORKSPACES_AT_ONCE = 200


@job
def send_news() -> None:
    """Send news to the members who want them at once. Jobs may run in parallel."""
    until = now() - COMMIT_DELAY
    for kind in MessageWindow.objects.values_list("kind", flat=True).distinct():
        windows = _windows(MemberMessage(kind), until)
        due = windows.filter(first_at__lte=until - GATHER)
        for pk in list(due.values_list("pk", flat=True)):
            if not beat():
                return
            _send_window(due, pk, until)
        # Move quiet windows, so that the next query has little to read.
        quiet = windows.filter(first_at=None, told_until__lt=until - LONGEST_QUIET)
        ids = list(quiet.values_list("pk", flat=True))
        if ids:
            MessageWindow.objects.filter(pk__in=ids).update(told_until=until)


def _windows(kind: MemberMessage, until: datetime) -> Any:
    """Return the windows that do not rest, with the time of their first news."""
    since = Greatest(OuterRef("told_until"), Value(until - LONGEST_WINDOW))
    resting = Q(rests_until__gt=until + COMMIT_DELAY)
    active = MessageWindow.objects.filter(kind=kind, workspace__suspended_at=None)
    first = first_moment(kind, Period(since, until))
    return active.exclude(resting).annotate(first_at=first)


@transaction.atomic
def _send_window(due: Any, pk: UUID, until: datetime) -> None:
    locked = due.select_for_update(skip_locked=True, of=("self",))
    window = locked.select_related("workspace").filter(pk=pk).first()
    if window is None:
        # Another job has sent it, or does so now.
        return
    key = window.environment, MemberMessage(window.kind)
    choices = choices_of([window.workspace_id]).get(window.workspace_id)
    members = choices.wanted(MessageTime.NOW).get(key, []) if choices else []
    if not members:
        window.delete()
        return
    period = Period(max(window.told_until, until - LONGEST_WINDOW), until)
    MessageWindow.objects.filter(pk=pk).update(
        told_until=until, rests_until=until + COMMIT_DELAY + REST
    )
    notify(*_news(window, reachable(members), period))


def _news(
    window: MessageWindow, members: Sequence[Member], period: Period
) -> list[OutgoingMessage]:
    kind, environment = MemberMessage(window.kind), window.environment
    counts = Counts(kind, [window.workspace_id], period)
    return [
        OutgoingMessage(
            Kind.MEMBER_NEWS,
            Channel.EMAIL,
            cause=f"news:{window.pk}:{utc_text(period.until)}:{member.pk}",
            recipient=member.user.email,
            context={
                "workspace": window.workspace.name,
                "line": _line(kind, member, environment, count),
                "urls": (urls := row_urls(kind, member, environment, period)),
                "more": count - len(urls),
                **links_of(member, off_name(environment, kind), environment),
            },
            workspace_id=window.workspace_id,
            sandbox=environment == Environment.SANDBOX,
        )
        for member in members
        if (count := counts.of(member, environment))
    ]


def _line(
    kind: MemberMessage, member: Member, environment: str, count: int
) -> dict[str, Any]:
    """Return a line of a message: how much of what, and where."""
    return {
        "kind": kind.value,
        "environment": environment,
        "count": count,
        "url": page_url(kind, member, environment),
    }


@job
def send_digests() -> None:
    """Send the digests of today from seven o'clock on, once for each day."""
    local = now().astimezone(NAIROBI)
    until = datetime.combine(local.date(), MORNING).astimezone(UTC)
    if local < until + COMMIT_DELAY:
        return
    done = DigestDay.objects.order_by("-day").first()
    if done and done.day >= local.date():
        return
    yesterday = until - timedelta(days=1)
    since = max(done.until, until - LONGEST_DIGEST) if done else yesterday
    active = Workspace.objects.filter(suspended_at=None).order_by("id")
    workspaces = list(active.values_list("pk", flat=True))
    for start in range(0, len(workspaces), WORKSPACES_AT_ONCE):
        beat()
        some = workspaces[start : start + WORKSPACES_AT_ONCE]
        _send_digests(some, Period(since, until), local.date())
    DigestDay.objects.get_or_create(day=local.date(), defaults={"until": until})
    DigestDay.objects.filter(day__lt=local.date() - DIGEST_DAYS_KEPT).delete()


@transaction.atomic
def _send_digests(workspace_ids: Sequence[UUID], period: Period, day: date) -> None:
    wanted = [
        (member, environment, kind)
        for choices in choices_of(workspace_ids).values()
        for (environment, kind), members in choices.wanted(MessageTime.DAILY).items()
        for member in members
    ]
    counts = {
        kind: Counts(kind, {m.workspace_id for m, _, k in wanted if k == kind}, period)
        for kind in {kind for _, _, kind in wanted}
    }
    lines: dict[Member, list[dict[str, Any]]] = {}
    for member, environment, kind in wanted:
        if count := counts[kind].of(member, environment):
            line = _line(kind, member, environment, count)
            lines.setdefault(member, []).append(line)
    notify(*(_digest(m, lines[m], period, day) for m in reachable(lines)))


def _digest(
    member: Member, lines: Sequence[dict[str, Any]], period: Period, day: date
) -> OutgoingMessage:
    own = {e: [one for one in lines if one["environment"] == e] for e in Environment}
    sandbox, production = own[Environment.SANDBOX], own[Environment.PRODUCTION]
    place = Environment.PRODUCTION if production else Environment.SANDBOX
    return OutgoingMessage(
        Kind.MEMBER_DIGEST,
        Channel.EMAIL,
        # The outbox takes one message of a cause.
        cause=f"digest:{member.pk}:{day}",
        recipient=member.user.email,
        context={
            "workspace": member.workspace.name,
            "happenedAt": utc_text(period.since),
            "lines": production,
            "sandboxLines": sandbox,
            **links_of(member, DIGEST, place),
        },
        workspace_id=member.workspace_id,
        sandbox=not production,
    )
