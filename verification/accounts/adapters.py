"""Adapters of django-allauth: mails, addresses, names, texts and sealed secrets."""

import base64
import os
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.utils import passthrough_next_redirect_url
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.utils import is_mfa_enabled
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from verification.accounts import lockout, provider_grants, sessions
from verification.accounts.sessions import browser_name
from verification.db.encryption import keyed_hashes
from verification.db.ids import uuid7
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import notify_account_holder
from verification.notifications.recipients import address_hash, count_today
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.logins import has_account, lock_address

# Template of allauth: the kind of our mail, and the change that the mail names.
MAILS = {
    "account/email/email_confirmation": (Kind.ACCOUNT_CONFIRM, ""),
    "account/email/email_confirmation_signup": (Kind.ACCOUNT_CONFIRM, ""),
    "account/email/account_already_exists": (Kind.ACCOUNT_EXISTS, ""),
    "account/email/email_changed": (Kind.ACCOUNT_CHANGED, "email"),
    "account/email/password_reset_key": (Kind.ACCOUNT_RESET, ""),
    "account/email/password_reset": (Kind.ACCOUNT_CHANGED, "password"),
    "account/email/password_changed": (Kind.ACCOUNT_CHANGED, "password"),
    "mfa/email/totp_activated": (Kind.ACCOUNT_CHANGED, "factor-on"),
    "mfa/email/totp_deactivated": (Kind.ACCOUNT_CHANGED, "factor-off"),
    "mfa/email/webauthn_added": (Kind.ACCOUNT_CHANGED, "passkey-on"),
    "mfa/email/webauthn_removed": (Kind.ACCOUNT_CHANGED, "passkey-off"),
    "mfa/email/recovery_codes_generated": (Kind.ACCOUNT_CHANGED, "codes"),
}
# allauth's name for the link in a mail. Other mails link to the login.
LINK_KEYS = {
    Kind.ACCOUNT_CONFIRM: "activate_url",
    Kind.ACCOUNT_RESET: "password_reset_url",
}
# Removing an unconfirmed address changes nothing that the person relies on.
# A first login by a provider that owns the address takes no access from its reader.
SUPPRESSED_MAILS = {
    "account/email/email_deleted",
    "socialaccount/email/account_connected",
}
# allauth's step of the login: ours
OWN_STAGES = {
    "allauth.mfa.stages.AuthenticateStage": (
        "verification.accounts.adapters.SecondFactorStage"
    )
}
# The mails of each kind, which strangers can have sent, that an address gets in a day.
# A link for a new password works for an hour: its number is that of an hour.
MOST_MAILS = {
    Kind.ACCOUNT_CONFIRM: 10,
    Kind.ACCOUNT_EXISTS: 10,
    Kind.ACCOUNT_RESET: 5,
}
# Messages on the next page. allauth's other messages repeat what pages show.
PAGE_MESSAGES = {
    "account/messages/email_confirmed.txt": _("Your e-mail address is confirmed."),
    "account/messages/email_confirmation_failed.txt": _(
        "Somebody else has confirmed this address."
    ),
    "account/messages/password_changed.txt": _("Your password is changed."),
    "mfa/messages/totp_activated.txt": _("Your second factor is set up."),
    "mfa/messages/totp_deactivated.txt": _("Your second factor is removed."),
    "mfa/messages/webauthn_added.txt": _("Your passkey is added."),
    "mfa/messages/webauthn_removed.txt": _("Your passkey is removed."),
    "mfa/messages/recovery_codes_generated.txt": _("New recovery codes are made."),
}
ERRORS = {
    "account_inactive": _("This account is closed"),
    "duplicate_email": _("This is your address already"),
    "email_password_mismatch": _("E-mail address or password is not right"),
    "enter_current_password": _("Type your present password"),
    "incorrect_code": _("The code is not right. Codes change every 30 seconds"),
    "incorrect_password": _("The password is not right"),
    "invalid_password_reset": _("This link does not work any more"),
    "too_many_login_attempts": _("Too many attempts. Try again in a few minutes"),
    "rate_limited": _("Too many attempts. Try again in a few minutes"),
}


