"""Staff's help for members and colleagues who can no longer log in."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from verification.backoffice.roles import is_superuser
from verification.db.base import run_sql
from verification.db.encryption import keyed_hash
from verification.notifications.models import Kind
from verification.notifications.outbox import notify_account_holder

TAKEN = "Somebody has this address already."


class AddressChangeRefused(Exception):
    """The address of this person stays; the message says why."""


def unconfirmed_users() -> QuerySet[User]:
    """Return users without a confirmed address or a login: anybody can make them.

    Staff and members of workspaces are none.
    """
    unused = User.objects.filter(
        is_staff=False, is_superuser=False, last_login=None, memberships=None
    )
    return unused.exclude(emailaddress__verified=True)


def lock_address(email: str) -> None:
    """Let those who get or confirm this address wait for each other until the commit.

    The order of locks is: the row of the user who gets it, the rows of users who have
    only signed up with it, the address, then the workspace.
    """
    signed_up = unconfirmed_users().filter(email__iexact=email.strip())
    list(signed_up.select_for_update(of=("self",), no_key=True).order_by("pk"))
    name = keyed_hash("address of a login", email.strip().lower()).hex()
    run_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def has_account(email: str, *, besides: int = 0) -> bool:
    """Return whether somebody has proved to read this address, or works with it.

    The user with the id `besides` does not count.
    """
    users = User.objects.filter(
        Q(email__iexact=email)
        | Q(emailaddress__email__iexact=email, emailaddress__verified=True)
    )
    others = users.exclude(pk=besides)
    return others.exclude(pk__in=unconfirmed_users()).exists()


def validate_free_address(email: str) -> str:
    """Return the address in lower case. Raises ValidationError if a user has it."""
    email = email.strip().lower()
    if has_account(email):
        raise ValidationError(TAKEN)
    return email


def free_address(email: str) -> None:
    """Delete what strangers may have asked for with an address that has no account."""
    unconfirmed_users().filter(email__iexact=email).delete()
    EmailAddress.objects.filter(email__iexact=email, verified=False).delete()


def remove_second_factors(user: User) -> None:
    """Remove all factors, end all sessions, and notify the user."""
    Authenticator.objects.filter(user=user.pk).delete()
    user.sessions.all().delete()
    notify_account_holder(Kind.ACCOUNT_CHANGED, user.email, what="factor-off")


def address_change_refusal(user: User) -> str:
    """Return why one superuser must not change the address of this colleague.

    Without a second factor, the reader of the new mailbox takes over the account. The
    reason is empty for members, and for colleagues who have not accepted an invitation.
    """
    if not user.is_staff or Authenticator.objects.filter(user=user.pk).exists():
        return ""
    if not is_superuser(user) and user.last_login is None:
        return ""
    return "They have no second factor now, so only the operator changes their address."


@transaction.atomic
def change_address(user_id: int, email: str) -> User:
    """Change the address, end all sessions, and notify the old address.

    A link at the next login confirms the new address. Raises AddressChangeRefused.
    """
    user = User.objects.select_for_update(no_key=True).get(pk=user_id)
    lock_address(email)
    if refusal := address_change_refusal(user):
        raise AddressChangeRefused(refusal)
    if has_account(email):
        raise AddressChangeRefused(TAKEN)
    # The approver of an open request knew the old address.
    user.staff_requests.all().delete()
    notify_account_holder(Kind.ACCOUNT_CHANGED, user.email, what="email")
    free_address(email)
    user.email = email
    user.save(update_fields=["email"])
    EmailAddress.objects.filter(user=user.pk).delete()
    EmailAddress.objects.create(user_id=user.pk, email=user.email, primary=True)
    user.sessions.all().delete()
    return user
