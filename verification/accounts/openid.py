"""Logins by OpenID Connect: allauth's provider, stricter where a provider may lie.

allauth sends the browser to the provider and exchanges the code (PKCE, state). Here are
the checks of the ID token (signature, issuer, audience, time, nonce), the claims that
count, and the pages. Nothing that a provider tells is stored but a digest of its id of
the person, and name and address of a new user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import jwt
from allauth.account.internal.emailkit import valid_email_or_none
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import (
    OpenIDConnectProvider,
)
from allauth.socialaccount.providers.openid_connect.views import (
    OpenIDConnectOAuth2Adapter,
)
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from requests import RequestException, Session

from verification.accounts import colleagues, provider_grants
from verification.accounts.provider_grants import LoginRefused
from verification.backoffice import audit
from verification.outbound.client import create_session
from verification.outbound.targets import Blocked
from verification.values.clock import now
from verification.values.formats import one_line
from workspaces.logins import has_account, lock_address, unconfirmed_users

if TYPE_CHECKING:
    from verification.settings.identity_providers import IdentityProvider

ALGORITHMS = [
    f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)
]
# The clocks of provider and service may differ by this many seconds.
LEEWAY = 60
# Providers write the claim that an address is verified in one of these ways.
YES = (True, "true", 1, "1")
MAX_NAME_LENGTH = 150
# Addresses in the discovery document
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
OPTIONAL_ENDPOINTS = ("userinfo_endpoint", "end_session_endpoint")
# The event in a logout token: OpenID Connect Back-Channel Logout 1.0, section 2.4
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
# The seconds for which a logout token is valid after its issue
LOGOUT_SECONDS = 300
LOGOUT_KEYS_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Claims:
    """The verified claims of a provider about the user."""

    uid: str
    email: str
    name: str
    groups: tuple[str, ...]
    has_second_factor: bool


def read_claims(
    provider: IdentityProvider, id_token: dict[str, Any], userinfo: dict[str, Any]
) -> Claims:
    """Return the claims that count. Raises LoginRefused.

    The ID token, which is signed, wins over the answer of the userinfo endpoint.
    """
    claims = {**userinfo, **id_token}
    verified = provider.email_verified_claim
    # Both of one answer: the other one may speak of another address.
    about = id_token if {"email", verified} <= set(id_token) else userinfo
    given = about.get("email")
    email = valid_email_or_none(given.strip()) if isinstance(given, str) else None
    if email is None or about.get(verified) not in YES:
        raise LoginRefused("address")
    owner = provider_grants.provider_of(email)
    if owner is None or owner.id != provider.id:
        raise LoginRefused("domain")
    name = claims.get("name")
    acr, amr = id_token.get("acr"), id_token.get("amr")
    methods = amr if isinstance(amr, list) else []
    return Claims(
        uid=_uid_of(id_token),
        email=email,
        name=one_line(name)[:MAX_NAME_LENGTH] if isinstance(name, str) else "",
        groups=_read_groups(provider.groups_claim, claims),
        has_second_factor=acr in provider.second_factor_acr
        or any(method in provider.second_factor_amr for method in methods),
    )


def _uid_of(token: dict[str, Any]) -> str:
    """Return the digest of the person's id, by which their account is found.

    The issuer is part of it: another one under the same id opens no account.
    """
    return hashlib.sha256(f"{token['iss']} {token['sub']}".encode()).hexdigest()


def _read_groups(name: str, claims: dict[str, Any]) -> tuple[str, ...]:
    """Return the groups. Raises LoginRefused if the provider left them out.

    Entra ID names no groups if they are more than 200, and says so by `_claim_names` or
    `hasgroups`.
    """
    groups = claims.get(name)
    if isinstance(groups, str):
        return (groups,)
    if isinstance(groups, list):
        return tuple(group for group in groups if isinstance(group, str))
    elsewhere = claims.get("_claim_names")
    is_left_out = isinstance(elsewhere, dict) and name in elsewhere
    if is_left_out or claims.get("hasgroups") in YES:
        raise LoginRefused("many-groups")
    return ()


class OpenIdAdapter(OpenIDConnectOAuth2Adapter):
    """allauth's calls to a provider, with all checks of the ID token."""

    @property
    def setting(self) -> IdentityProvider:
        found: IdentityProvider = settings.IDENTITY_PROVIDERS[self.provider_id]
        return found

    @property
    def openid_config(self) -> dict[str, Any]:
        if not hasattr(self, "_openid_config"):
            with get_adapter().get_requests_session() as session:
                answer = session.get(self.get_provider().server_url)
                answer.raise_for_status()
                found = answer.json()
            self._require_plausible(found)
            self._openid_config = found
        config: dict[str, Any] = self._openid_config
        return config

    def _require_plausible(self, found: Any) -> None:
        """Raise LoginRefused unless this is the document of the issuer."""
        if not isinstance(found, dict) or found.get("issuer") != self.setting.issuer:
            raise LoginRefused("token")
        schemes = {"https", urlsplit(self.setting.issuer).scheme}
        optional = [name for name in OPTIONAL_ENDPOINTS if name in found]
        for name in [*ENDPOINTS, *optional]:
            url = found.get(name)
            if not isinstance(url, str) or urlsplit(url).scheme not in schemes:
                raise LoginRefused("token")

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        # Visitors choose the Host header.
        path = reverse("openid_connect_callback", args=[self.provider_id])
        return settings.BASE_URL + path

    def get_access_token_data(
        self,
        request: HttpRequest,
        app: SocialApp,
        client: Any,
        pkce_code_verifier: Any = None,
    ) -> dict[str, Any]:
        self.nonce = nonce_for(str(pkce_code_verifier))
        try:
            data: dict[str, Any] = super().get_access_token_data(
                request, app, client, pkce_code_verifier
            )
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            if isinstance(e, RequestException):
                raise
            raise LoginRefused("token") from e
        return data

    def parse_token(self, data: dict[str, Any]) -> SocialToken:
        return SocialToken(token=str(data["access_token"]))

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **more: Any
    ) -> Any:
        id_token = self._read_id_token(app, more["response"].get("id_token"))
        userinfo: dict[str, Any] = {}
        wanted = {
            "email",
            self.setting.email_verified_claim,
            self.setting.groups_claim,
        }
        if "userinfo_endpoint" in self.openid_config and not wanted <= set(id_token):
            userinfo = self._fetch_user_info(token.token)
            if not isinstance(userinfo, dict) or userinfo.get("sub") != id_token["sub"]:
                raise LoginRefused("token")
        claims = read_claims(self.setting, id_token, userinfo)
        provider = self.get_provider()
        login = provider.sociallogin_from_response(request, claims)
        login.claims = claims
        login.logout_url = self._logout_url()
        return login

    def _logout_url(self) -> str:
        """Return where the browser ends the session at the provider, or ""."""
        url: str = self.openid_config.get("end_session_endpoint", "")
        if not url:
            return ""
        back = settings.BASE_URL + reverse(settings.LOGOUT_REDIRECT_URL)
        # Without the ID token as a hint, which would put the person into a URL.
        given = {"client_id": self.setting.client_id, "post_logout_redirect_uri": back}
        return f"{url}{'&' if '?' in url else '?'}{urlencode(given)}"

    def _read_id_token(self, app: SocialApp, id_token: Any) -> dict[str, Any]:
        """Return the claims of the ID token. Raises LoginRefused."""
        # Fetched at each login, so a provider may change its keys at any time.
        keys = self._fetch_keys()
        data = self._read_token(id_token, ["exp", "iat", "sub", "nonce"], keys)
        several = isinstance(data["aud"], list) and len(data["aud"]) > 1
        party = data.get("azp", None if several else app.client_id)
        if data["nonce"] != self.nonce or party != app.client_id:
            raise LoginRefused("token")
        return data

    def read_logout_token(self, token: Any) -> str:
        """Return the uid of the user to log out. Raises LoginRefused.

        Anybody can send one: so that strangers keep no login waiting, the keys are
        fetched once a minute, and no sooner from a provider that does not answer.
        """
        name = f"logout-keys:{self.setting.issuer}"
        keys = cache.get(name)
        if keys is None:
            keys = {}
            try:
                keys = self._fetch_keys()
            finally:
                cache.set(name, keys, LOGOUT_KEYS_SECONDS)
        if not keys:
            raise RequestException("The provider has not answered in the last minute.")
        data = self._read_token(token, ["iat", "sub", "jti", "events"], keys)
        events = data["events"]
        is_logout = isinstance(events, dict) and LOGOUT_EVENT in events
        is_old = now().timestamp() - int(data["iat"]) > LOGOUT_SECONDS
        if not is_logout or is_old or "nonce" in data:
            raise LoginRefused("token")
        return _uid_of(data)

    def _fetch_keys(self) -> Any:
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            return answer.json()

    def _read_token(self, token: Any, required: list[str], keys: Any) -> dict[str, Any]:
        """Return the claims of a token of this issuer for us. Raises LoginRefused."""
        try:
            data: dict[str, Any] = jwt.decode(
                token,
                _signing_key(keys, token),
                algorithms=ALGORITHMS,
                issuer=self.setting.issuer,
                audience=self.setting.client_id,
                leeway=LEEWAY,
                options={"require": ["iss", "aud", *required]},
            )
        except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError) as e:
            raise LoginRefused("token") from e
        return data


