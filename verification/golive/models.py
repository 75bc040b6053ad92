from django.conf import settings
from django.db import models
from django.db.models import F, Q

from verification.db.encryption import EncryptedJSONField
from verification.db.models import DatedRow
from verification.reports.models import Report
from workspaces.models import ApiKey, Workspace


class Status(models.TextChoices):
    DRAFT = "DRAFT", "Being filled in"
    SUBMITTED = "SUBMITTED", "Waiting for a review"
    IN_REVIEW = "IN_REVIEW", "In review"
    APPROVED = "APPROVED", "Approved"
    REJECTED = "REJECTED", "Rejected"


S = Status
DECIDED = [S.APPROVED, S.REJECTED]
WAITING = [S.SUBMITTED, S.IN_REVIEW]
USER = settings.AUTH_USER_MODEL


class Application(DatedRow):
    """A workspace's application to go live, with its review and decision.

    A rejected application does not change; the next one begins as its copy.
    """

    Status = Status

    # Every legal move.
    TRANSITIONS: dict[str, set[str]] = {
        S.DRAFT: {S.SUBMITTED},
        S.SUBMITTED: {S.IN_REVIEW},
        S.IN_REVIEW: {S.APPROVED, S.REJECTED},
    }

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="applications"
    )
    status = models.CharField(max_length=9, choices=Status, default=S.DRAFT)
    company_name = models.CharField(max_length=200)
    # registrationNumber, kraPin, country, address, contactName, contactEmail,
    # contactPhone, purpose, volume. Null once they are erased, with the documents.
    details = EncryptedJSONField(null=True)
    # The company's BUSINESS_VERIFICATION.
    report = models.ForeignKey(
        Report, models.PROTECT, null=True, related_name="+", db_index=False
    )
    submitted_by = models.ForeignKey(
        USER, models.PROTECT, null=True, related_name="+", db_index=False
    )
    submitted_at = models.DateTimeField(null=True, editable=False)
    taken_by = models.ForeignKey(
        USER, models.PROTECT, null=True, related_name="+", db_index=False
    )
    taken_at = models.DateTimeField(null=True, editable=False)
    decided_by = models.ForeignKey(
        USER, models.PROTECT, null=True, related_name="+", db_index=False
    )
    decided_at = models.DateTimeField(null=True, editable=False)
    # The reason of a rejection, which the client reads.
    reason = models.CharField(max_length=500, blank=True)
    api_key = models.OneToOneField(
        ApiKey, models.PROTECT, null=True, related_name="+", db_index=False
    )

    class Meta:
        verbose_name = "go-live application"
        default_permissions = ("view",)
        permissions = [("decide_application", "Can review go-live applications")]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"],
                condition=~Q(status=S.REJECTED),
                name="one_application_at_a_time",
            ),
            models.CheckConstraint(
                name="applications_have_a_known_status",
                condition=Q(status__in=S.values),
            ),
            models.CheckConstraint(
                name="what_is_submitted_names_who_and_its_report",
                condition=Q(
                    status=S.DRAFT,
                    submitted_by=None,
                    submitted_at=None,
                    report=None,
                )
                | (
                    ~Q(status=S.DRAFT)
                    & Q(
                        submitted_by__isnull=False,
                        submitted_at__isnull=False,
                        report__isnull=False,
                    )
                ),
            ),
            models.CheckConstraint(
                name="what_is_reviewed_names_who",
                condition=Q(
                    status__in=[S.DRAFT, S.SUBMITTED], taken_by=None, taken_at=None
                )
                | Q(
                    status__in=[S.IN_REVIEW, *DECIDED],
                    taken_by__isnull=False,
                    taken_at__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="what_is_decided_names_who",
                condition=Q(
                    status__in=DECIDED,
                    decided_by__isnull=False,
                    decided_at__isnull=False,
                )
                | (~Q(status__in=DECIDED) & Q(decided_by=None, decided_at=None)),
            ),
            models.CheckConstraint(
                name="nobody_decides_what_they_submitted",
                condition=Q(decided_by=None) | ~Q(decided_by=F("submitted_by")),
            ),
            models.CheckConstraint(
                name="a_rejection_says_why",
                condition=Q(status=S.REJECTED) ^ Q(reason=""),
            ),
            models.CheckConstraint(
                name="an_approval_makes_a_key",
                condition=Q(status=S.APPROVED) ^ Q(api_key=None),
            ),
        ]
        indexes = [
            # The list of rows that wait for staff.
            models.Index(
                fields=["id"],
                condition=Q(status__in=WAITING),
                name="applications_waiting",
            )
        ]

    def __str__(self) -> str:
        return self.company_name


