from verification.references.answers import expire_references, remind_referees


def remind_and_expire_references() -> None:
    """Remind referees after three days, and close links that nobody answered."""
    remind_referees()
    expire_references()
