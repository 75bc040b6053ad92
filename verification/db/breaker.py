"""The breaker: stop calling a source or a receiver that fails again and again.

Its state is three columns of the row: `failures_in_row`, `resting_until` and `rests`.
It opens at the tenth failure in a row, for 30 seconds. After a rest one call probes the
system. If that call fails as well, the next rest is twice as long, up to five minutes.
One success closes the breaker and makes `resting_until` null.
"""

FAILURE_THRESHOLD = 10

# Assignments of an UPDATE. `failures` is the number of new failures in a row, `at` the
# time of the last one.
COUNT_FAILURES = f"""
    failures_in_row = failures_in_row + %(failures)s,
    resting_until = CASE
        WHEN failures_in_row + %(failures)s < {FAILURE_THRESHOLD} THEN NULL
        WHEN resting_until > %(at)s THEN resting_until
        ELSE %(at)s + interval '1 second' * LEAST(300, 30 * 2 ^ LEAST(rests, 10))
    END,
    rests = rests + CASE
        WHEN failures_in_row + %(failures)s < {FAILURE_THRESHOLD} THEN 0
        WHEN resting_until > %(at)s THEN 0
        ELSE 1
    END
"""
CLOSED = {"failures_in_row": 0, "resting_until": None, "rests": 0}
