"""Who orders: a workspace in one environment, acting through a key or a person."""

from __future__ import annotations

from dataclasses import dataclass

from workspaces.models import Account, Workspace


@dataclass(frozen=True, slots=True)
class Client:
    workspace: Workspace
    account: Account
    # Shown in timelines and on ledger entries, such as "key vrf_test_012…Ubx".
    actor: str

    @property
    def environment(self) -> str:
        return self.account.environment
