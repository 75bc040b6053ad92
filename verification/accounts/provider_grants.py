"""The logins that the providers of IDENTITY_PROVIDERS may make, and their grants.

A provider is believed for the addresses of its domains alone. Its groups grant a role
in its workspace, or roles of staff, and are applied at each login; without a grant the
access ends. Superusers log in by password and second factor: so no administrator of a
provider becomes one, and a superuser can log in while the provider is away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.contrib.auth.models import User
from django.core.checks import CheckMessage, Error
from django.db import OperationalError, ProgrammingError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.accounts import colleagues
from verification.backoffice import audit
from verification.backoffice.roles import is_superuser
from workspaces import members
from workspaces.logins import has_account, lock_address
from workspaces.models import Role, Workspace

if TYPE_CHECKING:
    from verification.settings.identity_providers import IdentityProvider

# Of a request to a provider, from its name's look-up to the last byte
CALL_SECONDS = 5.0
# Why a login is refused: what the page says
REFUSALS: dict[str, str | Promise] = {
    "address": _("The provider did not confirm your e-mail address, or gave none."),
    "another": _(
        "Another account of the provider has logged in with your e-mail address before."
    ),
    "away": _("The provider does not answer. Try again in a few minutes."),
    "cancelled": _("You have cancelled the login."),
    "closed": _("This account is closed"),
    "domain": _("The provider may not log in people with your e-mail address."),
    "ended": _("This login was begun elsewhere, or has expired. Begin again."),
    "groups": _("None of your groups has access. Ask your administrator for one."),
    "many-groups": _(
        "You are in so many groups that the provider leaves them out. Ask your administrator to send only the groups of this service."  # noqa: E501
    ),
    "password": _("People with your e-mail address log in by their organisation."),
    "superuser": _("Superusers log in by password and second factor."),
    "token": _("The provider did not confirm who you are. Begin again."),
}
RANKS = [Role.VIEWER, Role.OFFICER, Role.ADMIN, Role.OWNER]


class LoginRefused(OAuth2Error):
    """A login by a provider is refused; `reason` is a key of REFUSALS."""

    def __init__(self, reason: str, user: User | None = None) -> None:
        super().__init__(reason)
        self.reason, self.user = reason, user


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of a user's groups: a role of members, and roles of staff."""

    role: Role | None
    staff_roles: frozenset[str]

    def __bool__(self) -> bool:
        return self.role is not None or bool(self.staff_roles)


def provider_of(email: str) -> IdentityProvider | None:
    """Return the provider that owns the domain of the address."""
    domain = email.strip().rpartition("@")[2].lower()
    found = settings.IDENTITY_PROVIDERS.values()
    return next((one for one in found if domain in one.domains), None)


def has_no_password(email: str) -> bool:
    """Return whether a provider alone logs in people with this address."""
    provider = provider_of(email)
    return provider is not None and not provider.passwords


def required_provider(user: User) -> IdentityProvider | None:
    """Return the provider by which alone the user logs in.

    It has logged the user in before, or owns the domain of the address. A provider that
    allows passwords allows none for the people of another one.
    """
    if not settings.IDENTITY_PROVIDERS or is_superuser(user):
        return None
    accounts = SocialAccount.objects.filter(
        user=user.pk, provider__in=settings.IDENTITY_PROVIDERS
    )
    names = accounts.order_by("pk").values_list("provider", flat=True)
    found = [settings.IDENTITY_PROVIDERS[name] for name in names]
    if owner := provider_of(user.email):
        found.append(owner)
    return next((one for one in found if not one.passwords), None)


def grant_of(provider: IdentityProvider, groups: Iterable[str]) -> Grant:
    """Return the highest role, and all roles of staff, that the groups grant."""
    held = list(groups)
    roles = [Role(provider.roles[name]) for name in held if name in provider.roles]
    if roles and not _has_workspace(provider):
        roles = []
    staff_roles = {role for name in held for role in provider.staff_roles.get(name, ())}
    return Grant(max(roles, key=RANKS.index, default=None), frozenset(staff_roles))


