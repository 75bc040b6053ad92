"""The refusal of an action of the sandbox."""

from __future__ import annotations

from collections.abc import Iterable


class NotPossible(Exception):
    """The object is in a state that does not take the action, and has not changed.

    `possible` names the actions that it takes now.
    """

    def __init__(self, message: str, possible: Iterable[str] = ()) -> None:
        self.possible = [str(action) for action in possible]
        names = ", ".join(self.possible)
        way_out = f"Possible now: {names}." if names else "No action is possible now."
        super().__init__(f"{message} {way_out}")
