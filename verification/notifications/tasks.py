"""Jobs of the notifications. They carry no arguments: what is due is in the table."""

from verification.notifications import delivery, outbox


def send_due() -> None:
    """Send the notifications that are due. Any number of these may run at once."""
    delivery.send_due_notifications()


def purge_recipients() -> None:
    """Forget whom notifications went to, and what they said, after a month."""
    outbox.purge()
