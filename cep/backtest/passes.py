"""Run the points of a grid in passes over the history, one after the other or in parallel processes.

The caller stores the results of each pass in a state file, so that an interrupted run can resume.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any

from cep.app.durations import refuse
from cep.app.pipeline import Interrupt
from cep.backtest.scoring import Figures
from cep.core.errors import CepError
from cep.rules.parameters import Value

if TYPE_CHECKING:
    from cep.backtest.command import BacktestOptions
    from cep.backtest.search import Search

POLL = 0.5
"""The number of seconds between two progress reports of the processes."""
Point = tuple[Value, ...]
Seen = Callable[[float], None]
"""A callback that receives the progress of a pass, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The figures of a point: over the `whole` history and, if there is a holdout, over the parts `before` and `after`
    the start of the holdout."""

    whole: Figures
    before: Figures | None = None
    after: Figures | None = None


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """A summary of a history.

    - `since`, `until`: the end of the first record, and the end of the last record.
    - `records`, `dead`: the number of records, and the number of dead letters.
    - `first_dead`: the place and the reason of the first dead letter, or None if there was none.
    - `unknown`: remarks about labels whose key does not occur in any record.
    """

    since: int
    until: int
    records: int
    dead: int
    first_dead: str | None = None
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """The results of a pass: the figures of each point, and a summary of the history."""

    parts: list[Parts]
    history: HistorySummary


def passes(
    search: Search, pieces: Sequence[Sequence[Point]], workers: int, seen: Seen
) -> Iterator[tuple[int, PassResult]]:
    """Run the points of a grid, divided into `pieces`. Yield the number and the results of each finished piece.

    - `workers`: the number of processes.
    - `seen`: a callback that receives the progress, from 0 to 1.

    Raises KeyboardInterrupt if a signal arrives. The results of unfinished pieces are then lost. Raises CepError if a
    process dies.
    """
    if min(workers, len(pieces)) < 2:
        for number, points in enumerate(pieces):
            yield number, search.run_points(points, partial(_seen, seen, number, len(pieces)))
        return
    yield from _in_processes(search, pieces, min(workers, len(pieces)), seen)


def _seen(seen: Seen, number: int, pieces: int, part: float) -> None:
    seen((number + part) / pieces)


def _in_processes(
    search: Search, pieces: Sequence[Sequence[Point]], workers: int, seen: Seen
) -> Iterator[tuple[int, PassResult]]:
    context = get_context("spawn")  # threads of libraries do not survive a fork
    done = context.Array("d", len(pieces) + 1, lock=False)  # the progress of each piece, and last a flag to stop
    interrupt = Interrupt()
    pool = ProcessPoolExecutor(workers, context, _begin, (type(search).of, search.options, done))
    with interrupt.listening():
        try:
            waiting: dict[Future[PassResult], int] = {
                pool.submit(_run, number, points): number for number, points in enumerate(pieces)
            }
            while waiting:
                finished, _ = wait(waiting, POLL, FIRST_COMPLETED)
                seen(sum(done[: len(pieces)]) / len(pieces))
                for future in finished:
                    yield waiting.pop(future), future.result()
                if interrupt.signal:
                    raise KeyboardInterrupt
        except BrokenProcessPool:
            hint = "perhaps it ran out of memory: use fewer `--workers`"
            raise CepError("--workers: a worker process ended unexpectedly", hint=hint, code="failed") from None
        finally:
            done[len(pieces)] = 1.0
            pool.shutdown(wait=True, cancel_futures=True)


_search: Search | None = None
_done: Any = None


def _begin(search_of: Callable[[BacktestOptions], Search], options: BacktestOptions, done: Any) -> None:
    """Initialize a worker process: compile the program, and let only the parent process react to Ctrl-C."""
    global _search, _done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _search, _done = search_of(options), done


def _end_with_parent() -> None:
    """End this process when its parent process has ended, even if the parent was killed."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _run(number: int, points: Sequence[Point]) -> PassResult:
    assert _search is not None, "the process has begun"

    def seen(part: float) -> None:
        if _done[len(_done) - 1]:
            raise refuse("stopped")
        _done[number] = part

    result = _search.run_points(points, seen)
    _done[number] = 1.0
    return result
