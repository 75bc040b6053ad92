"""People who log in, and members of workspaces."""

from django.contrib.auth.models import User

from verification.notifications.models import Kind, Notification
from workspaces.models import Member, Role, Workspace

PASSWORD = "seven quiet giraffes"


def create_user(name: str, **fields) -> User:
    email = f"{name}@people.test"
    return User.objects.create_user(name, email, PASSWORD, **fields)


def create_member(workspace: Workspace, role: str, name: str | None = None) -> Member:
    user = create_user(name or role.lower())
    return Member.objects.create(workspace=workspace, user=user, role=Role(role))


def invitation_token(email: str) -> str:
    """Return the token of the newest invitation to this address."""
    sent = Notification.objects.filter(kind=Kind.INVITATION).order_by("-id")
    url = next(n.context["url"] for n in sent if n.recipient == email)
    return url.rpartition("/")[2]
