"""Verbs that the present state of a report does not allow."""

from __future__ import annotations

from collections.abc import Sequence


class NotLaunchable(Exception):
    """`reasons`: CONSENT_OUTSTANDING, PAYMENT_OUTSTANDING, NOT_A_DRAFT."""

    def __init__(self, status: str, reasons: Sequence[str]) -> None:
        super().__init__(f"A report that is {status} cannot be launched now.")
        self.status, self.reasons = status, list(reasons)


class NotEditable(Exception):
    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotCancellable(Exception):
    def __init__(self, status: str) -> None:
        super().__init__(f"A report that is {status} has ended and stays as it is.")
        self.status = status


class NotRetryable(Exception):
    def __init__(self, status: str, message: str = "") -> None:
        super().__init__(
            message
            or f"A report that is {status} has no failed check that could be run "
            "again; retry works on an ended report with failed checks."
        )
        self.status = status
