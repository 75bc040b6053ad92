"""Jobs of the notifications. They carry no arguments: what is due is in the table."""

from verification.notifications import purging, sending


def send_due() -> None:
    """Send the notifications that are due. Any number of these may run at once."""
    sending.send()


def purge_recipients() -> None:
    """Forget whom notifications went to, and what they said, after a month."""
    purging.purge()
