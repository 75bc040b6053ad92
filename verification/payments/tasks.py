from verification.ordering import refunding, unpaid
from verification.ordering.giving_back import send_refunds as send_due_refunds
from verification.ordering.looking import look_at_due
from verification.ordering.reconciling import reconcile_yesterday
from verification.payments import troubles
from verification.payments.purging import forget_events, forget_phones
from verification.payments.troubles import forget_troubles


def look_at_checkouts() -> None:
    """Ask payment providers what became of the checkouts that are due."""
    look_at_due()


def send_refunds() -> None:
    """Have payment providers give back what was approved."""
    send_due_refunds()


def give_back_undone() -> None:
    """Give payers back what was not done of reports that have ended."""
    refunding.give_back_undone()


def expire_payments() -> None:
    """Close the payment links that nobody paid by in time."""
    unpaid.expire_payments()


def remind_payers() -> None:
    """Remind payers who have not paid by half time."""
    unpaid.remind_payers()


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
    troubles.alert_operators()


def tell_operators() -> None:
    """Write to operators of what nobody was told of about payments."""
    troubles.tell_operators()
