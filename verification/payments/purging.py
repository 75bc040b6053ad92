"""Forgetting what events of payment providers said, and the phones that prompts were
sent to, after 90 days.

The skeleton stays: which event came when, for which checkout, and the hash of it.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils.timezone import now

from verification.jobs.sweeping import in_steps

KEPT = timedelta(days=90)
FORGET = """
UPDATE payments_paymentevent SET body = NULL WHERE id IN (
    SELECT id FROM payments_paymentevent
    WHERE body IS NOT NULL AND received_at < %(before)s
    ORDER BY received_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""
FORGET_PHONES = """
UPDATE payments_checkout SET phone = NULL WHERE id IN (
    SELECT id FROM payments_checkout
    WHERE phone IS NOT NULL AND created_at < %(before)s
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
"""


def forget_events() -> None:
    in_steps(FORGET, before=now() - KEPT)


def forget_phones() -> None:
    in_steps(FORGET_PHONES, before=now() - KEPT)
