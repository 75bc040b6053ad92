"""allauth's forms with our labels, without placeholders and tooltips."""

import time
from typing import Any, ClassVar

from allauth.account import forms as account
from allauth.account.models import EmailAddress
from allauth.core import context
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as mfa
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.mfa.utils import decrypt
from allauth.mfa.webauthn import forms as webauthn
from django import forms
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from verification.accounts import lockout, provider_grants
from verification.accounts.adapters import notify_account_change
from verification.backoffice import audit
from verification.db.encryption import keyed_hash
from verification.values.formats import one_line
from verification.values.public_text import TextFault, find_text_fault
from verification.web.pages import INVALID_EMAIL, REQUIRED_ERROR
from workspaces import rate_limits
from workspaces.logins import free_address

# Seconds for which a one-time code is valid.
TOTP_PERIOD = app_settings.TOTP_PERIOD
# Length of an e-mail address and of its column.
MAX_EMAIL_LENGTH = 254
EMAIL_NEEDED = {
    "required": _("Enter your e-mail address"),
    "invalid": INVALID_EMAIL,
}
PASSKEY_REFUSED = _("The passkey was not accepted. Try again")
PASSWORD_HELP = _("At least 12 characters. Use a few words that nobody would guess.")
STAFF_PASSWORD_HELP = _(
    "At least 15 characters. Use a few words that nobody would guess."
)


# Why a text for strangers is refused
TEXT_FAULTS = {
    TextFault.LINK: _("Use no links and no e-mail addresses here"),
    TextFault.SIGNS: _(
        "Use the letters of English and Kiswahili, digits and punctuation only"
    ),
    TextFault.WARY: _("Do not mention PINs, codes, passwords or ways to pay"),
}


class PublicNameField(forms.CharField):
    """A name that nobody reviews before strangers see it.

    People may have names that a text must not have, such as Siri, so `allowed` lets
    them pass.
    """

    def __init__(self, *, allowed: frozenset[TextFault] = frozenset(), **options: Any):
        super().__init__(**options)
        self.allowed = allowed

    def clean(self, value: Any) -> str:
        typed = super().clean(value)
        fault = find_text_fault(typed)
        if fault and fault not in self.allowed:
            raise forms.ValidationError(TEXT_FAULTS[fault])
        return one_line(typed)


class _Labelled:
    """Gives the fields of allauth our labels and help texts, and no placeholders."""

    fields: dict[str, Any]
    labels: ClassVar[dict[str, Any]] = {}
    helps: ClassVar[dict[str, Any]] = {"password1": PASSWORD_HELP}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs.pop("placeholder", None)
            field.label = self.labels.get(name, field.label)
            field.help_text = self.helps.get(name, field.help_text)
            field.error_messages.update(REQUIRED_ERROR)
            if isinstance(field, forms.EmailField):
                field.error_messages.update(EMAIL_NEEDED)


class _NewEmail(_Labelled):
    def clean_email(self) -> str:
        """Refuse an address longer than the column; allauth would cut it off."""
        email: str = super().clean_email()  # type: ignore[misc]
        if len(email) > MAX_EMAIL_LENGTH:
            raise forms.ValidationError(EMAIL_NEEDED["invalid"])
        return email


class LoginForm(_Labelled, account.LoginForm):
    labels = {"login": _("E-mail address"), "password": _("Password")}
    # allauth links to the reset of the password; the page has its own link.
    helps = {"password": ""}


class SignUpForm(_NewEmail, account.SignupForm):
    account_already_exists: bool
    name = PublicNameField(
        allowed=frozenset({TextFault.WARY}),
        label=_("Your name"),
        max_length=150,
        widget=forms.TextInput({"autocomplete": "name"}),
    )
    field_order = ["name", "email", "password1"]
    labels = {"email": _("E-mail address"), "password1": _("Password")}

    def clean_email(self) -> str:
        email = super().clean_email()
        if provider_grants.has_no_password(email):
            raise forms.ValidationError(str(provider_grants.REFUSALS["password"]))
        return email

    def validate_unique_email(self, value: str) -> str:
        """Count an address as taken by its holder alone, not by a change to it."""
        email: str = super().validate_unique_email(value)
        holders = User.objects.filter(email__iexact=email)
        self.account_already_exists = self.account_already_exists and holders.exists()
        return email

    def try_save(self, request: HttpRequest) -> Any:
        if self.account_already_exists:
            # Takes as long as a new account: the time does not show that one exists.
            make_password(self.cleaned_data["password1"])
        return super().try_save(request)


