from __future__ import annotations

from django.db import models
from django.utils.timezone import now


class SandboxCheckout(models.Model):
    """What the built-in provider of the sandbox knows of one checkout."""

    # Our reference, which is the checkout's id.
    reference = models.CharField(max_length=40, primary_key=True)
    state = models.CharField(max_length=9, default="OPEN")
    # Of a FAILED prompt: a `PromptFailure`.
    failure = models.CharField(max_length=11, blank=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    description = models.CharField(max_length=200)
    return_url = models.TextField()
    cancel_url = models.TextField()
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    # {our reference of a refund: amount as text}
    refunds = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=now, editable=False)
    paid_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency}"
