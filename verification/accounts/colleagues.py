"""Staff: superusers add colleagues, who join by an invitation, and end their access."""

from __future__ import annotations

import hashlib
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
from django.utils.timezone import now

from verification.accounts.models import (
    Colleague,
    FactorRemoval,
    Promotion,
    StaffInvitation,
)
from verification.backoffice.roles import SUPERUSER, is_superuser
from verification.notifications.models import BILINGUAL, Channel, Kind
from verification.notifications.outbox import (
    OutgoingMessage,
    cancel,
    notify,
    notify_account_holder,
)
from verification.values.wire import utc_text
from workspaces.people import remove_second_factors

INVITATION_LIFETIME = timedelta(days=7)
# How long a superuser has to agree to what another one asks.
AGREEMENT_PERIOD = timedelta(days=1)
# Of the name that the audit trail knows a colleague by.
MAX_USERNAME_LENGTH = 100


class StaffChangeRefused(Exception):
    """Nothing was changed; the text says why."""


def superusers() -> QuerySet[User]:
    """Return everybody who can log in and manage staff."""
    has_role = User.groups.through.objects.filter(
        user=OuterRef("pk"), group__name=SUPERUSER
    )
    staff = User.objects.filter(is_active=True, is_staff=True)
    able = staff.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX)
    return able.filter(Q(is_superuser=True) | Exists(has_role))


def lock_superusers() -> None:
    """Wait, in a transaction, until nobody else changes who manages staff."""
    list(superusers().select_for_update(of=("self",), no_key=True).order_by("pk"))


@transaction.atomic
def add(email: str, name: str, roles: Iterable[Group], *, by: User) -> Colleague:
    """Create a colleague without a password and send an invitation."""
    user = Colleague(
        username=_make_username(email), email=email, first_name=name, is_staff=True
    )
    user.set_unusable_password()
    user.save()
    set_roles(user, roles)
    EmailAddress.objects.create(user=user, email=email, primary=True)
    invite(user, by=by)
    return user


def set_roles(user: User, roles: Iterable[Group]) -> None:
    """Set the roles; the flag of a superuser says the same as the role."""
    chosen = list(roles)
    user.groups.set(chosen)
    user.is_superuser = any(role.name == SUPERUSER for role in chosen)
    user.save(update_fields=["is_superuser"])


@transaction.atomic
def invite(user: User, *, by: User) -> None:
    """Send a link that works for a week; an earlier one stops working.

    Raises Refused if the colleague has a password already.
    """
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if user.has_usable_password():
        raise StaffChangeRefused(
            "They have joined already, and can ask for another password."
        )
    withdraw_invitation(user)
    token = secrets.token_urlsafe(32)
    invitation = StaffInvitation.objects.create(
        user=user, token_digest=_digest(token), expires_at=now() + INVITATION_LIFETIME
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
                "operator": settings.OPERATOR_NAME,
            },
            # Nobody knows yet which language is read.
            language=BILINGUAL,
        )
    )


def withdraw_invitation(user: User) -> None:
    for invitation in StaffInvitation.objects.filter(user=user):
        cancel(_cause(invitation))
        invitation.delete()


def find_invited(token: str) -> User | None:
    """Return the colleague whose link this is, while it works."""
    waiting = StaffInvitation.objects.select_related("user").filter(
        token_digest=_digest(token), expires_at__gt=now(), user__is_active=True
    )
    invitation = waiting.select_for_update(of=("self",)).first()
    # Who has come by "Forgot your password?" needs no invitation any more.
    if invitation is None or invitation.user.has_usable_password():
        return None
    return invitation.user


def accept_invitation(user: User, password: str) -> None:
    """Set the password, once, in the transaction of `invited_by_link`."""
    user.set_password(password)
    user.save(update_fields=["password"])
    StaffInvitation.objects.filter(user=user).delete()
    # The link has come by this address.
    EmailAddress.objects.update_or_create(
        user=user, email=user.email, defaults={"verified": True, "primary": True}
    )


@transaction.atomic
def deactivate(user: User, *, by: User) -> None:
    """End the access of a colleague. Raises Refused.

    The database voids the password of an inactive user (`accounts_void_password`), and
    with it the user's sessions, for good.
    """
    require_another_superuser(user, by=by)
    withdraw_invitation(user)
    user.is_active = False
    user.save(update_fields=["is_active"])


