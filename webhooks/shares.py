"""How many deliveries of each configuration are claimed at a time.

One claim and one record of many cost little more than of one, so that a receiver that
answers quickly is given many. Of one that is slow or fails no more are claimed than are
under way: what waits for a place would take it from the others.
"""

from __future__ import annotations

from uuid import UUID

# Requests under way to one receiver from one sender.
MOST_AT_ONCE = 10
MOST_CLAIMED = 160
# From the claim to the answer, waiting for a place included.
QUICK_SECONDS = 1.0


class Shares:
    def __init__(self) -> None:
        self.grown: dict[UUID, int] = {}

    def note(
        self, configuration_id: UUID, *, acknowledged: bool, seconds: float
    ) -> None:
        """One more for each quick acknowledgement; back to the beginning otherwise."""
        if acknowledged and seconds <= QUICK_SECONDS:
            share = self.grown.get(configuration_id, MOST_AT_ONCE) + 1
            self.grown[configuration_id] = min(share, MOST_CLAIMED)
        else:
            self.grown.pop(configuration_id, None)
