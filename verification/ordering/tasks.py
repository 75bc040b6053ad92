from verification.ordering.chasing import expire_references, remind_referees
from verification.ordering.expiring import expire_due
from verification.ordering.idempotency import forget_old_answers
from verification.ordering.reminding import remind_due


def purge_idempotency_keys() -> None:
    forget_old_answers()


def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    expire_due()


def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    remind_due()


def chase_references() -> None:
    """Remind referees after three days, and close links that nobody answered."""
    remind_referees()
    expire_references()
