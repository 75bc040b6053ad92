from verification.payments import alerts, links, refunds
from verification.payments.alerts import forget_troubles
from verification.payments.polling import look_at_due
from verification.payments.provider_events import forget_events, forget_phones
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.refund_transfers import send_refunds as send_due_refunds


def look_at_checkouts() -> None:
    """Ask payment providers what became of the checkouts that are due."""
    look_at_due()


def send_refunds() -> None:
    """Have payment providers give back what was approved."""
    send_due_refunds()


def give_back_undone() -> None:
    """Give payers back what was not done of reports that have ended."""
    refunds.give_back_undone()


def expire_payments() -> None:
    """Close the payment links that nobody paid by in time."""
    links.expire_payments()


def remind_payers() -> None:
    """Remind payers who have not paid by half time."""
    links.remind_payers()


def reconcile_payments() -> None:
    """Compare yesterday's payments with the providers' books."""
    reconcile_yesterday()


def purge_payment_events() -> None:
    """Forget what payment providers said, and phones of prompts, after 90 days."""
    forget_events()
    forget_phones()
    forget_troubles()


def alert_operators() -> None:
    """Write to operators at once of what cannot wait about payments."""
    alerts.alert_operators()


def tell_operators() -> None:
    """Write to operators of what nobody was told of about payments."""
    alerts.tell_operators()
