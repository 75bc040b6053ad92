from __future__ import annotations

from django.db import models
from django.db.models import Q

from verification.encryption import EncryptedJSONField
from verification.ids import uuid7
from verification.reports.models import Report


class ConsentStatus(models.TextChoices):
    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    GRANTED = "GRANTED"
    ATTESTED = "ATTESTED"
    DECLINED = "DECLINED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


class Consent(models.Model):
    """The subject's consent to one report. A report that needs none has no row."""

    class Mode(models.TextChoices):
        SERVICE_HOSTED = "SERVICE_HOSTED", "The service asks the subject"
        CUSTOMER_ATTESTED = "CUSTOMER_ATTESTED", "The client states it has consent"

    class Method(models.TextChoices):
        CUSTOMER_WEB_FORM = "CUSTOMER_WEB_FORM"
        CUSTOMER_MOBILE_APP = "CUSTOMER_MOBILE_APP"
        PAPER_FORM = "PAPER_FORM"
        VERBAL_RECORDED = "VERBAL_RECORDED"
        EMAIL = "EMAIL"
        OTHER = "OTHER"

    Status = ConsentStatus
    GIVEN = (ConsentStatus.GRANTED, ConsentStatus.ATTESTED)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    report = models.OneToOneField(Report, models.CASCADE, related_name="consent")
    mode = models.CharField(max_length=17, choices=Mode)
    status = models.CharField(max_length=12, choices=ConsentStatus)
    # Which link is the valid one; a new link raises it and so kills the old.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token; the token itself is derived, and kept nowhere.
    token_digest = models.BinaryField(null=True, unique=True)
    expires_at = models.DateTimeField(null=True)
    # {obtainedAt, method, policyVersion, evidenceReference} as the client attested.
    attestation = EncryptedJSONField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="hosted_consent_has_a_link",
                condition=Q(
                    mode="SERVICE_HOSTED",
                    token_digest__isnull=False,
                    expires_at__isnull=False,
                )
                | Q(mode="CUSTOMER_ATTESTED", token_digest=None, expires_at=None),
            ),
            models.CheckConstraint(
                name="an_attested_consent_has_its_attestation",
                condition=Q(status="ATTESTED", attestation__isnull=False)
                | ~Q(status="ATTESTED"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} ({self.mode})"

    @property
    def is_given(self) -> bool:
        return self.status in self.GIVEN
