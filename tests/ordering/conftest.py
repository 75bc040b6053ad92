from tests.logs import log_lines as log_lines
from tests.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.payments import taker as taker
