"""Jobs of the webhooks. They carry ids at most: what is due is in the table."""

from webhooks import messages, retention
from webhooks.delivery import deliver


def send_due() -> None:
    """Send the deliveries that are due. Any number of these may run at once."""
    deliver()


def tell_failing(configuration_id: str) -> None:
    """Tell the owners that their receiver fails."""
    messages.tell_failing(configuration_id)


def tell_disabled(configuration_id: str) -> None:
    """Tell the owners that nothing is sent any more."""
    messages.tell_disabled(configuration_id)


def purge_events() -> None:
    """Forget what events and answers said a month ago."""
    retention.purge()
