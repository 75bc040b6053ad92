"""allauth's views, with our language choice, cache headers and rate limits."""

from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from allauth.account import views as account
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.internal.flows.reauthentication import reauthenticate_by_password
from allauth.account.internal.stagekit import (
    clear_login,
    get_pending_stage,
    unstash_login,
)
from allauth.account.mixins import NextRedirectMixin
from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from allauth.mfa.base import views as mfa
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.utils import is_mfa_enabled
from allauth.mfa.webauthn import views as webauthn
from allauth.mfa.webauthn.internal import auth as webauthn_auth
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.sessions.exceptions import SessionInterrupted
from django.db import connection, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import Resolver404, resolve, reverse, reverse_lazy
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from verification.accounts import colleagues, lockout, openid, provider_grants, sessions
from verification.accounts.adapters import SecondFactorStage
from verification.accounts.forms import FirstPasswordForm
from verification.backoffice import audit
from verification.web.pages import View, allow_sources, private_page
from workspaces import members, rate_limits
from workspaces.models import Invitation

PASSKEY, APP = Authenticator.Type.WEBAUTHN, Authenticator.Type.TOTP


def account_page(
    view: View,
    *,
    limit: int | None = None,
    script: bool = False,
    calls_provider: bool = False,
) -> View:
    """Make a view of allauth a private page of ours.

    `limit` is the number of forms that an address may send in a minute. `script` lets
    the page run our script files, which passkeys need. The view runs in a transaction,
    unless it calls an identity provider: allauth would leave half of a change. Forms of
    one user run one after another.
    """

    @transaction.atomic
    def run_alone(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST" and isinstance(request.user, User):
            users = User.objects.select_for_update(no_key=True)
            request.user.refresh_from_db(from_queryset=users)
            # The form before may have ended this session.
            if not request.session.exists(request.session.session_key or ""):
                raise SessionInterrupted
        answer = view(request, *args, **kwargs)
        # allauth would record a new factor, and mail it, after the commit: never, if
        # the connection is lost then. Calls of our own are robust.
        calls: list[Any] = connection.run_on_commit
        connection.run_on_commit = [one for one in calls if one[2]]
        for _ids, call, is_robust in calls:
            if not is_robust:
                call()
        return answer

    run = view if calls_provider else run_alone

    @private_page
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if (
            limit
            and request.method == "POST"
            and _is_rate_limited(request, view, limit)
        ):
            return render(request, "429.html", status=429)
        response = run(request, *args, **kwargs)
        # Rendered here, while the language of `private_page` is active.
        if hasattr(response, "render") and not getattr(response, "is_rendered", True):
            response.render()
        lockout.set_device_cookie(request, response)
        if script:
            allow_sources(response, script_src=["'self'"])
        return response

    return shown


def logout(request: HttpRequest) -> HttpResponse:
    """Log out, and then at the provider that has logged the user in."""
    page = request.session.get(sessions.PROVIDER_PAGE)
    answer: HttpResponse = account.logout(request)
    if request.method == "POST" and page:
        return openid.leave_for(request, **page)
    return answer


@login_required
@reauthentication_required
def email(request: HttpRequest) -> HttpResponse:
    """Let a new address replace the old one once its link is opened."""
    assert isinstance(request.user, User)  # noqa: S101
    if provider_grants.required_provider(request.user):
        raise Http404
    if "action_primary" in request.POST:
        # allauth would accept an unconfirmed address of a user without another.
        raise Http404
    answer: HttpResponse = account.email(request)
    return answer


@login_required
def change_password(request: HttpRequest) -> HttpResponse:
    """Change the password; an account without one gets a link by which to choose it."""
    assert isinstance(request.user, User)  # noqa: S101
    if provider_grants.required_provider(request.user):
        raise Http404
    if not request.user.has_usable_password():
        return HttpResponseRedirect(reverse("account_reset_password"))
    answer: HttpResponse = account.password_change(request)
    return answer


@login_required
@reauthentication_required(allow_get=True)
def session_list(request: HttpRequest) -> HttpResponse:
    """List the user's open sessions; a POST ends one of them, or all others."""
    assert isinstance(request.user, User)  # noqa: S101
    if request.method != "POST":
        shown = {"sessions": sessions.open_sessions(request)}
        return render(request, "account/sessions.html", shown)
    if name := request.POST.get("session"):
        ended = sessions.end_session(request.user, name)
    else:
        ended = sessions.end_other_sessions(request, request.user) > 0
    if ended:
        audit.record("user.other-sessions-ended", audit.actor_of(request), request.user)
        messages.success(request, _("It is logged out there."))
    return HttpResponseRedirect(reverse("account_sessions"))


class RecoveryCodesFirstMixin(NextRedirectMixin):
    """Show the new recovery codes before the page that the visitor wants."""

    did_generate_recovery_codes = False

    def get_success_url(self) -> str:
        after = self.get_next_url()
        if not self.did_generate_recovery_codes:
            return after or reverse("mfa_index")
        codes = reverse("mfa_view_recovery_codes")
        return f"{codes}?{urlencode({REDIRECT_FIELD_NAME: after})}" if after else codes


class ActivateAppView(RecoveryCodesFirstMixin, totp.ActivateTOTPView):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST" and is_mfa_enabled(request.user, [APP]):
            # A second press: allauth would lead to the removal of the factor.
            self.did_generate_recovery_codes = True
            return HttpResponseRedirect(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)


class AddPasskeyView(RecoveryCodesFirstMixin, webauthn.AddWebAuthnView):
    def get_context_data(self, **more: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super().get_context_data(**more)
        options = webauthn_auth.begin_registration(self.request.user, passwordless=True)
        # allauth drops `more`, such as the form with its errors.
        return shown | more | {"js_data": {"creation_options": options}}


class PasskeyLoginView(webauthn.LoginWebAuthnView):
    template_name = "mfa/webauthn/login.html"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data())

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form))

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        options = webauthn_auth.begin_authentication()
        return super().get_context_data(**more) | {
            "js_data": {"request_options": options}
        }


