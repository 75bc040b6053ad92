"""Closing a workspace: nothing of it works any more, and nothing of it is deleted.

What it has asked of people stays provable until its retention is over.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q
from django.utils.timezone import now

from monitoring.models import PauseReason, Rule, RuleStatus
from webhooks.models import Configuration
from workspaces.members import Permission, require, withdraw_all
from workspaces.models import ApiKey, Member

REASON = "Closed by its owner"


@transaction.atomic
def close(actor: Member) -> bool:
    """False if it was suspended already. Raises NotAllowed."""
    # As it is by now.
    actor = Member.objects.select_related("workspace").get(pk=actor.pk)
    require(actor, Permission.CLOSE)
    workspace, moment = actor.workspace, now()
    if not workspace.suspend(REASON):
        return False
    keys = ApiKey.objects.filter(workspace=workspace)
    keys.filter(Q(revoked_at=None) | Q(revoked_at__gt=moment)).update(revoked_at=moment)
    Rule.objects.filter(workspace=workspace, status=RuleStatus.ACTIVE).update(
        status=RuleStatus.PAUSED, pause_reason=PauseReason.BY_CLIENT, paused_at=moment
    )
    withdraw_all(workspace)
    Configuration.objects.filter(workspace=workspace).update(enabled=False)
    return True
