from django.contrib import admin, messages
from django.db import transaction
from django.template.response import TemplateResponse

from verification.backoffice.model_admin import ReadOnlyAdmin, link
from verification.consents.decisions import (
    CONFIRMED_BY_STAFF,
    ConsentClosed,
    Evidence,
    digest_of,
    withdraw,
)
from verification.consents.links import consent_links
from verification.consents.models import Consent, ConsentRecord
from verification.reports.links import NotRenewable, ResendTooSoon
from verification.web.request import client_address, user_agent

REASON_LENGTH = 500


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    list_display = ["id", "report", "mode", "status", "expires_at"]
    list_filter = ["status", "mode"]
    list_select_related = ["report"]
    search_ids = ("id", "report_id")
    actions = ["resend", "revoke"]  # type: ignore[assignment]
    sure = {"resend": "A new link goes to the subject; the old one stops working."}
    fields = [
        "id",
        "report",
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

    def has_act_permission(self, request):
        return request.user.has_perm("consents.change_consent")

    @admin.action(description="Send a new link", permissions=["act"])
    def resend(self, request, consents):
        for consent in consents:
            try:
                with transaction.atomic():
                    consent_links.renew(consent.pk)
                    self.log_change(
                        request, consent, "sent a new link", verb="link-sent"
                    )
            except (NotRenewable, ResendTooSoon) as e:
                self.message_user(request, f"{consent.pk}: {e}", messages.ERROR)
            else:
                message = f"{consent.pk}: a new link goes to the subject."
                self.message_user(request, message, messages.SUCCESS)

    @admin.action(description="Revoke, as the subject asked", permissions=["act"])
    def revoke(self, request, consents):
        reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
        if not reason:
            return self._ask_why(request, consents)
        for consent in consents:
            self._revoke(request, consent, reason)
        return None

    def _ask_why(self, request, consents):
        told = (
            "Consent is withdrawn as if the subject had done it: checks that were not "
            "asked are cancelled. This cannot be undone."
        )
        context = {
            **self.admin_site.each_context(request),
            "title": "Revoke consent",
            "told": told,
            "rows": consents,
            "action": "revoke",
        }
        return TemplateResponse(request, "admin/ask_why.html", context)

    def _revoke(self, request, consent, reason):
        evidence = Evidence(
            confirmed_by=CONFIRMED_BY_STAFF,
            staff=request.user.get_username(),
            address=str(client_address(request) or ""),
            user_agent=user_agent(request),
        )
        try:
            with transaction.atomic():
                withdraw(consent.pk, consent.generation, evidence, reason)
                more = {"verb": "revoked", "reason": reason}
                self.log_change(request, consent, "revoked", **more)
        except ConsentClosed as e:
            self.message_user(request, f"{consent.pk}: {e}", messages.ERROR)
        else:
            self.message_user(request, f"{consent.pk}: revoked.", messages.SUCCESS)


@admin.register(ConsentRecord)
class ConsentRecordAdmin(ReadOnlyAdmin):
    list_display = ["number", "report_page", "happened", "language", "created_at"]
    list_filter = ["happened", "language"]
    search_ids = ("id", "report_id", "consent_id")
    fields = [
        "id",
        "number",
        "report_page",
        "consent_id",
        "happened",
        "generation",
        "language",
        "notice_version",
        "notice_hash",
        "unchanged",
        "created_at",
    ]
    personal_fields = ("evidence_opened",)

    @admin.display(description="Report")
    def report_page(self, record):
        # By hand: the report itself is not needed.
        report = record._meta.get_field("report").related_model
        return link(report(pk=record.report_id))

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
    def evidence_opened(self, record):
        return record.evidence
