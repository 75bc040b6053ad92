"""Addresses besides the members' that get the messages of a workspace's sandbox.

A member adds an address, the service sends it a code, and the member types the code. So
the reader of each address has agreed to get messages of the sandbox.
"""

import secrets
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.crypto import constant_time_compare

from verification.db.encryption import keyed_hash
from verification.db.ids import uuid7
from verification.notifications.models import Channel, Kind, SandboxAddress
from verification.notifications.outbox import OutgoingMessage, cancel, notify
from verification.notifications.recipients import count_today, exact_address_hash
from verification.values.clock import now
from workspaces.members import Permission, lock_workspace, require_permission
from workspaces.models import Member

MAX_ADDRESSES, CODES_PER_DAY = 10, 20
CODE_LIFETIME, MAX_TRIES = timedelta(minutes=30), 5


class TooManyAddresses(Exception):
    """The workspace has MAX_ADDRESSES, or has sent CODES_PER_DAY today."""


class WrongCode(Exception):
    """The code is wrong or too old, or there were too many wrong codes."""


@transaction.atomic
def add(actor: Member, channel: Channel, address: str, language: str) -> SandboxAddress:
    """Send a code to the address, unless it is confirmed. Returns its row.

    A new code replaces the last one. Raises NotAllowed and TooManyAddresses.
    """
    require_permission(actor, Permission.MANAGE_MAILBOX)
    workspace = actor.workspace
    if channel == Channel.SMS and not workspace.is_live:
        raise ValueError("a workspace that is not live sends no SMS")
    lock_workspace(workspace.pk)
    hashed = exact_address_hash(channel, address)
    found = workspace.sandbox_addresses.filter(address_hash=hashed).first()
    if found and found.confirmed_at:
        return found
    if found:
        found.delete()
    if workspace.sandbox_addresses.count() >= MAX_ADDRESSES or not count_today(
        f"codes:{workspace.pk}", CODES_PER_DAY
    ):
        raise TooManyAddresses
    row, code = uuid7(), f"{secrets.randbelow(10**6):06}"
    added = SandboxAddress.objects.create(
        id=row,
        workspace=workspace,
        channel=channel,
        address=address,
        address_hash=hashed,
        code_hash=_code_hash(row, code),
    )
    notify(
        OutgoingMessage(
            Kind.SANDBOX_ADDRESS,
            channel,
            cause_of(added),
            address,
            {
                **(workspace.requester.message_context if workspace.is_live else {}),
                "code": code,
            },
            language,
            workspace.pk,
        )
    )
    return added


def confirm(actor: Member, row: UUID, code: str) -> None:
    """Confirm the address by its code, so that it gets messages.

    Raises NotAllowed, WrongCode and SandboxAddress.DoesNotExist.
    """
    require_permission(actor, Permission.MANAGE_MAILBOX)
    waiting = SandboxAddress.objects.filter(pk=row, workspace=actor.workspace_id)
    open_rows = waiting.filter(
        confirmed_at=None,
        wrong_codes__lt=MAX_TRIES,
        created_at__gt=now() - CODE_LIFETIME,
    )
    # Count before the comparison, so that concurrent tries are limited too.
    may_try = open_rows.update(wrong_codes=F("wrong_codes") + 1)
    found = waiting.get()
    if found.confirmed_at:
        return
    known = bytes(found.code_hash or b"")
    if not (may_try and constant_time_compare(known, _code_hash(row, code.strip()))):
        raise WrongCode
    waiting.update(confirmed_at=now(), code_hash=None)


@transaction.atomic
def remove(actor: Member, row: UUID) -> None:
    """Remove an address and cancel its code's message. Raises NotAllowed."""
    require_permission(actor, Permission.MANAGE_MAILBOX)
    found = SandboxAddress.objects.filter(pk=row, workspace=actor.workspace_id)
    if found.delete()[0]:
        cancel(cause_of(SandboxAddress(row)))


def cause_of(address: SandboxAddress) -> str:
    return f"sandbox-address:{address.pk}"


def _code_hash(row: UUID, code: str) -> bytes:
    return keyed_hash("sandbox address code", row, code)