@transaction.atomic
def remove_factor(user: User, *, by: User, reason: str) -> bool:
    """Undo the factor if another superuser has asked for it, or else ask for it.

    Returns whether it is undone. Raises Refused.
    """
    if user.pk == by.pk:
        raise StaffChangeRefused("Remove your own where you have set it up.")
    user = _lock_user(user, by=by)
    if not is_mfa_enabled(user):
        raise StaffChangeRefused("They have no second factor.")
    if _request_or_approve(FactorRemoval, user, by=by, reason=reason):
        remove_second_factors(user)
        return True
    notify_account_holder(Kind.ACCOUNT_CHANGED, user.email, what="factor-asked")
    return False


@transaction.atomic
def promote(user: User, *, by: User, reason: str) -> bool:
    """Make a superuser if another superuser has asked for it, or else ask for it.

    A superuser who could make another one alone could create a second account
    and approve their own requests. The first two are made by `createsuperuser`.

    Returns whether it is done. Raises Refused.
    """
    user = _lock_user(user, by=by)
    if is_superuser(user):
        raise StaffChangeRefused("They are a superuser already.")
    # Without a factor the account is anybody's who reads its mail.
    if not (user.has_usable_password() and is_mfa_enabled(user)):
        raise StaffChangeRefused("They have to join and set up a second factor first.")
    is_done = _request_or_approve(Promotion, user, by=by, reason=reason)
    if is_done:
        set_roles(user, [*user.groups.all(), Group.objects.get(name=SUPERUSER)])
    _notify_promotion(user, by, "promoted" if is_done else "promotion-asked")
    return is_done


def _notify_promotion(user: User, by: User, what: str) -> None:
    """Write to the colleague and to all superusers, who can still undo it."""
    for email in sorted({user.email, *superusers().values_list("email", flat=True)}):
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
    """Return the user as they are now, whom nobody changes in this transaction.

    Raises Refused if `by` manages staff no more, or if the user was deactivated.
    """
    lock_superusers()
    if not superusers().filter(pk=by.pk).exists():
        raise StaffChangeRefused("You are no superuser any more.")
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if not user.is_active:
        raise StaffChangeRefused("They are deactivated.")
    return user


def _request_or_approve(
    kind: type[FactorRemoval | Promotion], user: User, *, by: User, reason: str
) -> bool:
    """Return whether another superuser has asked for it; ask for it if nobody has.

    `user` is `_held`. Raises Refused if `by` has asked.
    """
    asked = find_request(kind, user)
    if asked is None:
        asks = {
            "asked_by_user": by.pk,
            "asked_by": by.get_username(),
            "reason": reason,
            "email": user.email,
            "created_at": now(),
        }
        kind.objects.update_or_create(user_id=user.pk, defaults=asks)
        return False
    if asked.asked_by_user == by.pk:
        raise StaffChangeRefused(
            "You have asked for it: another superuser has to agree."
        )
    asked.delete()
    return True


def find_request(
    kind: type[FactorRemoval | Promotion], user: User
) -> FactorRemoval | Promotion | None:
    """Return what another superuser may agree to, for a day and for this address."""
    able = superusers().values("pk")
    since = now() - AGREEMENT_PERIOD
    return kind.objects.filter(
        user_id=user.pk,
        email=user.email,
        created_at__gt=since,
        asked_by_user__in=able,
    ).first()


@transaction.atomic
def reactivate(user: User, *, by: User) -> None:
    """Let a colleague in again, who chooses a new password by an invitation.

    A superuser comes back without that role, which takes two superusers.
    """
    lock_superusers()
    user.is_active = True
    user.save(update_fields=["is_active"])
    set_roles(user, user.groups.exclude(name=SUPERUSER))
    invite(user, by=by)


def require_another_superuser(user: User, *, by: User) -> None:
    """Raise Refused if nobody but `user` could manage staff, or if it is `by`."""
    lock_superusers()
    if user.pk == by.pk:
        raise StaffChangeRefused("Nobody ends their own access: ask another superuser.")
    is_one = superusers().filter(pk=user.pk).exists()
    if is_one and not superusers().exclude(pk=user.pk).exists():
        raise StaffChangeRefused("This is the last superuser: name another one first.")


def _make_username(email: str) -> str:
    """Return the part of the address before the @, with a number if it is taken."""
    part = re.sub(r"[^a-z0-9._-]", "", email.partition("@")[0].lower()) or "staff"
    name, number = part[:MAX_USERNAME_LENGTH], 1
    while User.objects.filter(username=name).exists():
        number += 1
        name = f"{part[:MAX_USERNAME_LENGTH]}-{number}"
    return name


def _cause(invitation: StaffInvitation) -> str:
    return f"staff-invitation:{invitation.pk}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
