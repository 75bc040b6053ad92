"""The forms of allauth in our words, and without hints that only a mouse shows."""

from __future__ import annotations

from typing import Any

from allauth.account import forms as account
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as mfa
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from django import forms
from django.contrib.auth.hashers import make_password
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from verification.encryption import keyed_hash
from workspaces import rates

CODES_PER_MINUTE = 5
# Of an address, and of the column that holds it.
LONGEST = 254
EMAIL_NEEDED = {
    "required": _("Enter your e-mail address"),
    "invalid": _("Enter an e-mail address, such as name@example.com"),
}
NEW = _("At least 12 characters. A few words that nobody would guess are good.")


def in_our_words(form: forms.Form, **labels: Any) -> None:
    for name, field in form.fields.items():
        field.widget.attrs.pop("placeholder", None)
        field.label = labels.get(name, field.label)
        field.error_messages["required"] = _("This is needed")


def whole(email: str) -> str:
    """allauth would cut off what the column cannot hold, or fail."""
    if len(email) > LONGEST:
        raise forms.ValidationError(EMAIL_NEEDED["invalid"])
    return email


class Login(account.LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, login=_("E-mail address"), password=_("Password"))
        self.fields["login"].error_messages.update(EMAIL_NEEDED)
        # The page has the link.
        self.fields["password"].help_text = ""


class SignUp(account.SignupForm):
    name = forms.CharField(label=_("Your name"), max_length=150)
    field_order = ["name", "email", "password1"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, email=_("E-mail address"), password1=_("Password"))
        self.fields["name"].widget.attrs["autocomplete"] = "name"
        self.fields["email"].error_messages.update(EMAIL_NEEDED)
        self.fields["password1"].help_text = NEW

    def clean_email(self) -> str:
        return whole(super().clean_email())

    def try_save(self, request: HttpRequest) -> Any:
        if self.account_already_exists:
            # As slow as a new account, so that nobody measures who has one.
            make_password(self.cleaned_data["password1"])
        return super().try_save(request)


class NewAddress(account.AddEmailForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, email=_("New e-mail address"))
        self.fields["email"].error_messages.update(EMAIL_NEEDED)

    def clean_email(self) -> str:
        return whole(super().clean_email())


class Reset(account.ResetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, email=_("E-mail address"))
        self.fields["email"].error_messages.update(EMAIL_NEEDED)


class NewPassword(account.ResetPasswordKeyForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(
            self, password1=_("New password"), password2=_("New password, once more")
        )
        self.fields["password1"].help_text = NEW


class ChangePassword(account.ChangePasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(
            self,
            oldpassword=_("Present password"),
            password1=_("New password"),
            password2=_("New password, once more"),
        )
        self.fields["password1"].help_text = NEW


class PasswordAgain(account.ReauthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, password=_("Password"))


class Code(mfa.AuthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, code=_("One-time code or recovery code"))

    def clean_code(self) -> str:
        # Counted over all processes, which allauth's own limit is not. Who gets here
        # knows the password, so nobody else is locked out by this.
        if rates.count(f"codes:{self.user.pk}", CODES_PER_MINUTE).exceeded:
            told = _("Too many attempts. Try again in some minutes")
            raise forms.ValidationError(told)
        code: str = super().clean_code()
        if self.authenticator.type == Authenticator.Type.TOTP:
            self._use_up(code)
        return code

    def _use_up(self, code: str) -> None:
        """A code of an app counts once, whichever process it is sent to."""
        digits = "".join(filter(str.isalnum, code))
        hashed = keyed_hash("used code", self.user.pk, digits).hex()
        # Codes change with the half minute, so each belongs to one minute of the count.
        if rates.count(f"code:{hashed}", 1).exceeded:
            raise get_adapter().validation_error("incorrect_code")


class CodeAgain(Code, mfa.ReauthenticateForm):
    def save(self) -> None:
        mfa.ReauthenticateForm.save(self)


class SetUpCode(totp.ActivateTOTPForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        in_our_words(self, code=_("The code that the app shows"))
