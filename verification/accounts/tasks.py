"""What is kept of people no longer than it is of use."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils.timezone import now

from verification.accounts.models import Session

# Links that confirm work for three days; logging in sends another one.
UNCONFIRMED_LIFETIME = timedelta(days=30)


def purge_sessions() -> None:
    """Those that nobody can use any more."""
    Session.objects.filter(expire_date__lt=now()).delete()


def purge_unconfirmed_users() -> None:
    """Who signed up, or was signed up by somebody else, and confirmed no address."""
    strangers = User.objects.filter(
        is_staff=False,
        is_superuser=False,
        last_login=None,
        memberships=None,
        date_joined__lt=now() - UNCONFIRMED_LIFETIME,
    )
    strangers.exclude(emailaddress__verified=True).delete()
