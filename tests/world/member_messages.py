"""What members choose to get, and what they got."""

from typing import Any

from verification.digests.messages import send_news
from verification.notifications.models import Kind, Notification
from workspaces import member_messages
from workspaces.models import Member


def choose(member: Member, environment: str = "production", **times: str) -> None:
    """Choose as the form does: `choose(member, ALERT="NOW")`."""
    member_messages.choose(member, environment, times)


def messages_to(member: Member, *kinds: Kind) -> list[Notification]:
    found = Notification.objects.filter(kind__in=kinds or Kind.values).order_by("id")
    return [one for one in found if one.recipient == member.user.email]


def news_of(member: Member) -> list[tuple[str, int]]:
    """Return (kind, count) of each message about news, after the job has run."""
    send_news()
    lines: list[Any] = [
        one.context["line"] for one in messages_to(member, Kind.MEMBER_NEWS)
    ]
    return [(line["kind"], line["count"]) for line in lines]
