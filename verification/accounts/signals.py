"""Receivers of the signals of login, accounts and second factors."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from axes.signals import user_locked_out
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_login_failed

from verification.accounts import lockout
from verification.accounts.adapters import notify_account_change
from verification.accounts.lockout import typed_email
from verification.accounts.sessions import begin_session, end_other_sessions
from verification.backoffice import audit
from verification.payments.alerts import count_refused_access
from workspaces.create import create_own_workspace
from workspaces.members import is_invited

# Verb in the audit trail: signal of allauth.
AUDITED_SIGNALS = {
    "password-changed": account.password_changed,
    "password-reset": account.password_reset,
    "factor-added": mfa.authenticator_added,
    "factor-removed": mfa.authenticator_removed,
    "recovery-codes-made": mfa.authenticator_reset,
}

# Changes after which only the session that made them stays.
ENDS_OTHER_SESSIONS = [
    account.password_changed,
    account.password_reset,
    account.email_changed,
    mfa.authenticator_added,
    mfa.authenticator_removed,
]


def connect() -> None:
    """Connect all receivers, once for each `dispatch_uid`."""
    account.email_confirmed.connect(
        _on_email_confirmed, dispatch_uid="open the first workspace"
    )
    user_logged_in.connect(_on_login, dispatch_uid="begin a session")
    account.user_logged_in.connect(_on_staff_login, dispatch_uid="note a login")
    mfa.authenticator_added.connect(
        _on_factor_added, dispatch_uid="count the first code"
    )
    account.email_changed.connect(_on_email_changed, dispatch_uid="note an address")
    user_login_failed.connect(_on_login_refused, dispatch_uid="note a refused login")
    user_locked_out.connect(_on_lock_out, dispatch_uid="note a lock-out")
    account.authentication_step_completed.connect(
        _on_step_completed, dispatch_uid="give the session another key"
    )
    account.password_reset.connect(
        _on_password_reset, dispatch_uid="remember the browser"
    )
    mfa.authenticator_used.connect(_on_code_used, dispatch_uid="tell of a code")
    for signal in ENDS_OTHER_SESSIONS:
        signal.connect(_on_credentials_changed, dispatch_uid="end other sessions")
    for act, signal in AUDITED_SIGNALS.items():
        signal.connect(_audit_receiver(act), weak=False, dispatch_uid=f"note {act}")


def _on_email_confirmed(email_address: Any, **_: Any) -> None:
    user: User = email_address.user
    # Only the first address of a new user creates a workspace.
    if user.last_login or user.is_staff or user.memberships.exists():
        return
    # An invited user joins that workspace, and may create an own one later.
    if not is_invited(user.email):
        create_own_workspace(user)


def _on_login(request: Any, user: User, **_: Any) -> None:
    begin_session(request)
    audit.write_security_log("login", "accepted", request, user_id=user.pk)


def _on_login_refused(credentials: Any, request: Any = None, **_: Any) -> None:
    account = audit.account_hash(typed_email(request, credentials))
    audit.write_security_log("login", "refused", request, account=account)
    count_refused_access("logins")


def _on_lock_out(request: Any, **_: Any) -> None:
    account = audit.account_hash(typed_email(request, None))
    audit.write_security_log("login", "locked-out", request, account=account)


def _on_staff_login(request: Any, user: User, **_: Any) -> None:
    if user.is_staff:
        _audit(request, user, "logged-in")


def _on_factor_added(request: Any, user: User, authenticator: Any, **_: Any) -> None:
    """Count the new factor as used: setting it up needs a code or a touch."""
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        record_authentication(request, user, "mfa", type=authenticator.type)


def _on_step_completed(request: Any, **_: Any) -> None:
    """Change the session's key after a second step; Django does it at the login."""
    if request.user.is_authenticated:
        request.session.cycle_key()


def _on_password_reset(request: Any, user: User, **_: Any) -> None:
    """Remember the browser: its user has opened the link from the mailbox."""
    lockout.remember_browser(request, user.email)


def _on_code_used(request: Any, user: User, authenticator: Any, **_: Any) -> None:
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        notify_account_change(request, user, "code-used")


def _on_credentials_changed(request: Any, user: User, **_: Any) -> None:
    if end_other_sessions(request, user):
        _audit(request, user, "other-sessions-ended")


def _on_email_changed(
    request: Any, user: User, from_email_address: Any, **_: Any
) -> None:
    # allauth sends the signal for a first address, too, which is no change.
    if from_email_address:
        _audit(request, user, "email-changed")
        if request is not None and request.user.pk == user.pk:
            lockout.remember_browser(request, user.email)


def _audit_receiver(act: str) -> Any:
    def receiver(request: Any, user: User, **_: Any) -> None:
        _audit(request, user, act)

    return receiver


def _audit(request: Any, user: User, act: str) -> None:
    audit.record(f"user.{act}", audit.actor_of(request, user), user)