def _signing_key(keys: Any, id_token: Any) -> Any:
    """Return the key that the token names, or the only one. Raises what jwt raises."""
    found = [
        one for one in jwt.PyJWKSet.from_dict(keys).keys if one.public_key_use != "enc"
    ]
    id = jwt.get_unverified_header(id_token).get("kid")
    if id is not None:
        found = [one for one in found if one.key_id == id]
    if len(found) != 1:
        raise jwt.InvalidKeyError("The token names no key of the provider.")
    return found[0].key


def nonce_for(code_verifier: str) -> str:
    """Return the nonce of a login, derived from the secret that its session holds."""
    return hashlib.sha256(f"nonce {code_verifier}".encode()).hexdigest()


class Provider(OpenIDConnectProvider):
    """A provider of IDENTITY_PROVIDERS, as allauth knows it."""

    oauth2_adapter_class = OpenIdAdapter

    def redirect_from_request(self, request: HttpRequest) -> HttpResponse:
        # The visitor chooses neither scopes nor parameters nor another process.
        given = self.get_redirect_from_request_kwargs(request)
        answer: HttpResponse = self.redirect(
            request, AuthProcess.LOGIN, next_url=given.get("next_url")
        )
        return answer

    def get_pkce_params(self) -> dict[str, str]:
        params: dict[str, str] = super().get_pkce_params()
        return params | {"nonce": nonce_for(params["code_verifier"])}

    def serialize(self) -> dict[str, Any]:
        # Two providers may know the service under the same client id.
        return {"id": self.app.provider_id}

    def extract_uid(self, data: Claims) -> str:
        return data.uid

    def extract_extra_data(self, data: Claims) -> dict[str, Any]:
        return {}

    def extract_common_fields(self, data: Claims) -> dict[str, Any]:
        return {"email": data.email, "first_name": data.name}

    def extract_email_addresses(self, data: Claims) -> list[EmailAddress]:
        return [EmailAddress(email=data.email, verified=True, primary=True)]


