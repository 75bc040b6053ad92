"""Receivers of the signals of login, accounts and second factors."""

from typing import Any

from allauth.account import signals as account
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from axes.signals import user_locked_out
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.dispatch import Signal, receiver

from verification.accounts import lockout
from verification.accounts.adapters import notify_account_change
from verification.accounts.lockout import typed_email
from verification.accounts.sessions import begin_session, end_other_sessions
from verification.backoffice import audit
from verification.payments.alerts import count_refused_access
from workspaces.create import create_own_workspace
from workspaces.members import is_invited

# Signal of allauth: verb in the audit trail.
AUDITED_SIGNALS = {
    account.password_changed: "password-changed",
    account.password_reset: "password-reset",
    mfa.authenticator_added: "factor-added",
    mfa.authenticator_removed: "factor-removed",
    mfa.authenticator_reset: "recovery-codes-made",
}

# Changes after which only the session that made them stays.
ENDS_OTHER_SESSIONS = [
    account.password_changed,
    account.password_reset,
    account.email_changed,
    mfa.authenticator_added,
    mfa.authenticator_removed,
]


@receiver(account.email_confirmed)
def open_first_workspace(email_address: Any, **_: Any) -> None:
    user: User = email_address.user
    # Only the first address of a new user creates a workspace.
    if user.last_login or user.is_staff or user.memberships.exists():
        return
    # An invited user joins that workspace, and may create an own one later.
    if not is_invited(user.email):
        create_own_workspace(user)


@receiver(user_logged_in)
def begin_new_session(request: Any, user: User, **_: Any) -> None:
    begin_session(request)
    audit.write_security_log("login", "accepted", request, user_id=user.pk)


@receiver(user_login_failed)
def log_refused_login(credentials: Any, request: Any = None, **_: Any) -> None:
    account = audit.account_hash(typed_email(request, credentials))
    audit.write_security_log("login", "refused", request, account=account)
    count_refused_access("logins")


@receiver(user_locked_out)
def log_lock_out(request: Any, **_: Any) -> None:
    account = audit.account_hash(typed_email(request, None))
    audit.write_security_log("login", "locked-out", request, account=account)


@receiver(account.user_logged_in)
def audit_login(request: Any, user: User, sociallogin: Any = None, **_: Any) -> None:
    """Record logins of staff, and all logins by an identity provider."""
    if sociallogin is not None:
        provider = settings.IDENTITY_PROVIDERS[sociallogin.account.provider]
        audit.record(
            "user.logged-in-by-provider",
            audit.actor_of(request, user),
            user,
            workspace_id=provider.workspace,
            reason=provider.name,
        )
    elif user.is_staff:
        _audit(request, user, "logged-in")


@receiver(mfa.authenticator_added)
def count_new_factor_as_used(
    request: Any, user: User, authenticator: Any, **_: Any
) -> None:
    """Count the new factor as used: setting it up needs a code or a touch."""
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        record_authentication(request, user, "mfa", type=authenticator.type)


@receiver(account.authentication_step_completed)
def change_session_key(request: Any, **_: Any) -> None:
    """Change the session's key after a second step; Django does it at the login."""
    if request.user.is_authenticated:
        request.session.cycle_key()


@receiver(account.password_reset)
def remember_browser(request: Any, user: User, **_: Any) -> None:
    """Remember the browser: its user has opened the link from the mailbox."""
    lockout.remember_browser(request, user.email)


@receiver(mfa.authenticator_used)
def notify_use_of_recovery_code(
    request: Any, user: User, authenticator: Any, **_: Any
) -> None:
    if authenticator.type == Authenticator.Type.RECOVERY_CODES:
        notify_account_change(request, user, "code-used")


@receiver(account.email_changed)
def audit_new_email(
    request: Any, user: User, from_email_address: Any, **_: Any
) -> None:
    # allauth sends the signal for a first address, too, which is no change.
    if from_email_address:
        _audit(request, user, "email-changed")
        if request is not None and request.user.pk == user.pk:
            lockout.remember_browser(request, user.email)


@receiver(ENDS_OTHER_SESSIONS)
def end_sessions_elsewhere(request: Any, user: User, **_: Any) -> None:
    # Codes were guessed by somebody who knew the password or the address before.
    user.wrong_codes.all().delete()
    if end_other_sessions(request, user):
        _audit(request, user, "other-sessions-ended")


@receiver(list(AUDITED_SIGNALS))
def audit_credentials(signal: Signal, request: Any, user: User, **_: Any) -> None:
    _audit(request, user, AUDITED_SIGNALS[signal])


def _audit(request: Any, user: User, act: str) -> None:
    audit.record(f"user.{act}", audit.actor_of(request, user), user)
