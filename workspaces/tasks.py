from workspaces import low_balance, rates


def purge_rate_counts() -> None:
    rates.purge()


def tell_low_balances() -> None:
    """Write to the owners of prepaid accounts that will soon be used up."""
    low_balance.tell_owners()