class JoinForm(SignUpForm):
    """The sign-up of an invited person, whose link proves the address."""

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.email = email.strip().lower()
        del self.fields["email"]

    def clean(self) -> dict[str, Any]:
        self.cleaned_data["email"] = self.email
        cleaned: dict[str, Any] = super().clean()
        return cleaned

    def save(self, request: HttpRequest) -> User:
        """Create the user, and delete an unconfirmed one of the address."""
        free_address(self.email)
        user: User = super().save(request)
        EmailAddress.objects.filter(user=user).update(verified=True)
        return user


class AddEmailForm(_NewEmail, account.AddEmailForm):
    labels = {"email": _("New e-mail address")}


class ResetPasswordForm(_Labelled, account.ResetPasswordForm):
    users: list[User]
    labels = {"email": _("E-mail address")}

    def clean_email(self) -> str:
        """Send no link to an address that its user has not confirmed yet."""
        email: str = super().clean_email()
        self.users = [
            user for user in self.users if user.email.casefold() == email.casefold()
        ]
        return email


class NewPasswordForm(_Labelled, account.ResetPasswordKeyForm):
    labels = {
        "password1": _("New password"),
        "password2": _("New password, once more"),
    }


class FirstPasswordForm(NewPasswordForm):
    """The form on which an invited colleague chooses the first password."""

    helps = {"password1": STAFF_PASSWORD_HELP}


class ChangePasswordForm(_Labelled, account.ChangePasswordForm):
    labels = {"oldpassword": _("Present password"), **NewPasswordForm.labels}


class ReauthenticateForm(_Labelled, account.ReauthenticateForm):
    labels = {"password": _("Password")}


class CodeForm(_Labelled, mfa.AuthenticateForm):
    labels = {"code": _("One-time code or recovery code")}

    def clean_code(self) -> str:
        count = lockout.count_code(context.request, self.user)
        try:
            code: str = super().clean_code()
            if self.authenticator.type == Authenticator.Type.TOTP:
                use_code(decrypt(self.authenticator.data["secret"]), code)
        except forms.ValidationError:
            audit.write_security_log(
                "code", "refused", context.request, user_id=self.user.pk
            )
            if count == lockout.FREE_CODES:
                notify_account_change(context.request, self.user, "codes-refused")
            raise
        lockout.end_code_series(context.request, self.user)
        return code


def use_code(secret: str, code: str) -> None:
    """Use up an app's one-time code. Raises ValidationError if it was used before."""
    now = int(time.time()) // TOTP_PERIOD
    # The code's period may have ended since allauth checked it.
    for step in (now, now - 1):
        if compare_user_code(
            actual=code, expected=format_hotp_value(hotp_value(secret, step))
        ):
            used = keyed_hash("used code", secret, step).hex()
            if rate_limits.claim_once(f"code:{used}", step * TOTP_PERIOD):
                return
    raise get_adapter().validation_error("incorrect_code")


class ReauthenticateByCodeForm(CodeForm, mfa.ReauthenticateForm):
    def save(self) -> None:
        mfa.ReauthenticateForm.save(self)


class ActivateAppForm(_Labelled, totp.ActivateTOTPForm):
    labels = {"code": _("The code that the app shows")}

    def clean_code(self) -> str:
        code: str = super().clean_code()
        use_code(self.secret, code)
        return code


class AddPasskeyForm(_Labelled, webauthn.AddWebAuthnForm):
    labels = {"name": _("What you call it")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Every passkey of ours can log in without a password.
        del self.fields["passwordless"]
        self.fields["name"].max_length = 100

    def clean(self) -> dict[str, Any]:
        try:
            cleaned: dict[str, Any] = super().clean()
        except (forms.ValidationError, ValueError, TypeError):
            raise forms.ValidationError(PASSKEY_REFUSED) from None
        return cleaned


class PasskeyForm(_Labelled, webauthn.AuthenticateWebAuthnForm):
    labels = {"credential": _("Passkey")}

    def clean_credential(self) -> Any:
        try:
            return super().clean_credential()
        except forms.ValidationError:
            user_id = self.user.pk if self.user else None
            audit.write_security_log(
                "passkey", "refused", context.request, user_id=user_id
            )
            raise forms.ValidationError(PASSKEY_REFUSED) from None


class PasskeyLoginForm(PasskeyForm, webauthn.LoginWebAuthnForm):
    pass


class ConfirmByPasskeyForm(PasskeyForm, webauthn.ReauthenticateWebAuthnForm):
    pass
