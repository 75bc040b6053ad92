"""Corrections over HTTP: a client reads them; its console decides them."""

from collections.abc import Iterable
from typing import Self
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request

from verification.api.content import PageQuery
from verification.api.operations import OperationViewSet, PageEnvelope, operation
from verification.db.base import read_page
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel, Correction, CorrectionStatus
from verification.privacy.rights_events import CorrectionBody
from workspaces.models import Client, Scope


class CorrectionQuery(PageQuery):
    status: CorrectionStatus | None = None
    """Only corrections with this status."""


class CorrectionItem(CorrectionBody):
    report_id: UUID


class CorrectionDetail(CorrectionItem):
    what: str | None
    """What the subject calls wrong; null once the report is erased."""
    why: str | None
    """What is right, and why, in the subject's words."""
    documents_count: int
    """The documents that the subject added; the console shows them."""

    @classmethod
    def of_detail(cls, correction: Correction) -> Self:
        statement = correction.statement or {}
        return cls.of(
            correction,
            what=statement.get("what"),
            why=statement.get("why"),
            documents_count=correction.documents.count(),
        )


class CorrectionPage(PageEnvelope):
    """One page of corrections, newest first."""

    content: list[CorrectionItem]


class CorrectionViewSet(OperationViewSet):
    """Corrections of reports of the key's workspace, in the key's environment."""

    lookup_url_kwarg = "correctionId"
    lookup_description = "The id of the correction."

    @operation(
        "listCorrections",
        "List corrections",
        scope=Scope.REPORTS_READ,
        query=CorrectionQuery,
        answer=CorrectionPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List corrections, newest first.

        A subject opens a correction, and your console or our staff decide it.
        """
        found = _corrections_of(self.client)
        if self.query.status:
            found = found.filter(status=self.query.status)
        page = read_page(found.order_by("-id"), self.query.page, self.query.size)
        self._record(page.rows)
        return self.page_of([CorrectionItem.of(row) for row in page.rows], page.total)

    @operation("getCorrection", "Get a correction", scope=Scope.REPORTS_READ)
    def retrieve(self, request: Request, correctionId: UUID) -> CorrectionDetail:
        """Get a correction with what the subject says."""
        found = _corrections_of(self.client).get(pk=correctionId)
        self._record([found])
        return CorrectionDetail.of_detail(found)

    def _record(self, found: Iterable[Correction]) -> None:
        reports = [correction.report_id for correction in found]
        record_disclosures(reports, Channel.API, self.client.actor)


def _corrections_of(client: Client) -> QuerySet[Correction]:
    return Correction.objects.select_related("request").filter(
        report__workspace=client.workspace, report__environment=client.environment
    )
