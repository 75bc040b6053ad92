from tests.checks.conftest import paying_api as paying_api
from tests.sources.two import two as two
from tests.world.logs import log_lines as log_lines
