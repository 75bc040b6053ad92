"""People who log in, and what they are in a workspace."""

from django.contrib.auth.models import User

from verification.notifications.models import Kind, Notification
from workspaces.models import Member, Role, Workspace

PASSWORD = "seven quiet giraffes"


def somebody(name: str, **fields) -> User:
    email = f"{name}@people.test"
    return User.objects.create_user(name, email, PASSWORD, **fields)


def member(workspace: Workspace, role: str, name: str | None = None) -> Member:
    user = somebody(name or role.lower())
    return Member.objects.create(workspace=workspace, user=user, role=Role(role))


def token_sent_to(email: str) -> str:
    """Of the newest invitation."""
    sent = Notification.objects.filter(kind=Kind.INVITATION).order_by("-id")
    url = next(n.context["url"] for n in sent if n.recipient == email)
    return url.rpartition("/")[2]
