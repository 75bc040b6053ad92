from verification.references.answers import expire_references, remind_referees


def chase_references() -> None:
    """Remind referees after three days, and close links that nobody answered."""
    remind_referees()
    expire_references()
