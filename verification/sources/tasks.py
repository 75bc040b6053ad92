from verification.sources.health import purge


def purge_minutes() -> None:
    """Forget what sources did in minutes that nobody looks at any more."""
    purge()
