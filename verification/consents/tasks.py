from verification.consents.decisions import expire_due
from verification.consents.links import remind_due


def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    expire_due()


def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    remind_due()
