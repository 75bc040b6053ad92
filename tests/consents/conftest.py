from tests.world.logs import log_lines as log_lines
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.payments import taker as taker