def _has_workspace(provider: IdentityProvider) -> bool:
    if provider.workspace is None:
        return False
    return Workspace.objects.filter(pk=provider.workspace).exists()


def check_workspaces(
    databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Find providers of workspaces that do not exist, whose members cannot log in."""
    try:
        return [
            Error(
                f"IDENTITY_PROVIDERS gives {provider.id} the workspace "
                f"{provider.workspace}, which does not exist: its members cannot log "
                "in.",
                hint="Write the id of a workspace (docs/operator/access.md).",
                id="accounts.E001",
            )
            for provider in settings.IDENTITY_PROVIDERS.values()
            if databases and provider.workspace and not _has_workspace(provider)
        ]
    except (OperationalError, ProgrammingError):
        # Other checks say that the database is away, or has no tables yet.
        return []


def require_allowed(user: User, provider: IdentityProvider) -> None:
    """Raise LoginRefused if the provider must not log in this user.

    The provider of a workspace alone must not open an account of staff, which sees
    every workspace.
    """
    if not user.is_active:
        raise LoginRefused("closed", user)
    if is_superuser(user):
        raise LoginRefused("superuser", user)
    if user.is_staff and not provider.staff_roles:
        raise LoginRefused("domain", user)


@transaction.atomic
def apply_grant(user: User, provider: IdentityProvider, grant: Grant) -> None:
    """Give the user the roles that the groups grant, and take the others.

    Without a grant the user's sessions end. The last owner stays one, and cannot log
    in. Raises LoginRefused.
    """
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    lock_address(user.email)
    require_allowed(user, provider)
    reason = f"Groups of {provider.name}"
    if provider.workspace and _has_workspace(provider):
        change = members.follow_groups(provider.workspace, user, grant.role)
        if change:
            action, member = change
            audit.record(f"member.{action}", audit.SERVICE, member, reason=reason)
    if provider.staff_roles and colleagues.follow_groups(user, grant.staff_roles):
        audit.record("user.roles-changed", audit.SERVICE, user, reason=reason)
    if not grant:
        user.sessions.all().delete()


@transaction.atomic
def follow_address(
    request: HttpRequest, user: User, provider: IdentityProvider, email: str
) -> None:
    """Give the user the address that the provider has confirmed.

    The password ends unless the setting lets it be. It always ends if nobody had
    confirmed the address before: a stranger may have chosen both.
    """
    user.refresh_from_db(from_queryset=User.objects.select_for_update(no_key=True))
    lock_address(email)
    is_same = user.email.lower() == email
    if not is_same and has_account(email):
        return
    known = EmailAddress.objects.filter(user=user, email__iexact=email, verified=True)
    is_confirmed = known.exists()
    if not is_confirmed:
        EmailAddress.objects.filter(user=user).delete()
        EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    if not is_same:
        user.email = email
        user.save(update_fields=["email"])
        audit.record("user.email-changed", audit.actor_of(request, user), user)
    may_keep = provider.passwords and (is_confirmed or not is_same)
    if user.has_usable_password() and not may_keep:
        user.set_unusable_password()
        user.save(update_fields=["password"])


def refuse(
    request: HttpRequest,
    provider: IdentityProvider,
    reason: str,
    user: User | None = None,
) -> HttpResponse:
    """Record the refusal, and return the page that says why."""
    audit.write_security_log(
        "provider-login",
        "refused",
        request,
        provider=provider.id,
        reason=reason,
        user_id=user.pk if user else None,
    )
    if user is not None:
        audit.record(
            "user.provider-login-refused",
            audit.actor_of(request, user),
            user,
            workspace_id=provider.workspace,
            reason=f"{provider.name}: {reason}",
        )
    return render(
        request,
        "account/provider_refused.html",
        {"provider": provider, "reason": REFUSALS[reason]},
        status=503 if reason == "away" else 403,
    )
