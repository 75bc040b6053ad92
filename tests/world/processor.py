import gc
import time
from collections.abc import Callable


def processor_seconds(action: Callable[[], object], rounds: int = 3) -> float:
    """Return the processor seconds that an action takes: the lowest of some rounds.

    Other processes slow a round down, but never make it faster. A round of the garbage
    collector over the objects of earlier tests takes 0.2 s, so there is none.
    """
    gc.disable()
    try:
        return min(_seconds(action) for _ in range(rounds))
    finally:
        gc.enable()


def _seconds(action: Callable[[], object]) -> float:
    begun_at = time.process_time()
    action()
    return time.process_time() - begun_at
