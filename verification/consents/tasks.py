from verification.ordering.expiring import expire_due
from verification.ordering.reminding import remind_due


def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    expire_due()


def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    remind_due()
