"""Measures the service as it runs, next to the floor of what it could cost.

    python -m benchmarks                 all of them
    python -m benchmarks drain lists     some
    python -m benchmarks --tiny          all, so small that nothing is measured

Each module that has a function marked `@bench` is a bench of its own. It gets the
running `Service`, yields `Figure`s, and takes its sizes as keywords. BENCH_DATA_DIR
names a folder in which the database is kept from run to run, so that the lists are
filled once; without it a temporary folder is used. DATABASE_URL names another server,
on which databases are made whose names begin with BENCH_DATABASE.
"""
