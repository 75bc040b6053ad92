"""Staff: invitations, roles and access of colleagues, which superusers manage."""

import re
import secrets
from collections.abc import Iterable
from datetime import timedelta

from allauth.account.models import EmailAddress
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from verification import links
from verification.accounts.models import Colleague, StaffInvitation, StaffRequest
from verification.backoffice.approvals import (
    NOT_SECOND_PERSON,
    DecisionRefused,
    is_second_person,
)
from verification.backoffice.roles import SUPERUSER, is_superuser
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import (
    OutgoingMessage,
    cancel,
    notify,
    notify_account_holder,
)
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.logins import free_address, remove_second_factors

INVITATION_LIFETIME = timedelta(days=7)
# A request that nobody approves within this time ends.
REQUEST_LIFETIME = timedelta(days=1)
# Leaves room in `AuditEvent.actor` for the number of a taken name.
MAX_USERNAME_LENGTH = 100


class StaffChangeRefused(DecisionRefused):
    """A change of staff is refused; the text tells staff why."""


def superusers() -> QuerySet[User]:
    """Return the users who manage staff, also those who have no password."""
    has_role = User.groups.through.objects.filter(
        user=OuterRef("pk"), group__name=SUPERUSER
    )
    staff = User.objects.filter(is_active=True, is_staff=True)
    return staff.filter(Q(is_superuser=True) | Exists(has_role))


def lock_superusers() -> None:
    """Lock the superusers, so that changes of staff run one after another."""
    list(superusers().select_for_update(of=("self",), no_key=True).order_by("pk"))


@transaction.atomic
def add(email: str, name: str, roles: Iterable[Group], *, by: User) -> Colleague:
    """Create a colleague without a password and send an invitation.

    All superusers get a mail: one of them could be both persons of an approval with a
    second mailbox.
    """
    free_address(email)
    user = Colleague(
        username=make_username(email), email=email, first_name=name, is_staff=True
    )
    user.set_unusable_password()
    user.save()
    set_roles(user, roles)
    EmailAddress.objects.create(user=user, email=email, primary=True)
    invite(user, by=by)
    _notify_superusers(user, by, "added", also="")
    return user


def set_roles(user: User, roles: Iterable[Group]) -> None:
    """Set the roles, and the superuser flag along with the Superuser role."""
    chosen = list(roles)
    user.groups.set(chosen)
    user.is_superuser = any(role.name == SUPERUSER for role in chosen)
    user.save(update_fields=["is_superuser"])


def follow_groups(user: User, names: Iterable[str]) -> bool:
    """Set the roles that an identity provider grants. Returns whether they changed.

    Without a role the user is no colleague any more. The caller has locked the user.
    """
    roles = list(Group.objects.filter(name__in=list(names)))
    if user.is_staff == bool(roles) and set(user.groups.all()) == set(roles):
        return False
    withdraw_invitation(user)
    user.is_staff = bool(roles)
    user.save(update_fields=["is_staff"])
    if not roles:
        user.user_permissions.clear()
    set_roles(user, roles)
    return True


@transaction.atomic
def invite(user: User, *, by: User) -> None:
    """Send a link that works for a week; an earlier link stops working.

    Raises StaffChangeRefused if the colleague has a password already.
    """
    # The colleague who accepts an invitation locks it before the user.
    list(StaffInvitation.objects.filter(user=user).select_for_update())
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if user.has_usable_password():
        raise StaffChangeRefused(
            "They have joined already, and can ask for another password."
        )
    withdraw_invitation(user)
    token = secrets.token_urlsafe(32)
    invitation = StaffInvitation.objects.create(
        user=user,
        token_digest=links.digest(token),
        expires_at=now() + INVITATION_LIFETIME,
    )
    notify(
        OutgoingMessage(
            Kind.STAFF_INVITATION,
            Channel.EMAIL,
            cause=_cause(invitation),
            recipient=user.email,
            context={
                "name": user.get_full_name(),
                "by": by.get_full_name() or by.get_username(),
                "url": f"{settings.BASE_URL}/accounts/join/{token}/",
                "expiresAt": utc_text(invitation.expires_at),
            },
        )
    )


def withdraw_invitation(user: User) -> None:
    for invitation in StaffInvitation.objects.filter(user=user):
        cancel(_cause(invitation))
        invitation.delete()


def find_invited(token: str) -> User | None:
    """Return the colleague of a link that works, with the invitation locked."""
    invitations = StaffInvitation.objects.select_related("user").filter(
        token_digest=links.digest(token), expires_at__gt=now(), user__is_active=True
    )
    invitation = invitations.select_for_update(of=("self",)).first()
    # "Forgot your password?" sets a password, too, and ends the invitation.
    if invitation is None or invitation.user.has_usable_password():
        return None
    return invitation.user


def accept_invitation(user: User, password: str) -> None:
    """Set the password, in the transaction of `find_invited`."""
    user.set_password(password)
    user.save(update_fields=["password"])
    StaffInvitation.objects.filter(user=user).delete()
    # The link was sent to this address, so it is confirmed.
    EmailAddress.objects.update_or_create(
        user=user, email=user.email, defaults={"verified": True, "primary": True}
    )


@transaction.atomic
def deactivate(user: User, *, by: User) -> None:
    """End the access of a colleague. Raises StaffChangeRefused.

    The database voids the password of an inactive user (`accounts_void_password`). A
    user of an identity provider has none: this ends their sessions for good.
    """
    require_another_superuser(user, by=by)
    withdraw_invitation(user)
    user.is_active = False
    user.save(update_fields=["is_active"])
    user.sessions.all().delete()


