"""What follows from what people do with their accounts."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from axes.signals import user_locked_out
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_login_failed

from verification.accounts import devices
from verification.accounts.adapters import tell_of_change
from verification.accounts.lockout import typed_account
from verification.accounts.sessions import begin, end_others
from verification.backoffice import audit
from verification.payments.alerts import count_refused_access
from workspaces.members import is_invited
from workspaces.signup import open_for

# What people do with their own account, as the audit trail calls it.
NOTED = {
    "password-changed": account.password_changed,
    "password-reset": account.password_reset,
    "factor-added": mfa.authenticator_added,
    "factor-removed": mfa.authenticator_removed,
    "recovery-codes-made": mfa.authenticator_reset,
}

# Whoever was logged in by what held before is logged out.
ENDS_OTHER_SESSIONS = [
    account.password_changed,
    account.password_reset,
    account.email_changed,
    mfa.authenticator_added,
    mfa.authenticator_removed,
]


def connect() -> None:
    """Kept by name: connecting again changes nothing."""
    account.email_confirmed.connect(
        _has_confirmed, dispatch_uid="open the first workspace"
    )
    user_logged_in.connect(_has_logged_in, dispatch_uid="begin a session")
    account.user_logged_in.connect(_staff_has_logged_in, dispatch_uid="note a login")
    mfa.authenticator_added.connect(_has_a_factor, dispatch_uid="count the first code")
    account.email_changed.connect(_has_another_address, dispatch_uid="note an address")
    user_login_failed.connect(_is_refused, dispatch_uid="note a refused login")
    user_locked_out.connect(_is_locked_out, dispatch_uid="note a lock-out")
    account.authentication_step_completed.connect(
        _has_proved, dispatch_uid="give the session another key"
    )
    account.password_reset.connect(_has_reset, dispatch_uid="remember the browser")
    mfa.authenticator_used.connect(_has_used_a_code, dispatch_uid="tell of a code")
    for signal in ENDS_OTHER_SESSIONS:
        signal.connect(_end_others, dispatch_uid="end other sessions")
    for act, signal in NOTED.items():
        signal.connect(_noting(act), weak=False, dispatch_uid=f"note {act}")


def _has_confirmed(email_address: Any, **_: Any) -> None:
    user: User = email_address.user
    # Another address of somebody who has been here opens nothing.
    if user.last_login or user.is_staff or user.memberships.exists():
        return
    # Who was invited comes for that workspace, and can open one of their own later.
    if not is_invited(user.email):
        open_for(user)


def _has_logged_in(request: Any, user: User, **_: Any) -> None:
    begin(request)
    audit.write_security_log("login", "accepted", request, user_id=user.pk)


def _is_refused(credentials: Any, request: Any = None, **_: Any) -> None:
    account = audit.account_of(typed_account(request, credentials))
    audit.write_security_log("login", "refused", request, account=account)
    count_refused_access("logins")


def _is_locked_out(request: Any, **_: Any) -> None:
    account = audit.account_of(typed_account(request, None))
    audit.write_security_log("login", "locked-out", request, account=account)


def _staff_has_logged_in(request: Any, user: User, **_: Any) -> None:
    if user.is_staff:
        _note(request, user, "logged-in")


def _has_a_factor(request: Any, user: User, authenticator: Any, **_: Any) -> None:
    """Who sets a factor up has just used it, in this session."""
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        record_authentication(request, user, "mfa", type=authenticator.type)


def _has_proved(request: Any, **_: Any) -> None:
    """Give the session another key; the login itself does so on its own."""
    if request.user.is_authenticated:
        request.session.cycle_key()


def _has_reset(request: Any, user: User, **_: Any) -> None:
    """The link came by the person's own mail, so their browser is known."""
    devices.remember(request, user.email)


def _has_used_a_code(request: Any, user: User, authenticator: Any, **_: Any) -> None:
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        tell_of_change(request, user, "code-used")


def _end_others(request: Any, user: User, **_: Any) -> None:
    if end_others(request, user):
        _note(request, user, "other-sessions-ended")


def _has_another_address(
    request: Any, user: User, from_email_address: Any, **_: Any
) -> None:
    # The first one is no change, though allauth tells of it alike.
    if from_email_address:
        _note(request, user, "email-changed")
        if request is not None and request.user.pk == user.pk:
            devices.remember(request, user.email)


def _noting(act: str) -> Any:
    def note(request: Any, user: User, **_: Any) -> None:
        _note(request, user, act)

    return note


def _note(request: Any, user: User, act: str) -> None:
    audit.record(f"user.{act}", audit.actor_of(request, user), user)
