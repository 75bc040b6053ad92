"""Erasures over HTTP: their state, and the certificate with its signature."""

from typing import Annotated, Literal, Self
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.decorators import action
from rest_framework.request import Request

from verification.api.content import PdfNegotiation
from verification.api.operations import OperationViewSet, operation
from verification.privacy.certificates import certificate_pdf, signed_members
from verification.privacy.models import Erasure, Origin
from verification.values.shapes import Shape, Timestamp, enumeration
from verification.web.pages import attachment
from workspaces.models import Scope


class ErasureBody(Shape):
    """The erasure of one person in the workspace and environment of the key."""

    id: UUID
    number: str
    """The number of the certificate, for people to read out."""
    status: Annotated[
        Literal["WAITING", "ENDED"], enumeration("ErasureStatus", ["WAITING", "ENDED"])
    ]
    requested_by: Origin
    requested_at: Timestamp
    ended_at: Timestamp | None = None
    report_ids: list[UUID]
    """The erased reports, once they are found. Their skeletons stay."""

    @classmethod
    def of(cls, erasure: Erasure) -> Self:
        return cls(
            id=erasure.pk,
            number=erasure.number,
            status="ENDED" if erasure.ended_at else "WAITING",
            requested_by=Origin(erasure.request.origin),
            requested_at=erasure.request.received_at,
            ended_at=erasure.ended_at,
            report_ids=erasure.report_ids,
        )


class CertificateBody(Shape):
    """A certificate, with its signature and the public key to verify it."""

    certificate: str
    """A JSON text, of which each byte counts: it is what the signature is about."""
    signature: str
    """Ed25519, in base64."""
    key: str
    """The id of the public key."""
    key_url: str
    """Where the public key is published as PEM."""


class ErasureViewSet(OperationViewSet):
    """Erasures of people in the key's workspace, in the key's environment."""

    lookup_url_kwarg = "erasureId"
    lookup_description = "The id of the erasure."

    @operation("getErasure", "Get an erasure", scope=Scope.REPORTS_READ)
    def retrieve(self, request: Request, erasureId: UUID) -> ErasureBody:
        """Get the state of an erasure, also one that the person or staff requested."""
        return ErasureBody.of(self._get(erasureId))

    @action(detail=True, methods=["get"])
    @operation(
        "getErasureCertificate",
        "Get the certificate of an erasure",
        scope=Scope.REPORTS_READ,
        problems=("erasure-not-ended",),
    )
    def certificate(self, request: Request, erasureId: UUID) -> CertificateBody:
        """Get the signed certificate of an erasure: extent, time and origin.

        It names no person. `openssl` verifies it with the published key.
        """
        return CertificateBody.model_validate(signed_members(self._get(erasureId)))

    @action(
        detail=True,
        methods=["get"],
        url_path="certificate.pdf",
        content_negotiation_class=PdfNegotiation,
    )
    @operation(
        "getErasureCertificatePdf",
        "Get the certificate of an erasure as a PDF",
        scope=Scope.REPORTS_READ,
        answer=OpenApiTypes.BINARY,
        media_type="application/pdf",
        problems=("erasure-not-ended",),
    )
    def certificate_pdf(self, request: Request, erasureId: UUID) -> HttpResponse:
        """Get the facts of the certificate as a PDF (PDF/UA) for people."""
        erasure = self._get(erasureId)
        return attachment(certificate_pdf(erasure), f"{erasure.number}.pdf")

    def _get(self, erasure_id: UUID) -> Erasure:
        erasures = Erasure.objects.select_related("request__workspace")
        return erasures.get(
            pk=erasure_id,
            request__workspace=self.client.workspace,
            request__environment=self.client.environment,
        )
