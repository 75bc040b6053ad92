"""The jobs that run at least every ten minutes, with nothing due among many reports."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.module_loading import import_string

from benchmarks.figures import Figure, bench, timed
from benchmarks.lists import use_filled
from benchmarks.service import Service
from verification.jobs.names import JobName

MILLISECONDS = 50
# Its own bench is `console_figures`.
ELSEWHERE = {JobName.COUNT_CHANGED_DAYS}


@bench(is_filled=True, reports=2_000, rounds=1)
def clock_jobs(
    service: Service, reports: int = 1_000_000, rounds: int = 10
) -> Iterator[Figure]:
    use_filled(service, reports)
    for name in JobName:
        if name.minutes and name.minutes <= 10 and name not in ELSEWHERE:
            run = import_string(name.value)
            samples = [timed(run) for _ in range(rounds + 1)]
            what = name.value.rpartition(".")[2]
            yield Figure(what, samples[1:], target=MILLISECONDS)
