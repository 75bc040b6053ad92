"""Members of workspaces: their roles and permissions, and invitations to join.

Every verb takes the acting member and checks their permission itself, so no page can
forget the check.
"""

import secrets
from datetime import timedelta
from enum import StrEnum, auto
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from verification import links
from verification.db.encryption import keyed_hash
from verification.jobs.claims import sweep
from verification.jobs.names import JobName
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, cancel, notify
from verification.values.clock import now
from verification.values.local_time import utc_text
from verification.values.public_text import find_text_fault
from workspaces.logins import lock_address
from workspaces.models import Invitation, Member, Role, Workspace

INVITATION_LIFETIME = timedelta(days=7)
# An invitation brings a message to any address, so a day has few of them.
INVITATIONS_PER_DAY, ONE_DAY = 50, timedelta(days=1)
# Of a workspace that is not live: nobody has reviewed who opened it.
UNREVIEWED_PER_DAY, MAX_UNREVIEWED_OPEN = 20, 10


class Permission(StrEnum):
    SEE = auto()
    # Keys, API requests, webhooks, the balance, members, going live, the audit trail
    SEE_ADMINISTRATION = auto()
    MANAGE_KEYS = auto()
    MANAGE_WEBHOOKS = auto()
    MANAGE_MONITORING = auto()
    MANAGE_MEMBERS = auto()
    MANAGE_OWNERS = auto()
    MANAGE_SETTINGS = auto()
    MANAGE_MAILBOX = auto()
    DECIDE_CORRECTIONS = auto()
    # Approve or decline reports, confirm or refuse what others propose, and mark
    # alerts as read
    DECIDE_REPORTS = auto()
    # Send data subjects links to their own data
    ANSWER_SUBJECTS = auto()
    # Order reports, launch, edit, cancel and retry them, and send their links again
    ORDER = auto()
    # Export details of people that are not masked
    EXPORT_IN_FULL = auto()
    GO_LIVE = auto()
    CLOSE = auto()


P = Permission
_ADMIN = {
    P.SEE,
    P.SEE_ADMINISTRATION,
    P.MANAGE_KEYS,
    P.MANAGE_WEBHOOKS,
    P.MANAGE_MONITORING,
    P.MANAGE_MEMBERS,
    P.MANAGE_SETTINGS,
    P.MANAGE_MAILBOX,
    P.DECIDE_CORRECTIONS,
    P.DECIDE_REPORTS,
    P.ANSWER_SUBJECTS,
    P.ORDER,
    P.EXPORT_IN_FULL,
    P.GO_LIVE,
}
# The permissions of each role; nothing else decides what a role may do.
ALLOWED: dict[str, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.ADMIN: frozenset(_ADMIN),
    Role.OFFICER: frozenset({P.SEE, P.ORDER, P.DECIDE_REPORTS}),
    Role.VIEWER: frozenset({P.SEE, P.SEE_ADMINISTRATION}),
}


class NotAllowed(Exception):
    """The member's role lacks the permission."""


class LastOwner(Exception):
    """A workspace keeps at least one owner."""


class AlreadyMember(Exception):
    """A member has this address already, or staff name an owner beside members."""


class TooManyInvitations(Exception):
    """The workspace has sent as many invitations within a day as it may."""


class TooManyOpenInvitations(Exception):
    """The workspace is not live, and MAX_UNREVIEWED_OPEN invitations are open."""


class InvitationEnded(Exception):
    """The invitation is unknown, used, withdrawn, expired, or for another address."""


class WorkspaceSuspended(Exception):
    """Staff have suspended the workspace, or its owner has closed it."""


def has_permission(member: Member, permission: Permission) -> bool:
    return permission in ALLOWED[member.role]


def require_permission(member: Member, permission: Permission) -> None:
    if not has_permission(member, permission):
        raise NotAllowed(permission)


def require_present(actor: Member, permission: Permission) -> None:
    """Raise NotAllowed unless the member has the permission at this moment.

    For functions without a member: the role may change during a request.
    """
    found = Member.objects.filter(pk=actor.pk).first()
    if found is None:
        raise NotAllowed(permission)
    require_permission(found, permission)


def lock_member(member_id: UUID, workspace_id: UUID, permission: Permission) -> Member:
    """Return the member, whose permission cannot change until the commit.

    Raises NotAllowed.
    """
    found = _locked_members().filter(pk=member_id, workspace=workspace_id).first()
    if found is None:
        raise NotAllowed(permission)
    require_permission(found, permission)
    return found


@transaction.atomic
def invite(actor: Member, email: str, role: Role) -> Invitation:
    """Invite a person by e-mail, in place of an open invitation of the address.

    Raises NotAllowed, AlreadyMember, TooManyInvitations and TooManyOpenInvitations.
    """
    lock_workspace(actor.workspace_id)
    _require_authority_over(actor, actor.workspace_id, role)
    workspace = actor.workspace
    today = workspace.invitations.filter(created_at__gt=now() - ONE_DAY)
    most = INVITATIONS_PER_DAY if workspace.is_live else UNREVIEWED_PER_DAY
    if today.count() >= most:
        raise TooManyInvitations
    others = _unanswered(workspace.invitations).exclude(email_hash=email_hash(email))
    if not workspace.is_live and others.count() >= MAX_UNREVIEWED_OPEN:
        raise TooManyOpenInvitations
    return _invite(workspace, email, role, actor.user)


