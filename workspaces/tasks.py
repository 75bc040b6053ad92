from workspaces import rates


def purge_rate_counts() -> None:
    rates.purge()
