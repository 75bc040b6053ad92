"""What follows from what people do with their accounts."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import record_authentication
from allauth.account.signals import email_confirmed
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in

from verification.accounts.sessions import begin
from workspaces.accounts import open_for
from workspaces.members import is_invited


def connect() -> None:
    """Kept by name: connecting again changes nothing."""
    email_confirmed.connect(_has_confirmed, dispatch_uid="open the first workspace")
    user_logged_in.connect(_has_logged_in, dispatch_uid="begin a session")
    authenticator_added.connect(_has_a_factor, dispatch_uid="count the first code")


def _has_confirmed(email_address: Any, **_: Any) -> None:
    user: User = email_address.user
    # Who was invited comes for that workspace, and can open one of their own later.
    if not (user.is_staff or user.memberships.exists() or is_invited(user.email)):
        open_for(user)


def _has_logged_in(request: Any, **_: Any) -> None:
    begin(request)


def _has_a_factor(request: Any, user: User, authenticator: Any, **_: Any) -> None:
    """Who sets TOTP up has just typed a code of it, in this session."""
    if authenticator.type == Authenticator.Type.TOTP:
        record_authentication(request, user, "mfa", type=authenticator.type)
