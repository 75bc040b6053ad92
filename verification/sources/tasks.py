from verification.sources.health import purge_old_minutes


def purge_minutes() -> None:
    """Forget what sources did in minutes that nobody looks at any more."""
    purge_old_minutes()
