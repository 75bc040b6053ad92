from datetime import timedelta

from django.db.models import DurationField, ExpressionWrapper, F
from django.utils.timezone import now

from workspaces import low_balance, members, rate_limits
from workspaces.models import Note


def purge_rate_counts() -> None:
    rate_limits.purge_counts()


def notify_low_balances() -> None:
    """Write to the owners of prepaid accounts that will soon be used up."""
    low_balance.notify_owners()


def end_expired_invitations() -> None:
    """Some at a time: no transaction holds many rows."""
    while members.end_expired_invitations():
        pass


def purge_notes() -> None:
    """Erase what staff wrote down longer ago than the workspace keeps its results."""
    days = F("workspace__retention_days") * timedelta(days=1)
    kept = ExpressionWrapper(days, output_field=DurationField())
    over = Note.objects.filter(text__isnull=False, created_at__lt=now() - kept)
    Note.objects.filter(pk__in=over.values("pk")[:1000]).update(text=None)
