"""Measure the running service, and compare it with the least possible cost.

    python -m benchmarks                 all of them
    python -m benchmarks drain lists     some
    python -m benchmarks --tiny          all, at sizes too small to measure

Each function with `@bench` is a bench. It gets the running `Service`, takes its sizes
as keywords, and yields `Figure`s. BENCH_DATA_DIR names a folder for the database, which
later runs then fill no more; the default is a temporary folder. DATABASE_URL names
another server; the names of the bench's databases there begin with BENCH_DATABASE.
"""
