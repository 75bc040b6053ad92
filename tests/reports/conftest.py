from tests.orders import _the_ledger_adds_up as _the_ledger_adds_up