def notify_account_change(request: HttpRequest, user: Any, what: str) -> None:
    """Queue the mail about a change for which allauth has no mail."""
    notify_account_holder(
        Kind.ACCOUNT_CHANGED,
        user.email,
        what=what,
        browser=browser_name(request),
        address=lockout.client_network(request) or "",
        happenedAt=utc_text(now()),
    )


class AccountAdapter(DefaultAccountAdapter):
    error_messages = {**DefaultAccountAdapter.error_messages, **ERRORS}

    def send_mail(
        self, template_prefix: str, email: str, context: dict[str, Any]
    ) -> None:
        """Queue the mail: the response time does not show if an account exists."""
        if template_prefix in SUPPRESSED_MAILS:
            return
        kind, what = MAILS[template_prefix]
        if kind in MOST_MAILS and not _count_mail(kind, email):
            return
        notify_account_holder(kind, email, what=what, url=self._link(kind, context))

    def confirm_email(self, request: HttpRequest, email_address: Any) -> bool:
        """Confirm an address that nobody else confirms or gets at the same moment."""
        users = User.objects.select_for_update(no_key=True)
        email_address.user = get_object_or_404(users, pk=email_address.user_id)
        lock_address(email_address.email)
        get_object_or_404(EmailAddress, pk=email_address.pk, verified=False)
        if has_account(email_address.email, besides=email_address.user_id):
            # allauth does not count a colleague who has not joined yet.
            failed = "account/messages/email_confirmation_failed.txt"
            self.add_message(request, messages.ERROR, failed)
            return False
        confirmed: bool = super().confirm_email(request, email_address)
        return confirmed

    def get_email_confirmation_url(self, request: Any, emailconfirmation: Any) -> str:
        """Return the link, with the page that the visitor wants after it."""
        url = _absolute("account_confirm_email", emailconfirmation.key)
        return passthrough_next_redirect_url(request, url, REDIRECT_FIELD_NAME)

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _dash, token = key.partition("-")
        return _absolute("account_reset_password_from_key", uid, token)

    def populate_username(self, request: HttpRequest, user: Any) -> None:
        # Random: a name made from the address would show the address to staff.
        user.username = user.username or uuid7().hex

    def save_user(
        self, request: HttpRequest, user: Any, form: Any, commit: bool = True
    ) -> User:
        user.first_name = form.cleaned_data.get("name", "")
        saved: User = super().save_user(request, user, form, commit)
        return saved

    def clean_password(self, password: str, user: Any = None) -> str:
        if user is not None and not user.pk:
            # allauth sets only the address of a new user, but the check needs the name.
            user.first_name = self.request.POST.get("name", "")
        cleaned: str = super().clean_password(password, user)
        return cleaned

    def set_password(self, user: Any, password: str) -> None:
        """Save nothing else: staff may have ended the access since it was read."""
        user.set_password(password)
        user.save(update_fields=["password"])

    def get_reauthentication_methods(self, user: Any) -> list[Any]:
        """Return the user's second factors, passkeys first, or else the password."""
        methods: list[Any] = super().get_reauthentication_methods(user)
        factors = [m for m in methods if m["id"] != "reauthenticate"]
        return sorted(factors, key=lambda m: "webauthn" not in m["id"]) or methods

    def get_client_ip(self, request: HttpRequest) -> str:
        return lockout.client_network(request) or ""

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Slow guesses down. allauth's limit would lock out the owner, too."""
        lockout.refuse_during_pause(request, str(credentials.get("email") or ""))

    def pre_login(self, request: HttpRequest, user: Any, **login: Any) -> Any:
        """Refuse other logins to a user whose identity provider is required."""
        if answer := super().pre_login(request, user, **login):
            return answer
        by_provider = (login["signal_kwargs"] or {}).get("sociallogin")
        if by_provider is None:
            if provider := provider_grants.required_provider(user):
                return provider_grants.refuse(request, provider, "password", user)
            return None
        sessions.note_provider(
            request,
            user,
            name=by_provider.provider.name,
            url=by_provider.logout_url,
            has_factor=by_provider.claims.has_second_factor,
        )
        return None

    def get_login_stages(self) -> list[str]:
        stages: list[str] = super().get_login_stages()
        return [OWN_STAGES.get(stage, stage) for stage in stages]

    def login(self, request: HttpRequest, user: Any) -> None:
        """Log in. A new browser sends a mail, unless this is the first login."""
        is_new_browser = user.last_login and not lockout.is_known_browser(
            request, user.email
        )
        super().login(request, user)
        lockout.remember_browser(request, user.email)
        if is_new_browser:
            notify_account_change(request, user, "login")

    def _rollback_login_failed_rl_usage(self) -> None:
        pass

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if text := PAGE_MESSAGES.get(message_template or ""):
            messages.add_message(request, level, str(text))

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("mfa_index")

    def _link(self, kind: Kind, context: dict[str, Any]) -> str:
        """Return the link of a mail, from BASE_URL: visitors choose the Host header."""
        if kind in LINK_KEYS:
            return str(context[LINK_KEYS[kind]])
        url = _absolute("account_login")
        return passthrough_next_redirect_url(self.request, url, REDIRECT_FIELD_NAME)


