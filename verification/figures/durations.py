"""Durations in buckets, so that days add up and percentiles come from the sums.

A bucket is the fourth part of a doubling: bucket `n` holds durations from 2^(n/4)
milliseconds up to the next bucket. A percentile is the middle of its bucket, so it is
wrong by up to 9 %.
"""

import math
from collections.abc import Mapping
from datetime import timedelta

PER_DOUBLING = 4
# The largest error of a percentile, in percent
ERROR_PERCENT = math.ceil((2 ** (1 / (2 * PER_DOUBLING)) - 1) * 100 - 0.5)
# The bucket of the milliseconds {0}, in SQL. Less than one counts as one.
BUCKET = f"floor({PER_DOUBLING} * ln(greatest({{0}}, 1)::float8) / ln(2))::int"


def percentile(counts: Mapping[int, int], percent: int) -> timedelta | None:
    """Return the percentile of the durations, or None if there are no counts."""
    wanted = math.ceil(sum(counts.values()) * percent / 100)
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= max(wanted, 1):
            middle = 2 ** ((bucket + 0.5) / PER_DOUBLING)
            return timedelta(milliseconds=middle)
    return None