@transaction.atomic
def assign_owner(workspace: Workspace, email: str) -> bool:
    """Make the user with this address the owner, or invite the address to be it.

    Staff call this for a workspace that they create, and again with another address
    while nobody has joined: earlier invitations end. Returns False for an invitation.
    Raises AlreadyMember if the workspace has a member.
    """
    workspace = lock_workspace(workspace.pk)
    if workspace.members.exists():
        raise AlreadyMember
    withdraw_all_invitations(workspace)
    if workspace.contact == workspace.owner_email:
        workspace.contact = email
    workspace.owner_email = email
    workspace.save(update_fields=["contact", "owner_email"])
    # Anybody can sign up with an address that they do not own.
    user = User.objects.filter(
        is_active=True,
        emailaddress__email__iexact=email.strip(),
        emailaddress__verified=True,
    ).first()
    if user:
        Member.objects.create(workspace=workspace, user=user, role=Role.OWNER)
    else:
        _invite(workspace, email, Role.OWNER, None)
    return user is not None


@transaction.atomic
def withdraw_invitation(actor: Member, invitation: Invitation) -> None:
    """End the invitation's link. Raises NotAllowed and InvitationEnded."""
    lock_workspace(invitation.workspace_id)
    _require_authority_over(actor, invitation.workspace_id, Role(invitation.role))
    # The invitee may have accepted it while the page was open.
    unanswered = open_invitations().select_for_update(of=("self",))
    if (waiting := unanswered.filter(pk=invitation.pk).first()) is None:
        raise InvitationEnded
    _end_invitation(waiting)


def withdraw_all_invitations(workspace: Workspace) -> None:
    """End all open invitations of a workspace that closes. Needs a transaction."""
    for invitation in _unanswered(workspace.invitations).select_for_update():
        _end_invitation(invitation)


@job
def end_expired_invitations() -> None:
    expired = Invitation.objects.filter(expires_at__lte=now())
    sweep(_unanswered(expired), _end_unanswered)


@transaction.atomic
def _end_unanswered(pk: UUID) -> None:
    invitations = _unanswered(Invitation.objects.select_for_update())
    _end_invitation(invitations.get(pk=pk))


@transaction.atomic
def accept(user: User, token: str) -> Member:
    """Make the user a member. Raises InvitationEnded, also at the second call."""
    invitation = lock_open_invitation(token)
    if invitation is None or bytes(invitation.email_hash) != email_hash(user.email):
        raise InvitationEnded
    _end_invitation(invitation, accepted=True)
    member, _ = Member.objects.get_or_create(
        workspace=invitation.workspace, user=user, defaults={"role": invitation.role}
    )
    return member


def find_open_invitation(token: str) -> Invitation | None:
    return _usable_invitations().filter(token_digest=links.digest(token)).first()


def lock_open_invitation(token: str) -> Invitation | None:
    """Return the open invitation, which stays open until the transaction ends."""
    if known := find_open_invitation(token):
        lock_address(str(known.email))
        lock_workspace(known.workspace_id)
    found = _usable_invitations().select_for_update(of=("self",))
    return found.filter(token_digest=links.digest(token)).first()


def is_invited(email: str) -> bool:
    return open_invitations().filter(email_hash=email_hash(email)).exists()


def open_invitations() -> QuerySet[Invitation]:
    waiting = _unanswered(Invitation.objects.select_related("workspace"))
    return waiting.filter(expires_at__gt=now())


def _unanswered(invitations: Any) -> Any:
    return invitations.filter(accepted_at=None, revoked_at=None)


def _usable_invitations() -> QuerySet[Invitation]:
    """Return open invitations of workspaces that are not suspended."""
    return open_invitations().filter(workspace__suspended_at=None)


@transaction.atomic
def change_role(actor: Member, member: Member, role: Role) -> None:
    """Change the role of a member. Raises NotAllowed and LastOwner."""
    member = _lock_member(member)
    _require_authority_over(actor, member.workspace_id, Role(member.role))
    _require_authority_over(actor, member.workspace_id, role)
    if role != Role.OWNER:
        _require_another_owner(member)
    member.role = role
    member.save(update_fields=["role"])
    schedule_job(JobName.RELEASE_CASES, member.pk)


