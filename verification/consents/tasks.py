from verification.consents.decisions import expire_due_consents
from verification.consents.links import remind_due_subjects


def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    expire_due_consents()


def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    remind_due_subjects()
