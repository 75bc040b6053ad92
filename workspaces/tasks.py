from workspaces import low_balance, members, rates


def purge_rate_counts() -> None:
    rates.purge()


def tell_low_balances() -> None:
    """Write to the owners of prepaid accounts that will soon be used up."""
    low_balance.tell_owners()


def end_expired_invitations() -> None:
    """Some at a time: no transaction holds many rows."""
    while members.end_expired():
        pass
