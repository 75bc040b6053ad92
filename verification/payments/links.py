"""Links to the payment page; `reports.hosted_links` says how a link lives."""

from datetime import datetime

from django.db.models import QuerySet

from verification.consents.models import is_consent_refused
from verification.consents.subject_messages import is_reachable
from verification.jobs.queue import job
from verification.notifications.models import Kind
from verification.notifications.outbox import OutgoingMessage
from verification.payments.checkouts import (
    PAYER,
    SOURCES_CHANGED,
    closed_reason,
)
from verification.payments.models import (
    PAYABLE_STATUSES,
    Checkout,
    Payment,
    PaymentStatus,
)
from verification.payments.payer_messages import (
    payer_of,
    payment_reminder,
    payment_request,
)
from verification.payments.refunds import refund_parts
from verification.reports.create import blocked_check_reason
from verification.reports.ends import end_early
from verification.reports.hosted_links import (
    ClientLinks,
    NotRenewable,
    cancel_requests,
    is_over,
)
from verification.reports.models import Report, ReportStatus

UNPAID_STATUSES = {*Payment.OUTSTANDING, PaymentStatus.EXPIRED}
EXPIRED_CODE, EXPIRED_MESSAGE = "PAYMENT_EXPIRED", "Nobody paid in time."


class PaymentNotRenewable(NotRenewable):
    noun = "payment"


class PaymentLinks(ClientLinks[Payment]):
    """The links of payments.

    The time to pay begins when the subject has consented: until then the payer has not
    been asked (`start_period`). Parts that came go back when the link expires.
    """

    model = Payment
    asker = PAYER
    not_renewable = PaymentNotRenewable

    def waiting(self) -> QuerySet[Payment]:
        return Payment.objects.filter(
            status__in=Payment.OUTSTANDING, report__status__in=PAYABLE_STATUSES
        )

    def require_renewable(self, report: Report, row: Payment, at: datetime) -> None:
        is_late = is_over(row, at)
        if report.status == ReportStatus.PENDING_CONSENT and row.is_outstanding:
            message = "The payer is asked after the subject has consented."
            raise PaymentNotRenewable(row.status, message)
        # A report whose link is over has failed, even if no job has recorded that yet.
        waits = report.status == ReportStatus.DRAFT or not is_late
        is_asked = report.status in PAYABLE_STATUSES and waits
        if not is_asked or row.status not in UNPAID_STATUSES:
            raise PaymentNotRenewable(PaymentStatus.EXPIRED if is_late else row.status)
        if is_consent_refused(report):
            message = "The subject has not consented. Edit the draft to ask again."
            raise PaymentNotRenewable(row.status, message)
        if reason := blocked_check_reason(report):
            raise PaymentNotRenewable(row.status, f"Nobody can pay for it: {reason}")

    def reset(self, row: Payment) -> None:
        row.status, row.link_requested_at = PaymentStatus.PENDING, None

    def request(self, report: Report, row: Payment) -> list[OutgoingMessage]:
        return payment_request(report, row, Checkout.objects.missing(row))

    def reminder(self, report: Report, row: Payment) -> list[OutgoingMessage] | None:
        """Wait with the reminder while a source or the consent is missing."""
        is_asked = row.is_outstanding and report.status in PAYABLE_STATUSES
        is_refused = is_consent_refused(report)
        if not is_asked or is_refused or blocked_check_reason(report):
            return None
        return payment_reminder(report, row)

    def close(self, report: Report, row: Payment, at: datetime) -> None:
        """Give parts back and fail the report, unless the payer was faster."""
        if not (row.is_outstanding and report.status in PAYABLE_STATUSES):
            return
        row.set_status(PaymentStatus.EXPIRED)
        refund_parts(row.pk)
        cancel_requests(row)
        if report.status == ReportStatus.PENDING_PAYMENT:
            message = EXPIRED_MESSAGE
            if reason := blocked_check_reason(report):
                message = f"Nobody could pay for it: {reason}"
            failure = (EXPIRED_CODE, message)
            target, trigger = ReportStatus.FAILED, "payment expired"
            end_early(report, target, trigger, "service", at, failure)

    def can_visitor_renew(self, report: Report) -> bool:
        if report.status != ReportStatus.DRAFT or blocked_check_reason(report):
            return False
        return is_reachable(report, Kind.PAYMENT_REQUEST, payer_of(report))

    def client_action_needed(self, report: Report, row: Payment, at: datetime) -> str:
        closed = closed_reason(report, row, row.generation, at)
        is_closed = closed in {PaymentStatus.EXPIRED, SOURCES_CHANGED}
        if not is_closed or self.can_visitor_renew(report):
            return ""
        is_draft = report.status == ReportStatus.DRAFT
        is_blocked = is_draft and blocked_check_reason(report)
        return SOURCES_CHANGED if is_blocked else str(closed)


payment_links = PaymentLinks()


@job
def expire_payments() -> None:
    """Close the payment links that nobody paid by in time."""
    payment_links.expire_due()


@job
def remind_payers() -> None:
    """Remind payers who have not paid by half time."""
    payment_links.remind_due()
