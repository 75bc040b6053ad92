from tests.accounts.visitor import empty_cache as empty_cache
