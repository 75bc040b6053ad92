from tests.checks.conftest import paying_api as paying_api
from tests.logs import log_lines as log_lines
from tests.sources.two import two as two