class ProviderAdapter(DefaultSocialAccountAdapter):
    """The providers of IDENTITY_PROVIDERS, and the users that each may log in."""

    def list_apps(
        self,
        request: HttpRequest,
        provider: str | None = None,
        client_id: str | None = None,
    ) -> list[SocialApp]:
        return [
            _app(one)
            for one in settings.IDENTITY_PROVIDERS.values()
            if provider in (None, one.id, OpenIDConnectProvider.id)
            and client_id in (None, one.client_id)
        ]

    def get_requests_session(self) -> Session:
        # The provider of the page: no other one may name its private host.
        id = self.request.resolver_match.kwargs["provider_id"]
        one = settings.IDENTITY_PROVIDERS[id]
        opened = [urlsplit(one.issuer).netloc.lower()] if one.private else []
        return create_session(opened, seconds=provider_grants.CALL_SECONDS)

    def authenticate_by_email(self, sociallogin: Any) -> tuple[User, str] | None:
        """Return the user of the address; allauth links that user to the provider.

        A user with an unconfirmed change to this address does not count: anybody can
        request one. Nor does a stranger's account count beside the person's own.
        """
        email = sociallogin.claims.email
        is_own = Q(email__iexact=email)
        is_confirmed = Q(emailaddress__email__iexact=email, emailaddress__verified=True)
        found = User.objects.filter(is_own | is_confirmed)
        is_unconfirmed = Exists(unconfirmed_users().filter(pk=OuterRef("pk")))
        user = found.order_by(is_unconfirmed, "pk").first()
        return (user, email) if user else None

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Apply the groups of a known user. Raises LoginRefused."""
        provider = settings.IDENTITY_PROVIDERS[sociallogin.account.provider]
        grant = provider_grants.grant_of(provider, sociallogin.claims.groups)
        user = sociallogin.user
        if not sociallogin.is_existing:
            if not grant:
                raise LoginRefused("groups")
            waiting = EmailAddress.objects.filter(verified=False)
            waiting.filter(email__iexact=sociallogin.claims.email).delete()
            return
        if _has_another_account(user, sociallogin.account):
            raise LoginRefused("another", user)
        provider_grants.apply_grant(user, provider, grant)
        if not grant:
            raise LoginRefused("groups", user)
        email = sociallogin.claims.email
        provider_grants.follow_address(request, user, provider, email)

    @transaction.atomic
    def save_user(
        self, request: HttpRequest, sociallogin: Any, form: Any = None
    ) -> User:
        """Create the user with the roles that the groups grant."""
        provider = settings.IDENTITY_PROVIDERS[sociallogin.account.provider]
        grant = provider_grants.grant_of(provider, sociallogin.claims.groups)
        email = sociallogin.claims.email
        lock_address(email)
        if has_account(email):
            raise LoginRefused("ended")
        if grant.staff_roles:
            sociallogin.user.username = colleagues.make_username(email)
        user: User = super().save_user(request, sociallogin, form)
        audit.record(
            "user.created-by-provider",
            audit.actor_of(request, user),
            user,
            workspace_id=provider.workspace,
            reason=provider.name,
        )
        provider_grants.apply_grant(user, provider, grant)
        user.refresh_from_db()
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        """Answer with our page in place of allauth's."""
        reason, user = "token", None
        if isinstance(exception, LoginRefused):
            reason, user = exception.reason, exception.user
        elif isinstance(exception, RequestException):
            reason = "away"
        elif error == AuthError.CANCELLED:
            reason = "cancelled"
        elif exception is None and "state" not in (extra_context or {}):
            reason = "ended"
        known = settings.IDENTITY_PROVIDERS[provider.app.provider_id]
        raise ImmediateHttpResponse(
            provider_grants.refuse(request, known, reason, user)
        )


