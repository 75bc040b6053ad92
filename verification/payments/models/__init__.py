from verification.payments.models.books import BooksCompared
from verification.payments.models.checkout import (
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    Doubt,
)
from verification.payments.models.dispute import Dispute, DisputeStatus
from verification.payments.models.event import PaymentEvent
from verification.payments.models.payment import Payment, PaymentStatus
from verification.payments.models.refund import Refund, RefundCause, RefundStatus
from verification.payments.models.sandbox import SandboxCheckout
from verification.payments.models.trouble import Trouble, TroubleKind

__all__ = [
    "BooksCompared",
    "Checkout",
    "CheckoutKind",
    "CheckoutStatus",
    "Dispute",
    "DisputeStatus",
    "Doubt",
    "Payment",
    "PaymentEvent",
    "PaymentStatus",
    "Refund",
    "RefundCause",
    "RefundStatus",
    "SandboxCheckout",
    "Trouble",
    "TroubleKind",
]
