"""The seals of audit events, and how far sealing, checking and exporting have come."""

from django.db import models


class AuditSeal(models.Model):
    """A hash over an audit event and the seal before. A trigger refuses changes."""

    # Counts from 1, without gaps, in the order of sealing
    number = models.BigIntegerField(primary_key=True)
    event_id = models.UUIDField(unique=True)
    hash = models.BinaryField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"seal {self.number}"


class UnsealedEvent(models.Model):
    """An audit event that waits for its seal. A trigger of the audit trail adds it."""

    event_id = models.UUIDField(primary_key=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"unsealed {self.event_id}"


class TrailState(models.Model):
    """The progress of the jobs, in one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    # Events up to this id that were there before the trigger wait for their seals.
    filled_to = models.UUIDField(null=True)
    is_filled = models.BooleanField(default=False)
    # The number of the newest file of an anchor: the check finds out if it is gone.
    anchored_number = models.BigIntegerField(default=0)
    # The last number that the check under way has compared, and its faults so far.
    check_number = models.BigIntegerField(null=True)
    check_found = models.JSONField(default=list)
    # The end of the last check, and its number of faults.
    checked_at = models.DateTimeField(null=True)
    faults = models.PositiveIntegerField(default=0)
    # The log store of AUDIT_EXPORT_URL has taken all seals up to this number.
    exported_number = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"anchored to {self.anchored_number}"


# The hash before the first seal
START = bytes(32)


def last_seal() -> tuple[int, bytes]:
    """Return number and hash of the last seal; 0 and START before the first."""
    last = AuditSeal.objects.order_by("-number").first()
    return (last.number, bytes(last.hash)) if last else (0, START)


def read_state() -> TrailState:
    return TrailState.objects.get_or_create(pk=1)[0]


def write_state(**values: object) -> None:
    """Set these fields alone: each job has its own."""
    TrailState.objects.filter(pk=1).update(**values)