@transaction.atomic
def remove_factor(user: User, *, by: User, reason: str) -> bool:
    """Remove the second factor if another superuser requests it, or else request it.

    Returns whether it is removed. Raises StaffChangeRefused.
    """
    if user.pk == by.pk:
        raise StaffChangeRefused("Remove your own where you have set it up.")
    user = _lock_user(user, by=by)
    if not is_mfa_enabled(user):
        raise StaffChangeRefused("They have no second factor.")
    kind = StaffRequest.Kind.FACTOR_REMOVAL
    if _request_or_approve(kind, user, by=by, reason=reason):
        remove_second_factors(user)
        return True
    notify_account_holder(Kind.ACCOUNT_CHANGED, user.email, what="factor-asked")
    return False


@transaction.atomic
def promote(user: User, *, by: User, reason: str) -> bool:
    """Make a superuser if another superuser requests it, or else request it.

    A superuser who could promote alone could create a second account and approve their
    own requests. `createsuperuser` makes the first two.

    Returns whether it is done. Raises StaffChangeRefused.
    """
    user = _lock_user(user, by=by)
    if is_superuser(user):
        raise StaffChangeRefused("They are a superuser already.")
    # Without a factor, the mailbox alone gives access to the account.
    if not (user.has_usable_password() and is_mfa_enabled(user)):
        raise StaffChangeRefused("They have to join and set up a second factor first.")
    kind = StaffRequest.Kind.PROMOTION
    is_done = _request_or_approve(kind, user, by=by, reason=reason)
    if is_done:
        set_roles(user, [*user.groups.all(), Group.objects.get(name=SUPERUSER)])
        # An identity provider may have opened them, and logs in no superuser.
        user.sessions.all().delete()
    what = "promoted" if is_done else "promotion-asked"
    _notify_superusers(user, by, what, also=user.email)
    return is_done


def _notify_superusers(user: User, by: User, what: str, *, also: str) -> None:
    """Send a mail about a colleague to `also` and all superusers, who can undo it."""
    for email in sorted({also, *superusers().values_list("email", flat=True)}):
        if email:
            notify_account_holder(
                Kind.ACCOUNT_CHANGED,
                email,
                what=what,
                by=by.get_full_name() or by.get_username(),
                name=user.get_full_name() or user.get_username(),
                theirAddress=user.email,
                happenedAt=utc_text(now()),
            )


def _lock_user(user: User, *, by: User) -> User:
    """Lock the superusers and the user, and return the user as the database has them.

    Raises StaffChangeRefused if `by` is no superuser, or if the user is deactivated.
    """
    lock_superusers()
    if not superusers().filter(pk=by.pk).exists():
        raise StaffChangeRefused("You are no longer a superuser.")
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if not user.is_active:
        raise StaffChangeRefused("They are deactivated.")
    return user


def _request_or_approve(
    kind: StaffRequest.Kind, user: User, *, by: User, reason: str
) -> bool:
    """Approve another superuser's request, or record one if there is none.

    Returns whether it is approved. The caller has locked the user. Raises
    StaffChangeRefused if `by` is no second person.
    """
    request = find_request(kind, user)
    if request is None:
        fields = {
            "requested_by_user": by.pk,
            "requested_by": by.get_username(),
            "reason": reason,
            "email": user.email,
            "created_at": now(),
        }
        StaffRequest.objects.update_or_create(user=user, kind=kind, defaults=fields)
        return False
    if not is_second_person(by.pk, [request.requested_by_user]):
        raise StaffChangeRefused(NOT_SECOND_PERSON)
    request.delete()
    return True


def find_request(kind: StaffRequest.Kind, user: User) -> StaffRequest | None:
    """Return the request that another superuser may approve.

    A request ends with its lifetime, when the user's address changes, and when the
    requester is a superuser no more.
    """
    return StaffRequest.objects.filter(
        user=user,
        kind=kind,
        email=user.email,
        created_at__gt=now() - REQUEST_LIFETIME,
        requested_by_user__in=superusers().values("pk"),
    ).first()


@transaction.atomic
def reactivate(user: User, *, by: User) -> None:
    """Restore the access of a colleague, who gets an invitation for a new password.

    A former superuser does not get that role back, which takes two superusers.
    """
    lock_superusers()
    user.is_active = True
    user.save(update_fields=["is_active"])
    set_roles(user, user.groups.exclude(name=SUPERUSER))
    invite(user, by=by)


def require_another_superuser(user: User, *, by: User) -> None:
    """Raise StaffChangeRefused for oneself, and for the last superuser."""
    lock_superusers()
    if user.pk == by.pk:
        raise StaffChangeRefused(
            "You cannot end your own access: ask another superuser."
        )
    is_one = superusers().filter(pk=user.pk).exists()
    others = superusers().exclude(pk=user.pk)
    # A superuser without a password may have no way in.
    able = others.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX)
    if is_one and not able.exists():
        raise StaffChangeRefused("This is the last superuser: name another one first.")


def make_username(email: str) -> str:
    """Return the part of the address before the @, with a number if it is taken."""
    part = re.sub(r"[^a-z0-9._-]", "", email.partition("@")[0].lower()) or "staff"
    name, number = part[:MAX_USERNAME_LENGTH], 1
    while User.objects.filter(username=name).exists():
        number += 1
        name = f"{part[:MAX_USERNAME_LENGTH]}-{number}"
    return name


def _cause(invitation: StaffInvitation) -> str:
    return f"staff-invitation:{invitation.pk}"
