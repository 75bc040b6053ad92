from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.contrib.auth.models import User, UserManager
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

from verification.db.models import DatedRow
from verification.jobs.queue import job
from verification.values.clock import now
from workspaces.logins import unconfirmed_users

# A link that confirms an address works for three days; each login sends another one.
UNCONFIRMED_LIFETIME = timedelta(days=30)


class StaffManager(UserManager["Colleague"]):
    use_in_migrations = False

    def get_queryset(self) -> models.QuerySet[Colleague]:
        return super().get_queryset().filter(is_staff=True)


class Colleague(User):
    """A user who works in the admin. Users who are members only are left out."""

    objects: ClassVar[StaffManager] = StaffManager()

    class Meta:
        proxy = True
        verbose_name = "colleague"
        verbose_name_plural = "staff"

    def __str__(self) -> str:
        return self.get_full_name() or self.get_username()


class Session(AbstractBaseSession):
    """A session of `verification.accounts.sessions.SessionStore`."""

    # Empty until the login is complete.
    user = models.ForeignKey(
        User, models.CASCADE, null=True, editable=False, related_name="sessions"
    )

    class Meta(AbstractBaseSession.Meta):
        default_permissions = ()


class WrongCodes(models.Model):
    """A series of wrong codes of the second factor, until a right one or a quiet day.

    Browsers in which the owner has logged in before have a series of their own, so
    nobody else slows them down. `lockout` counts.
    """

    pk = models.CompositePrimaryKey("user", "in_known_browser")
    user = models.ForeignKey(User, models.CASCADE, related_name="wrong_codes")
    in_known_browser = models.BooleanField()
    count = models.PositiveIntegerField()
    last_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.count} until {self.last_at}"


class StaffRequest(models.Model):
    """A request of one superuser about a colleague, for another superuser to approve.

    The row is deleted on approval. The audit trail keeps the request.
    """

    class Kind(models.TextChoices):
        FACTOR_REMOVAL = "FACTOR_REMOVAL", "Removal of the second factor"
        PROMOTION = "PROMOTION", "Promotion to superuser"

    kind = models.CharField(max_length=14, choices=Kind)
    # Found by the index of the unique constraint.
    user = models.ForeignKey(
        User, models.CASCADE, related_name="staff_requests", db_index=False
    )
    requested_by_user = models.BigIntegerField()
    requested_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    # The colleague's address then: the request ends when the address changes.
    email = models.EmailField(max_length=254, blank=True)
    created_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["user", "kind"], name="one_staff_request_of_a_kind"
            )
        ]

    def __str__(self) -> str:
        return f"requested by {self.requested_by}: {self.reason}"


class StaffInvitation(DatedRow):
    """A link for one use by which a new colleague chooses a password.

    The row is deleted when the link is used, replaced or withdrawn.
    """

    user = models.OneToOneField(User, models.CASCADE, related_name="staff_invitation")
    # SHA-256 of the link's random token, which only the mail contains.
    token_digest = models.BinaryField(unique=True)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"invitation until {self.expires_at}"


@job
def purge_unconfirmed_users() -> None:
    """Delete old users without a confirmed address or a login."""
    before = now() - UNCONFIRMED_LIFETIME
    unconfirmed_users().filter(date_joined__lt=before).delete()