class SecondStepView(mfa.AuthenticateView):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        stage = get_pending_stage(request)
        if isinstance(stage, SecondFactorStage) and stage.is_outdated:
            clear_login(request)
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        has_passkey = is_mfa_enabled(self.stage.login.user, [PASSKEY])
        return super().get_context_data(**more) | {"has_passkey": has_passkey}


class ReauthenticateByPasskeyView(webauthn.ReauthenticateWebAuthnView):
    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data() | {"form": form})


class RemovePasskeyView(webauthn.RemoveWebAuthnView):
    success_url = reverse_lazy("mfa_index")


class RecoveryCodesView(recovery_codes.ViewRecoveryCodesView):
    def get_context_data(self, **more: Any) -> dict[str, Any]:
        after = get_next_redirect_url(self.request)
        return super().get_context_data(**more) | {"after": after}


class AccountView(mfa.IndexView):
    def get_context_data(self, **more: Any) -> dict[str, Any]:
        provider = provider_grants.required_provider(self.request.user)
        return super().get_context_data(**more) | {"provider": provider}


class LoginView(account.LoginView):
    """The form has the address of the invitation from which the visitor comes.

    A provider that the page does not name shows itself once an address of its domains
    is typed.
    """

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        typed = provider_grants.provider_of(self.request.POST.get("login", ""))
        listed = [
            one
            for one in settings.IDENTITY_PROVIDERS.values()
            if one == typed or not one.hidden
        ]
        shown = {"providers": listed, "typed": typed}
        return super().get_context_data(**more) | shown

    def get_initial(self) -> dict[str, Any]:
        invitation = _invitation(self.get_next_url() or "")
        return {"login": invitation.email} if invitation else {}


def _invitation(url: str) -> Invitation | None:
    try:
        page = resolve(urlsplit(url).path)
    except Resolver404:
        return None
    if page.view_name != "console:invitation":
        return None
    return members.find_open_invitation(page.kwargs["token"])


class LinkSentView(account.EmailVerificationSentView):
    """Name the address that was typed: also of a sign-up that makes no account."""

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        login = unstash_login(self.request, peek=True)
        email = (login.email or getattr(login.user, "email", "")) if login else ""
        return super().get_context_data(**more) | {"email": email}


class ConfirmEmailView(account.ConfirmEmailView):
    """Lead to the page that the visitor wants, or the console, after a login.

    A new address of an account counts once its user has logged in: it may be mistyped,
    and its reader a stranger, who could then choose a new password.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            user = self.get_object().email_address.user
        except Http404:
            return super().dispatch(request, *args, **kwargs)
        has_another = user.emailaddress_set.filter(verified=True).exists()
        if has_another and request.user != user:
            self.logout()
            after = urlencode({REDIRECT_FIELD_NAME: request.get_full_path()})
            return HttpResponseRedirect(f"{reverse('account_login')}?{after}")
        return super().dispatch(request, *args, **kwargs)

    def get_redirect_url(self) -> str:
        after = self.get_next_url() or reverse("console:home")
        if self.request.user.is_authenticated:
            return after
        return f"{reverse('account_login')}?{urlencode({REDIRECT_FIELD_NAME: after})}"


def join(request: HttpRequest, token: str) -> HttpResponse:
    """Let an invited colleague choose a password and set up a second factor."""
    if (user := colleagues.find_invited(token)) is None:
        return render(request, "account/join_over.html", status=404)
    form = FirstPasswordForm(request.POST or None, user=user)
    if request.method != "POST" or not form.is_valid():
        return render(request, "account/join.html", {"form": form, "invited": user})
    colleagues.accept_invitation(user, form.cleaned_data["password1"])
    audit.record("user.joined", audit.actor_of(request, user), user)
    login = Login(user=user, redirect_url=reverse("admin:index"))
    answer = perform_password_login(request, {"email": user.email}, login)
    if request.user.is_authenticated:
        # The new password counts as typed, so the page of the second factor does not
        # ask for it. A reactivated colleague has a factor and types its code first.
        reauthenticate_by_password(request)
    return answer


def _is_rate_limited(request: HttpRequest, view: View, limit: int) -> bool:
    # All functions that `as_view` returns have the same name.
    form = f"form {getattr(view, 'view_class', view).__name__}"
    address = lockout.client_network(request) or ""
    return rate_limits.count_for_address(address, form, limit).exceeded