def _app(provider: IdentityProvider) -> SocialApp:
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=provider.id,
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.secret,
        settings={
            "server_url": provider.issuer.rstrip("/"),
            "scope": provider.scopes,
            "auth_params": _auth_params(provider),
        },
    )


def _auth_params(provider: IdentityProvider) -> dict[str, str]:
    acr = " ".join(provider.second_factor_acr)
    return {"acr_values": acr} if acr else {}


def _has_another_account(user: User, account: SocialAccount) -> bool:
    """Return whether the provider knew the user by another id.

    The address may have passed to another person, who must not get the account.
    """
    accounts = SocialAccount.objects.filter(user=user.pk, provider=account.provider)
    return accounts.exclude(uid=account.uid).exists()


def begin_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Answer a form with the page that leads to the provider."""
    provider = _find_provider(provider_id)
    if request.method != "POST":
        after = request.GET.get("next", "")
        query = f"?{urlencode({'next': after})}" if after else ""
        return HttpResponseRedirect(reverse("account_login") + query)
    adapter = OpenIdAdapter(request, provider_id)
    answer = _answer(
        request,
        provider,
        lambda: adapter.get_provider().redirect_from_request(request),
    )
    if not isinstance(answer, HttpResponseRedirect):
        return answer
    # No redirect: browsers apply the policy of the form's page to all its redirects.
    return leave_for(request, answer.url, provider.name)


def end_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Log in the user after the provider's redirect."""
    provider = _find_provider(provider_id)
    view = OAuth2CallbackView.adapter_view(OpenIdAdapter(request, provider_id))
    return _answer(request, provider, lambda: view(request))


@csrf_exempt
@require_POST
def end_sessions(request: HttpRequest, provider_id: str) -> HttpResponse:
    """End all sessions of a person after a logout at the provider (back-channel)."""
    provider = _find_provider(provider_id)
    adapter = OpenIdAdapter(request, provider_id)
    try:
        uid = adapter.read_logout_token(request.POST.get("logout_token"))
    except (RequestException, Blocked):
        return JsonResponse({"error": "temporarily_unavailable"}, status=503)
    except LoginRefused:
        audit.write_security_log(
            "provider-logout", "refused", request, provider=provider.id
        )
        return JsonResponse({"error": "invalid_request"}, status=400)
    found = SocialAccount.objects.filter(provider=provider.id, uid=uid)
    with transaction.atomic():
        for user in User.objects.filter(pk__in=found.values("user")):
            user.sessions.all().delete()
            audit.record(
                "user.logged-out-by-provider",
                audit.SERVICE,
                user,
                workspace_id=provider.workspace,
                reason=provider.name,
            )
    return HttpResponse()


def leave_for(request: HttpRequest, url: str, name: str) -> HttpResponse:
    """Return the page that leads on to a page of the provider."""
    return render(request, "account/provider_page.html", {"url": url, "name": name})


def _find_provider(provider_id: str) -> IdentityProvider:
    try:
        found: IdentityProvider = settings.IDENTITY_PROVIDERS[provider_id]
    except KeyError:
        raise Http404 from None
    return found


def _answer(
    request: HttpRequest,
    provider: IdentityProvider,
    answer: Callable[[], HttpResponse],
) -> HttpResponse:
    try:
        return answer()
    except (RequestException, Blocked):
        return provider_grants.refuse(request, provider, "away")
    except LoginRefused as e:
        return provider_grants.refuse(request, provider, e.reason, e.user)
    except OAuth2Error:
        return provider_grants.refuse(request, provider, "token")
    except (IntegrityError, User.DoesNotExist):
        # This person has opened an account elsewhere at the same moment.
        return provider_grants.refuse(request, provider, "ended")
