"""Logins: passwords, second factors, lock-out and sessions.

Part of `verification.settings`, which has all of these names.
"""

from datetime import timedelta

from environs import Env

from verification.settings.connections import SPAN

env = Env()

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    # Old hashes are read, and replaced at the next login.
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "verification.accounts.passwords.MinimumLengthByRoleValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "verification.accounts.passwords.PasswordStrengthValidator"},
]
PASSWORD_RESET_TIMEOUT = 3600
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "console:home"
LOGOUT_REDIRECT_URL = "landing"

ACCOUNT_ADAPTER = "verification.accounts.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
# A person has one address; another one replaces it once it is confirmed.
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_CONFIRMATION_EXPIRE_DAYS = 3
ACCOUNT_PREVENT_ENUMERATION = True
# No mail to a stranger whose address somebody typed.
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_SESSION_REMEMBER = False
# The service counts attempts by address itself, over all processes.
ACCOUNT_RATE_LIMITS = {
    "login": None,
    "login_failed": None,
    "signup": None,
    "reset_password": "5/m/key",
    "reset_password_from_key": None,
}
ACCOUNT_FORMS = {
    "login": "verification.accounts.forms.LoginForm",
    "signup": "verification.accounts.forms.SignUpForm",
    "add_email": "verification.accounts.forms.AddEmailForm",
    "reset_password": "verification.accounts.forms.ResetPasswordForm",
    "reset_password_from_key": "verification.accounts.forms.NewPasswordForm",
    "change_password": "verification.accounts.forms.ChangePasswordForm",
    "reauthenticate": "verification.accounts.forms.ReauthenticateForm",
}
# Logins by the providers of IDENTITY_PROVIDERS
SOCIALACCOUNT_ADAPTER = "verification.accounts.openid.ProviderAdapter"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "provider_class": "verification.accounts.openid.Provider",
        "OAUTH_PKCE_ENABLED": True,
    }
}
# `openid.read_claims` has refused addresses that the provider does not own.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
MFA_ADAPTER = "verification.accounts.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
# Else nobody with a factor could ask for a new address, which counts once confirmed.
MFA_ALLOW_UNVERIFIED_EMAIL = True
# The challenge of any page can be answered at the login, where a passkey counts as both
# factors. So a key asks for its PIN or fingerprint each time: a thief has neither.
MFA_WEBAUTHN_USER_VERIFICATION = "required"
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_FORMS = {
    "authenticate": "verification.accounts.forms.CodeForm",
    "reauthenticate": "verification.accounts.forms.ReauthenticateByCodeForm",
    "activate_totp": "verification.accounts.forms.ActivateAppForm",
    "add_webauthn": "verification.accounts.forms.AddPasskeyForm",
    "authenticate_webauthn": "verification.accounts.forms.PasskeyForm",
    "login_webauthn": "verification.accounts.forms.PasskeyLoginForm",
    "reauthenticate_webauthn": "verification.accounts.forms.ConfirmByPasskeyForm",
}

# A lock-out is for a user name and a client address together.
AXES_ENABLE_ADMIN = False
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_HANDLER = "verification.accounts.lockout.AttemptHandler"
AXES_COOLOFF_TIME = timedelta(minutes=env.int("LOCKOUT_MINUTES", 15, validate=SPAN))
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_USERNAME_CALLABLE = "verification.accounts.lockout.hashed_username"
AXES_CLIENT_IP_CALLABLE = "verification.accounts.lockout.client_network"
AXES_LOCKOUT_CALLABLE = "verification.accounts.lockout.locked_response"
# Axes stores none of the values that a person typed.
AXES_SENSITIVE_PARAMETERS = ["login", "password", "code", "next", "email"]
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False

SESSION_ENGINE = "verification.accounts.sessions"
# The longest idle time, and the longest time since the login.
STAFF_SESSION = (
    timedelta(minutes=env.int("STAFF_IDLE_MINUTES", 15, validate=SPAN)),
    timedelta(hours=env.int("STAFF_SESSION_HOURS", 8, validate=SPAN)),
)
MEMBER_SESSION = (
    timedelta(minutes=env.int("MEMBER_IDLE_MINUTES", 120, validate=SPAN)),
    timedelta(hours=env.int("MEMBER_SESSION_HOURS", 24, validate=SPAN)),
)
