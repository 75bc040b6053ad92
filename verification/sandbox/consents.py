"""The client decides about consent in the sandbox, in place of the subject.

Each action calls the function that the consent page calls, without the page's
challenge, as the client owns the sandbox. The evidence names the sandbox.
"""

from enum import StrEnum
from uuid import UUID

from django.db import transaction

from verification.consents.links import consent_links
from verification.consents.models import Consent, ConsentStatus, is_under_age
from verification.consents.notices import notice_for
from verification.consents.subject_decisions import (
    Evidence,
    decline,
    grant,
    is_signature,
)
from verification.consents.subject_messages import link_channels
from verification.privacy.withdrawals import lock_in_order, withdraw
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.sandbox.reports import NotPossible, lock_sandbox_report
from verification.values.clock import now
from workspaces.models import Client, Environment

# `Evidence.confirmed_by` of these decisions
CONFIRMED_BY_SANDBOX = "SANDBOX_API"
SIGNATORY = "Sandbox API"


class ConsentAction(StrEnum):
    GRANT = "grant"
    DECLINE = "decline"
    WITHDRAW = "withdraw"
    EXPIRE = "expire"


A = ConsentAction


@transaction.atomic
def act_as_subject(
    client: Client, report_id: UUID, action: ConsentAction, reason: str
) -> None:
    """Decide as the report's subject, or let their time run out.

    Raises NotPossible, and Report.DoesNotExist.
    """
    if action == A.WITHDRAW:
        # A withdrawal locks more than the report, and in another order.
        own = Report.objects.select_related("workspace").filter(
            workspace=client.workspace, environment=Environment.SANDBOX
        )
        lock_in_order(own.get(pk=report_id))
    report = lock_sandbox_report(client, report_id)
    rows = Consent.objects.select_for_update(no_key=True)
    consent = rows.filter(report=report).first()
    possible = _possible_actions(report, consent)
    if consent is None or action not in possible:
        status = consent.status if consent else ConsentStatus.NOT_REQUIRED
        raise NotPossible(
            f"The consent is {status} and the report is {report.status}.", possible
        )
    consent.report = report
    match action:
        case A.GRANT:
            grant(consent.pk, consent.generation, _signature(consent))
        case A.DECLINE:
            decline(consent.pk, consent.generation, _evidence(consent), reason)
        case A.WITHDRAW:
            withdraw(consent.pk, consent.generation, _evidence(consent), reason)
        case A.EXPIRE:
            consent.expires_at = now()
            consent.save(update_fields=["expires_at"])
            consent_links.expire(consent.pk)


def _possible_actions(report: Report, consent: Consent | None) -> list[ConsentAction]:
    if consent is None or consent.mode != Consent.Mode.SERVICE_HOSTED:
        return []
    if consent.status == ConsentStatus.GRANTED and not consent.is_erased:
        return [A.WITHDRAW]
    at = now()
    is_open = (
        consent.status == ConsentStatus.PENDING
        and report.status in {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}
        and consent.expires_at is not None
        and consent.expires_at > at
    )
    if not is_open:
        return []
    # With letters that a star hides, only the subject can sign.
    may_grant = is_signature(report, _signatory(report))
    may_grant &= not is_under_age(report.subject, at)
    return [*([A.GRANT] if may_grant else []), A.DECLINE, A.EXPIRE]


def _signatory(report: Report) -> str:
    is_company = report.subject_type == SubjectType.COMPANY
    return SIGNATORY if is_company else report.subject_name


def _evidence(consent: Consent) -> Evidence:
    """Return evidence without a text, as no subject has read one."""
    return Evidence(
        language="en",
        confirmed_by=CONFIRMED_BY_SANDBOX,
        link_sent_to=link_channels(consent),
    )


def _signature(consent: Consent) -> Evidence:
    """Return evidence with the notice to which the client agrees for the subject."""
    report, notice = consent.report, notice_for(consent, "en")
    is_company = report.subject_type == SubjectType.COMPANY
    return Evidence(
        text=notice.text,
        notice_version=notice.version,
        language=notice.language,
        sources=notice.sources,
        automated=notice.automated,
        typed_name=_signatory(report),
        position=SIGNATORY if is_company else "",
        confirmed_by=CONFIRMED_BY_SANDBOX,
        link_sent_to=link_channels(consent),
    )
