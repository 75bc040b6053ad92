import psutil

from verification.jobs.processes import trim_memory

MB = 10**6


def test_what_was_freed_below_what_is_kept_is_given_back():
    blocks = [bytes(1000) for _ in range(50_000)]
    kept = [bytes(1000) for _ in range(2_000)]
    held = psutil.Process().memory_info().rss
    blocks.clear()

    trim_memory()

    assert kept
    assert held - psutil.Process().memory_info().rss > 30 * MB
