"""The pages of allauth that this service offers. Its other pages do not exist."""

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from django.urls import path

from verification.accounts.views import (
    ActivateAppView,
    AddPasskeyView,
    ConfirmEmailView,
    PasskeyLoginView,
    ReauthenticateByPasskeyView,
    RecoveryCodesView,
    RemovePasskeyView,
    SecondStepView,
    SignUpView,
    account_page,
    email,
    join,
    session_list,
)

urlpatterns = [
    path("login/", account_page(account.login, limit=30), name="account_login"),
    path("logout/", account_page(account.logout), name="account_logout"),
    path(
        "signup/", account_page(SignUpView.as_view(), limit=10), name="account_signup"
    ),
    path("join/<str:token>/", account_page(join, limit=10), name="account_join"),
    path("inactive/", account_page(account.account_inactive), name="account_inactive"),
    path(
        "reauthenticate/",
        account_page(account.reauthenticate, limit=30),
        name="account_reauthenticate",
    ),
    path(
        "confirm-email/",
        account_page(account.email_verification_sent),
        name="account_email_verification_sent",
    ),
    path(
        "confirm-email/<str:key>/",
        account_page(ConfirmEmailView.as_view()),
        name="account_confirm_email",
    ),
    path(
        "email/",
        account_page(email, limit=10),
        name="account_email",
    ),
    path(
        "password/change/",
        account_page(account.password_change),
        name="account_change_password",
    ),
    path(
        "password/reset/",
        account_page(account.password_reset, limit=10),
        name="account_reset_password",
    ),
    path(
        "password/reset/done/",
        account_page(account.password_reset_done),
        name="account_reset_password_done",
    ),
    path(
        "password/reset/key/done/",
        account_page(account.password_reset_from_key_done),
        name="account_reset_password_from_key_done",
    ),
    path(
        "password/reset/key/<str:uidb36>/<str:key>/",
        account_page(account.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path("security/", account_page(mfa.index), name="mfa_index"),
    path("sessions/", account_page(session_list), name="account_sessions"),
    path(
        "code/",
        account_page(SecondStepView.as_view(), limit=30, script=True),
        name="mfa_authenticate",
    ),
    path(
        "code/again/",
        account_page(mfa.reauthenticate, limit=30),
        name="mfa_reauthenticate",
    ),
    path(
        "passkeys/login/",
        account_page(PasskeyLoginView.as_view(), limit=30, script=True),
        name="mfa_login_webauthn",
    ),
    path(
        "passkeys/add/",
        account_page(AddPasskeyView.as_view(), script=True),
        name="mfa_add_webauthn",
    ),
    path(
        "passkeys/again/",
        account_page(ReauthenticateByPasskeyView.as_view(), limit=30, script=True),
        name="mfa_reauthenticate_webauthn",
    ),
    path(
        "passkeys/<int:pk>/remove/",
        account_page(RemovePasskeyView.as_view()),
        name="mfa_remove_webauthn",
    ),
    path(
        "totp/activate/",
        account_page(ActivateAppView.as_view()),
        name="mfa_activate_totp",
    ),
    path(
        "totp/deactivate/",
        account_page(totp.deactivate_totp),
        name="mfa_deactivate_totp",
    ),
    path(
        "recovery-codes/",
        account_page(RecoveryCodesView.as_view()),
        name="mfa_view_recovery_codes",
    ),
    path(
        "recovery-codes/generate/",
        account_page(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
]
