from django.db import models
from django.db.models import Q

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import number_index, number_of_id
from verification.db.models import DatedRow
from verification.reports.models import Report
from verification.values.clock import now


class ReferenceStatus(models.TextChoices):
    PENDING = "PENDING"
    SUBMITTED = "SUBMITTED"
    DECLINED = "DECLINED"
    EXPIRED = "EXPIRED"


S = ReferenceStatus


class Reference(DatedRow):
    """The question to one referee in one attempt of a check, and the answers."""

    Status = ReferenceStatus

    report = models.ForeignKey(Report, models.CASCADE, related_name="references")
    # No foreign key: the models of checks are not known here.
    result_id = models.UUIDField()
    attempt = models.PositiveSmallIntegerField()
    status = models.CharField(
        max_length=9, choices=ReferenceStatus, default=ReferenceStatus.PENDING
    )
    # Number of the present link, part of its token: a new link raises it.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token, which is derived and stored nowhere.
    token_digest = models.BinaryField(unique=True)
    expires_at = models.DateTimeField()
    link_made_at = models.DateTimeField(default=now, editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
    # {employed, employer, jobTitle, employedFrom, employedTo, wouldRehire, remarks,
    # refereeName, refereeTitle, mayAnswer}, as `providers.referee` reads them.
    answers = EncryptedJSONField(null=True)
    # {address, userAgent, language, reason} of the referee, and {noticeVersion,
    # noticeSha256, noticeText} of the notice on the page.
    evidence = EncryptedJSONField(null=True)
    submitted_at = models.DateTimeField(null=True, editable=False)
    declined_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["result_id", "attempt"], name="one_reference_an_attempt"
            ),
            models.CheckConstraint(
                name="reference_submitted_at_iff_submitted",
                condition=Q(status=S.SUBMITTED) ^ Q(submitted_at=None),
            ),
            models.CheckConstraint(
                name="reference_declined_at_iff_declined",
                condition=Q(status=S.DECLINED) ^ Q(declined_at=None),
            ),
            # A submitted one may have none: erasing the subject empties the answers.
            models.CheckConstraint(
                name="only_submitted_references_have_answers",
                condition=Q(status=S.SUBMITTED) | Q(answers=None),
            ),
        ]
        indexes = [
            # For expiry and reminders.
            models.Index(
                fields=["expires_at"],
                condition=Q(status="PENDING"),
                name="references_waiting",
            ),
            # The search by the number on the receipt.
            number_index("references_by_number"),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.id}"

    @property
    def number(self) -> str:
        """The number on the receipt."""
        return number_of_id("R", self.id)