@transaction.atomic
def follow_groups(
    workspace_id: UUID, user: User, role: Role | None
) -> tuple[str, Member] | None:
    """Give the user the role that an identity provider grants; None removes the member.

    Returns the change of the member, or None without one: the last owner stays an
    owner, and a suspended workspace gets no new members.
    """
    lock_workspace(workspace_id)
    members = _locked_members().select_related("workspace").filter(user=user)
    member = members.filter(workspace=workspace_id).first()
    if member is None:
        workspace = Workspace.objects.get(pk=workspace_id)
        if role is None or workspace.is_suspended:
            return None
        return "added", Member.objects.create(workspace=workspace, user=user, role=role)
    if member.role == role:
        return None
    try:
        _require_another_owner(member)
    except LastOwner:
        return None
    if role is None:
        removed = Member(pk=member.pk, workspace_id=workspace_id)
        member.delete()
        return "removed", removed
    member.role = role
    member.save(update_fields=["role"])
    schedule_job(JobName.RELEASE_CASES, member.pk)
    return "role-changed", member


@transaction.atomic
def remove(actor: Member, member: Member) -> None:
    """Remove a member. Raises NotAllowed and LastOwner."""
    member = _lock_member(member)
    _require_authority_over(actor, member.workspace_id, Role(member.role))
    _require_another_owner(member)
    member.delete()


@transaction.atomic
def leave(member: Member) -> None:
    """Let a member leave, except the last owner. Raises LastOwner."""
    member = _lock_member(member)
    _require_another_owner(member)
    member.delete()


def email_hash(email: str) -> bytes:
    return keyed_hash("member e-mail", email.strip().casefold())


def _require_authority_over(actor: Member, workspace_id: UUID, role: Role) -> None:
    """Raise NotAllowed unless the actor may give and take this role there."""
    needed = P.MANAGE_OWNERS if role == Role.OWNER else P.MANAGE_MEMBERS
    if actor.workspace_id != workspace_id:
        raise NotAllowed(needed)
    require_present(actor, needed)


def lock_workspace(workspace_id: UUID) -> Workspace:
    """Lock the workspace, so that no other transaction changes it or its members."""
    return Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)


def lock_active_workspace(workspace_id: UUID) -> Workspace:
    """Lock the workspace, so that it is not closed meanwhile.

    Raises WorkspaceSuspended.
    """
    workspace = lock_workspace(workspace_id)
    if workspace.is_suspended:
        raise WorkspaceSuspended
    return workspace


def _lock_member(member: Member) -> Member:
    """Re-read the member under the workspace's lock and their own."""
    lock_workspace(member.workspace_id)
    return _locked_members().select_related("workspace", "user").get(pk=member.pk)


def _locked_members() -> QuerySet[Member]:
    # Like the lock of an UPDATE, it lets others insert rows that refer to the member.
    return Member.objects.select_for_update(of=("self",), no_key=True)


def _require_another_owner(member: Member) -> None:
    if is_last_owner(member):
        raise LastOwner


def is_last_owner(member: Member) -> bool:
    owners = Member.objects.filter(
        workspace=member.workspace_id, role=Role.OWNER, user__is_active=True
    )
    return member.role == Role.OWNER and not owners.exclude(pk=member.pk).exists()


def _invite(
    workspace: Workspace, email: str, role: Role, by: User | None
) -> Invitation:
    lock_workspace(workspace.pk)
    hashed = email_hash(email)
    if any(
        email_hash(known) == hashed
        for known in workspace.members.values_list("user__email", flat=True)
    ):
        raise AlreadyMember
    for before in _unanswered(workspace.invitations).filter(email_hash=hashed):
        _end_invitation(before)
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        email=email,
        email_hash=hashed,
        role=role,
        token_digest=links.digest(token),
        invited_by=by,
        expires_at=now() + INVITATION_LIFETIME,
    )
    _send_invitation(invitation, token)
    return invitation


def _send_invitation(invitation: Invitation, token: str) -> None:
    """Send the link, with names only if staff have reviewed the workspace."""
    workspace, by = invitation.workspace, invitation.invited_by
    names: dict[str, str] = {}
    if workspace.is_live:
        inviter = by.get_full_name() if by else ""
        names = {
            "workspace": workspace.requester.name,
            **workspace.requester.message_context,
            # No staff have reviewed the names of people.
            "by": "" if find_text_fault(inviter) else inviter,
        }
    notify(
        OutgoingMessage(
            Kind.INVITATION,
            Channel.EMAIL,
            cause=cause_of(invitation),
            recipient=str(invitation.email),
            context={
                **names,
                "role": invitation.role,
                "url": f"{settings.BASE_URL}/console/invitations/{token}",
                "expiresAt": utc_text(invitation.expires_at),
            },
            workspace_id=invitation.workspace_id,
        )
    )


def _end_invitation(invitation: Invitation, *, accepted: bool = False) -> None:
    if accepted:
        invitation.accepted_at = now()
    else:
        invitation.revoked_at = now()
        cancel(cause_of(invitation))
    invitation.email = None
    invitation.save(update_fields=["accepted_at", "revoked_at", "email"])


def cause_of(invitation: Invitation) -> str:
    return f"invitation:{invitation.pk}"
