"""Those of allauth's pages that we have; what is not named here is not there."""

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from django.urls import path

from verification.accounts.views import (
    AddPasskey,
    ConfirmByPasskey,
    ConfirmEmail,
    PasskeyLogin,
    RecoveryCodes,
    RemovePasskey,
    SecondStep,
    SetUpApp,
    SignUp,
    email,
    join,
    open_sessions,
    ours,
)

urlpatterns = [
    path("login/", ours(account.login, limit=30), name="account_login"),
    path("logout/", ours(account.logout), name="account_logout"),
    path("signup/", ours(SignUp.as_view(), limit=10), name="account_signup"),
    path("join/<str:token>/", ours(join, limit=10), name="account_join"),
    path("inactive/", ours(account.account_inactive), name="account_inactive"),
    path(
        "reauthenticate/",
        ours(account.reauthenticate, limit=30),
        name="account_reauthenticate",
    ),
    path(
        "confirm-email/",
        ours(account.email_verification_sent),
        name="account_email_verification_sent",
    ),
    path(
        "confirm-email/<str:key>/",
        ours(ConfirmEmail.as_view()),
        name="account_confirm_email",
    ),
    path(
        "email/",
        ours(email, limit=10),
        name="account_email",
    ),
    path(
        "password/change/",
        ours(account.password_change),
        name="account_change_password",
    ),
    path(
        "password/reset/",
        ours(account.password_reset, limit=10),
        name="account_reset_password",
    ),
    path(
        "password/reset/done/",
        ours(account.password_reset_done),
        name="account_reset_password_done",
    ),
    path(
        "password/reset/key/done/",
        ours(account.password_reset_from_key_done),
        name="account_reset_password_from_key_done",
    ),
    path(
        "password/reset/key/<str:uidb36>/<str:key>/",
        ours(account.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path("security/", ours(mfa.index), name="mfa_index"),
    path("sessions/", ours(open_sessions), name="account_sessions"),
    path(
        "code/",
        ours(SecondStep.as_view(), limit=30, script=True),
        name="mfa_authenticate",
    ),
    path("code/again/", ours(mfa.reauthenticate, limit=30), name="mfa_reauthenticate"),
    path(
        "passkeys/login/",
        ours(PasskeyLogin.as_view(), limit=30, script=True),
        name="mfa_login_webauthn",
    ),
    path(
        "passkeys/add/",
        ours(AddPasskey.as_view(), script=True),
        name="mfa_add_webauthn",
    ),
    path(
        "passkeys/again/",
        ours(ConfirmByPasskey.as_view(), limit=30, script=True),
        name="mfa_reauthenticate_webauthn",
    ),
    path(
        "passkeys/<int:pk>/remove/",
        ours(RemovePasskey.as_view()),
        name="mfa_remove_webauthn",
    ),
    path("totp/activate/", ours(SetUpApp.as_view()), name="mfa_activate_totp"),
    path("totp/deactivate/", ours(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path(
        "recovery-codes/",
        ours(RecoveryCodes.as_view()),
        name="mfa_view_recovery_codes",
    ),
    path(
        "recovery-codes/generate/",
        ours(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
]
