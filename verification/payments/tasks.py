from verification.payments import alerts, refunds
from verification.payments.alerts import purge_operator_alerts
from verification.payments.polling import poll_due_checkouts
from verification.payments.provider_events import (
    purge_event_bodies,
    purge_prompt_phones,
)
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.refund_transfers import send_refunds as send_due_refunds


def poll_checkouts() -> None:
    """Ask payment providers what became of the checkouts that are due."""
    poll_due_checkouts()


def send_refunds() -> None:
    """Have payment providers give back what was approved."""
    send_due_refunds()


def refund_unfinished_parts() -> None:
    """Give payers back what was not done of reports that have ended."""
    refunds.refund_unfinished_parts()


def reconcile_payments() -> None:
    """Compare yesterday's payments with the providers' books."""
    reconcile_yesterday()


def purge_payment_events() -> None:
    """Forget what payment providers said, and phones of prompts, after 90 days."""
    purge_event_bodies()
    purge_prompt_phones()
    purge_operator_alerts()


def send_urgent_alerts() -> None:
    """Write to operators at once of what cannot wait about payments."""
    alerts.send_urgent_alerts()


def send_daily_alerts() -> None:
    """Write to operators of what nobody was told of about payments."""
    alerts.send_daily_alerts()