class NameChange(DatedRow):
    """A request for other names of an approved workspace, which staff review.

    Pages and messages show the old names until the approval.
    """

    class Status(models.TextChoices):
        WAITING = "WAITING", "Waiting for a review"
        APPROVED = "APPROVED", "Approved"
        REJECTED = "REJECTED", "Rejected"
        WITHDRAWN = "WITHDRAWN", "Withdrawn"

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="name_changes"
    )
    status = models.CharField(max_length=9, choices=Status, default=Status.WAITING)
    legal_name = models.CharField(max_length=200)
    trading_name = models.CharField(max_length=200, blank=True)
    # The members' note, such as a link to the register.
    note = models.CharField(max_length=500, blank=True)
    asked_by = models.ForeignKey(USER, models.PROTECT, related_name="+", db_index=False)
    decided_by = models.ForeignKey(
        USER, models.PROTECT, null=True, related_name="+", db_index=False
    )
    decided_at = models.DateTimeField(null=True, editable=False)
    # The reason of a rejection, which the client reads.
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"],
                condition=Q(status="WAITING"),
                name="one_name_change_waits_at_a_time",
            ),
            models.CheckConstraint(
                name="name_changes_have_a_legal_name", condition=~Q(legal_name="")
            ),
            models.CheckConstraint(
                name="decided_name_changes_name_who",
                condition=Q(
                    status__in=["APPROVED", "REJECTED"],
                    decided_by__isnull=False,
                    decided_at__isnull=False,
                )
                | Q(
                    status__in=["WAITING", "WITHDRAWN"],
                    decided_by=None,
                    decided_at=None,
                ),
            ),
            models.CheckConstraint(
                name="nobody_decides_their_own_name_change",
                condition=Q(decided_by=None) | ~Q(decided_by=F("asked_by")),
            ),
            models.CheckConstraint(
                name="a_rejected_name_change_says_why",
                condition=Q(status="REJECTED") ^ Q(reason=""),
            ),
        ]
        indexes = [
            # The list of rows that wait for staff.
            models.Index(
                fields=["id"],
                condition=Q(status="WAITING"),
                name="name_changes_waiting",
            )
        ]

    def __str__(self) -> str:
        return self.legal_name


class DocumentKind(models.TextChoices):
    INCORPORATION = "INCORPORATION", "Certificate of incorporation"
    CR12 = "CR12", "CR12"
    KRA = "KRA", "KRA certificate"
    DIRECTOR_ID = "DIRECTOR_ID", "Director's ID"


class Document(DatedRow):
    """A sealed file of an application, stored under a random name."""

    Kind = DocumentKind

    class ContentType(models.TextChoices):
        PDF = "application/pdf"
        JPEG = "image/jpeg"
        PNG = "image/png"

    # Found by the index of the unique constraint.
    application = models.ForeignKey(
        Application, models.CASCADE, related_name="documents", db_index=False
    )
    kind = models.CharField(max_length=13, choices=DocumentKind)
    # The name of the uploaded file. Pages show it; it is never used as a path.
    name = EncryptedJSONField()
    content_type = models.CharField(max_length=15, choices=ContentType)
    size = models.PositiveIntegerField()
    # The name in the storage. Copies of the row name the same file.
    file = models.CharField(max_length=40, db_index=True)
    # The key of the file, which is unreadable without this row.
    data_key = EncryptedJSONField()
    uploaded_by = models.ForeignKey(
        USER, models.PROTECT, related_name="+", db_index=False
    )

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["application", "kind"], name="one_document_of_a_kind"
            ),
            models.CheckConstraint(
                name="documents_are_of_a_known_kind",
                condition=Q(kind__in=DocumentKind.values),
            ),
            models.CheckConstraint(
                name="documents_are_pdf_jpeg_or_png",
                condition=Q(
                    content_type__in=["application/pdf", "image/jpeg", "image/png"]
                ),
            ),
            models.CheckConstraint(
                name="documents_are_not_empty", condition=Q(size__gt=0)
            ),
        ]

    def __str__(self) -> str:
        return self.get_kind_display()
