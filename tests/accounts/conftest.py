import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def nobody_was_here_before():
    cache.clear()
