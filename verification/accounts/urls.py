"""The pages of allauth that this service offers. Its other pages do not exist."""

from typing import Any

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from django.urls import URLPattern, path

from verification.accounts import openid, views
from verification.web.pages import View


def _page(route: str, name: str, view: View, **options: Any) -> URLPattern:
    return path(route, views.account_page(view, **options), name=name)


urlpatterns = [
    _page("login/", "account_login", views.LoginView.as_view(), limit=30),
    _page(
        "login/<slug:provider_id>/",
        "openid_connect_login",
        openid.begin_login,
        limit=30,
        calls_provider=True,
    ),
    _page(
        "login/<slug:provider_id>/callback/",
        "openid_connect_callback",
        openid.end_login,
        calls_provider=True,
    ),
    _page(
        "login/<slug:provider_id>/logout/",
        "openid_connect_end_sessions",
        openid.end_sessions,
        limit=600,
        calls_provider=True,
    ),
    _page("logout/", "account_logout", views.logout),
    _page("signup/", "account_signup", account.signup, limit=10),
    _page("join/<str:token>/", "account_join", views.join, limit=10),
    _page("inactive/", "account_inactive", account.account_inactive),
    _page(
        "reauthenticate/", "account_reauthenticate", account.reauthenticate, limit=30
    ),
    _page(
        "confirm-email/",
        "account_email_verification_sent",
        views.LinkSentView.as_view(),
    ),
    _page(
        "confirm-email/<str:key>/",
        "account_confirm_email",
        views.ConfirmEmailView.as_view(),
    ),
    _page("email/", "account_email", views.email, limit=10),
    _page("password/change/", "account_change_password", views.change_password),
    _page(
        "password/reset/", "account_reset_password", account.password_reset, limit=10
    ),
    _page(
        "password/reset/done/",
        "account_reset_password_done",
        account.password_reset_done,
    ),
    _page(
        "password/reset/key/done/",
        "account_reset_password_from_key_done",
        account.password_reset_from_key_done,
    ),
    _page(
        "password/reset/key/<str:uidb36>/<str:key>/",
        "account_reset_password_from_key",
        account.password_reset_from_key,
    ),
    _page("security/", "mfa_index", views.AccountView.as_view()),
    _page("sessions/", "account_sessions", views.session_list),
    _page(
        "code/",
        "mfa_authenticate",
        views.SecondStepView.as_view(),
        limit=30,
        script=True,
    ),
    _page("code/again/", "mfa_reauthenticate", mfa.reauthenticate, limit=30),
    _page(
        "passkeys/login/",
        "mfa_login_webauthn",
        views.PasskeyLoginView.as_view(),
        limit=30,
        script=True,
    ),
    _page(
        "passkeys/add/", "mfa_add_webauthn", views.AddPasskeyView.as_view(), script=True
    ),
    _page(
        "passkeys/again/",
        "mfa_reauthenticate_webauthn",
        views.ReauthenticateByPasskeyView.as_view(),
        limit=30,
        script=True,
    ),
    _page(
        "passkeys/<int:pk>/remove/",
        "mfa_remove_webauthn",
        views.RemovePasskeyView.as_view(),
    ),
    _page("totp/activate/", "mfa_activate_totp", views.ActivateAppView.as_view()),
    _page("totp/deactivate/", "mfa_deactivate_totp", totp.deactivate_totp),
    _page(
        "recovery-codes/", "mfa_view_recovery_codes", views.RecoveryCodesView.as_view()
    ),
    _page(
        "recovery-codes/generate/",
        "mfa_generate_recovery_codes",
        recovery_codes.generate_recovery_codes,
    ),
]