class SecondFactorStage(AuthenticateStage):
    """Ask for the user's second factor, unless the provider has asked for one."""

    def handle(self) -> tuple[Any, bool]:
        if sessions.has_provider_factor(self.request, self.login.user):
            return None, True
        self.state["password"] = self.login.user.get_session_auth_hash()
        handled: tuple[Any, bool] = super().handle()
        return handled

    @property
    def is_outdated(self) -> bool:
        """Return whether the password has changed, or the factor is gone, since then.

        allauth would accept the old password, and lead in a circle without a factor.
        """
        user = self.login.user
        changed = self.state.get("password") != user.get_session_auth_hash()
        return changed or not is_mfa_enabled(user)


class SecondFactorAdapter(DefaultMFAAdapter):
    error_messages = {**DefaultMFAAdapter.error_messages, **ERRORS}

    # Sealed with LOOKUP_KEY: `rehash` seals secrets again, while `reencrypt` knows
    # only the fields of our own tables.
    def encrypt(self, text: str) -> str:
        nonce = os.urandom(12)
        sealed = _ciphers()[-1].encrypt(nonce, text.encode(), None)
        return base64.b64encode(nonce + sealed).decode()

    def decrypt(self, encrypted_text: str, *, keys: int = 0) -> str:
        """Open a sealed text with all keys of LOOKUP_KEY, or its oldest `keys` ones."""
        raw = base64.b64decode(encrypted_text)
        return _ciphers()[keys - 1].decrypt(raw[:12], raw[12:], None).decode()

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        entity: dict[str, str] = super().get_public_key_credential_rp_entity()
        return entity | {"name": settings.OPERATOR_NAME}

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        """Return the browser and system that the passkey is added with."""
        return browser_name(context.request) or str(_("Passkey"))

    def get_totp_label(self, user: Any) -> str:
        return str(user.email)


def _count_mail(kind: Kind, email: str) -> bool:
    """Count a mail of this kind to the address; return False above the limit."""
    hour = f"{now():%H}" if kind == Kind.ACCOUNT_RESET else ""
    hashed = address_hash(Channel.EMAIL, email).hex()
    return count_today(f"{kind.value}:{hour}:{hashed}", MOST_MAILS[kind])


def _ciphers() -> list[AESGCM]:
    return [AESGCM(key) for key in keyed_hashes("second factor")]


def _absolute(name: str, *arguments: str) -> str:
    return settings.BASE_URL + reverse(name, args=arguments)
