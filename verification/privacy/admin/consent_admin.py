from django.contrib import admin

from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.audit import MAX_REASON_LENGTH
from verification.backoffice.model_admin import ReadOnlyAdmin, confirmation_page
from verification.consents.links import consent_links
from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.consents.subject_decisions import (
    CONFIRMED_BY_STAFF,
    ConsentClosed,
    Evidence,
    digest_of,
)
from verification.privacy.withdrawals import withdraw
from verification.reports.admin import HostedLinkAdmin
from verification.web.request import client_address, user_agent


@admin.register(Consent)
class ConsentAdmin(HostedLinkAdmin):
    links = consent_links
    visitor = "subject"
    list_display = ["id", "report_page", "mode", "status", "expires_at"]
    list_filter = ["status", "mode"]
    search_ids = ("id", "report_id")
    actions = ["resend", "withdraw"]
    fields = [
        "id",
        "report_page",
        "mode",
        "status",
        "generation",
        "link_made_at",
        "expires_at",
        "reminded_at",
        "locks",
        "locked_until",
        "link_requested_at",
        "records",
    ]

    @admin.display(description="Records")
    def records(self, consent):
        rows = ConsentRecord.objects.filter(consent_id=consent.pk).defer("evidence")
        return ", ".join(f"{row} ({row.number})" for row in rows) or "-"

    @admin.action(description="Withdraw, as the subject asked", permissions=["act"])
    def withdraw(self, request, consents):
        reason = request.POST.get("reason", "").strip()[:MAX_REASON_LENGTH]
        if not reason:
            return confirmation_page(
                self,
                request,
                "admin/ask_why.html",
                action="withdraw",
                title="Withdraw consent",
                notice="Consent is withdrawn as if the subject had done it: checks "
                "that have not started are cancelled. This cannot be undone.",
                rows=consents,
            )
        evidence = Evidence(
            confirmed_by=CONFIRMED_BY_STAFF,
            staff=request.user.get_username(),
            address=str(client_address(request) or ""),
            user_agent=user_agent(request),
        )
        self.run_on_each(
            request,
            consents,
            lambda row: _withdraw(row, evidence, reason),
            "withdrawn.",
            audited="withdrawn",
            reason=reason,
            refusals=(ConsentClosed, DecisionRefused),
        )
        return None


def _withdraw(consent, evidence, reason):
    if consent.status == ConsentStatus.ATTESTED:
        raise DecisionRefused(
            "The client attested it and holds it. Enter an objection on the page of "
            "the report: it stops all use and monitoring."
        )
    withdraw(consent.pk, consent.generation, evidence, reason)


@admin.register(ConsentRecord)
class ConsentRecordAdmin(ReadOnlyAdmin):
    list_display = ["number", "report_page", "decision", "language", "created_at"]
    list_filter = ["decision", "language"]
    search_ids = ("id", "report_id", "consent_id")
    number_letter = "C"
    fields = [
        "id",
        "number",
        "report_page",
        "consent_id",
        "decision",
        "generation",
        "language",
        "notice_version",
        "notice_hash",
        "unchanged",
        "created_at",
    ]
    personal_fields = ("decrypted_evidence",)

    @admin.display(description="SHA-256 of the text")
    def notice_hash(self, record):
        return bytes(record.notice_sha256 or b"").hex() or "-"

    @admin.display(description="Unchanged since", boolean=True)
    def unchanged(self, record):
        """Return None if the evidence is erased, as the hash covers the evidence."""
        if record.evidence is None:
            return None
        return bytes(record.digest) == digest_of(record, record.evidence)

    @admin.display(description="Evidence")
    def decrypted_evidence(self, record):
        return record.evidence
