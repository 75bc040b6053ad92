"""Where a consent is for who visits it: which page answers."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from verification.consents.challenges import challenge_of
from verification.consents.models import Consent, ConsentStatus
from verification.consents.signatures import is_under_age
from verification.hosted.visits import Visit
from verification.ordering.telling import code_channels
from verification.reports.models import ReportStatus

ASKING = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


class Stage(StrEnum):
    REPLACED = "replaced"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOCKED = "locked"
    LOCKED_FOR_GOOD = "locked_for_good"
    CHALLENGE = "challenge"
    # The subject types a code that was sent to them.
    CODE = "code"
    UNDER_AGE = "under_age"
    ASKED = "asked"
    GRANTED = "granted"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


ANSWERED = {
    ConsentStatus.GRANTED: Stage.GRANTED,
    ConsentStatus.DECLINED: Stage.DECLINED,
    ConsentStatus.WITHDRAWN: Stage.WITHDRAWN,
}


def stage_of(consent: Consent, visit: Visit, at: datetime) -> Stage:
    if visit.generation != consent.generation or consent.expires_at is None:
        return Stage.REPLACED
    if consent.status == ConsentStatus.EXPIRED:
        return Stage.EXPIRED
    if consent.status == ConsentStatus.PENDING:
        if consent.report.status not in ASKING:
            return Stage.CANCELLED
        # The job that closes it may not have come yet.
        if consent.expires_at <= at:
            return Stage.EXPIRED
    if challenge_of(consent) and not visit.is_confirmed(consent):
        if consent.is_locked_for_good:
            return Stage.LOCKED_FOR_GOOD
        return Stage.LOCKED if consent.is_locked(at) else Stage.CHALLENGE
    if answered := ANSWERED.get(ConsentStatus(consent.status)):
        return answered
    if is_under_age(consent.report.subject, at):
        return Stage.UNDER_AGE
    if not visit.proved_by(consent) and code_channels(consent):
        return Stage.LOCKED_FOR_GOOD if consent.is_locked_for_good else Stage.CODE
    return Stage.ASKED
