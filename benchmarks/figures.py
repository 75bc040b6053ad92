"""The figures of a bench, and the table that shows them."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.service import Service

# A tiny bench that takes longer hangs.
TINY_SECONDS = 300
WIDTHS = (38, 22, 17, 12, 8, 18, 3)
HEADINGS = ("", "measured", "5 % to 95 %", "floor", "ratio", "target", "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table: samples, and their limits.

    `target` is the limit of the median, or of the percentile `at`. `ratio` is the limit
    of measured to floor. If `rate` is set, more is better.
    """

    what: str
    samples: Sequence[float]
    unit: str = "ms"
    at: int = 50
    target: float | None = None
    floor: Sequence[float] = ()
    ratio: float | None = None
    rate: bool = False

    @property
    def measured(self) -> float:
        return percentile(self.samples, self.at)

    @property
    def times_floor(self) -> float | None:
        if not self.floor:
            return None
        over = self.measured / median(self.floor)
        return 1 / over if self.rate else over

    @property
    def verdict(self) -> str:
        results = []
        if self.target is not None:
            over, target = self.measured, self.target
            results.append(over >= target if self.rate else over <= target)
        if self.ratio is not None and self.times_floor is not None:
            results.append(self.times_floor <= self.ratio)
        return ("ok" if all(results) else "NO") if results else ""

    def columns(self) -> tuple[str, ...]:
        name = "" if self.at == 50 else f" (p{self.at})"
        return (
            self.what,
            f"{_short(self.measured)} {self.unit}{name}",
            f"{self._at(5)} to {self._at(95)}" if len(self.samples) > 1 else "",
            f"{_short(median(self.floor))} {self.unit}" if self.floor else "",
            f"{self.times_floor:.1f}x" if self.times_floor else "",
            self._targets(),
            self.verdict,
        )

    def _at(self, at: int) -> str:
        return _short(percentile(self.samples, at))

    def _targets(self) -> str:
        sign = ">=" if self.rate else "<="
        limits = [] if self.target is None else [f"{sign} {_short(self.target)}"]
        return ", ".join(limits + ([f"<= {self.ratio:g}x"] if self.ratio else []))


BenchFunction = Callable[..., Iterable[Figure]]


@dataclass(frozen=True, slots=True)
class Bench:
    run: BenchFunction
    # Sizes with which the bench ends within two seconds, for its test.
    tiny: dict[str, Any] = field(default_factory=dict)
    # Whether it measures a database of very many reports.
    is_filled: bool = False


BENCHES: dict[str, Bench] = {}


def bench(
    *, is_filled: bool = False, **tiny: Any
) -> Callable[[BenchFunction], BenchFunction]:
    """Register a bench under the name of its function."""

    def register(function: BenchFunction) -> BenchFunction:
        BENCHES[function.__name__.replace("_", "-")] = Bench(function, tiny, is_filled)
        return function

    return register


def run(
    name: str, service: Service, *, tiny: bool, reports: int | None = None
) -> list[Figure]:
    """Run a bench, and print each figure at once.

    `reports` is the number of those that a bench of very many reports fills.
    """
    chosen = BENCHES[name]
    print(f"\n{name}")
    print(_line(HEADINGS), flush=True)
    if tiny:
        # Says where it hangs, as nobody watches.
        faulthandler.dump_traceback_later(TINY_SECONDS, exit=True)
    if not chosen.is_filled:
        service.use_own()
    options = dict(chosen.tiny) if tiny else {}
    if reports and chosen.is_filled:
        options["reports"] = reports
    figures = []
    for figure in chosen.run(service, **options):
        print(_line(figure.columns()), flush=True)
        figures.append(figure)
    service.park()
    faulthandler.cancel_dump_traceback_later()
    return figures


def summary(figures: dict[str, list[Figure]]) -> None:
    """Print all figures with a limit again."""
    print("\nsummary")
    print(_line(HEADINGS))
    for name, of_bench in figures.items():
        for figure in of_bench:
            if figure.verdict:
                what, *others = figure.columns()
                print(_line((f"{name}: {what}", *others)))


def percentile(samples: Sequence[float], at: int) -> float:
    if at == 50 or len(samples) < 2:
        return median(samples)
    return quantiles(samples, n=100, method="inclusive")[at - 1]


def timed(action: Callable[[], Any]) -> float:
    """Run the action. Returns its milliseconds."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def interleaved(
    rounds: int,
    *actions: Callable[[], Any],
    before: Callable[[], Any] = lambda: None,
    warm: int = 1,
) -> list[list[float]]:
    """Run the actions in turn, so that a slow moment of the machine affects all.

    Returns the milliseconds of each action. `before` runs before each, untimed.
    """

    def sample(action: Callable[[], Any]) -> float:
        before()
        return timed(action)

    samples = [[sample(action) for action in actions] for _ in range(warm + rounds)]
    return [list(of_action) for of_action in zip(*samples[warm:], strict=True)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(columns: Sequence[str]) -> str:
    return " ".join(
        f"{text:<{width}}" for text, width in zip(columns, WIDTHS, strict=True)
    ).rstrip()
