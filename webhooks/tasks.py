"""Jobs of the webhooks. They carry ids at most: what is due is in the table."""

from webhooks import messages, retention
from webhooks.delivery import send_due_deliveries


def send_due() -> None:
    """Send the deliveries that are due. Any number of these may run at once."""
    send_due_deliveries()


def notify_failing(configuration_id: str) -> None:
    """Tell the owners that their receiver fails."""
    messages.notify_failing(configuration_id)


def notify_disabled(configuration_id: str) -> None:
    """Tell the owners that nothing is sent any more."""
    messages.notify_disabled(configuration_id)


def purge_events() -> None:
    """Forget what events and answers said a month ago."""
    retention.purge()
