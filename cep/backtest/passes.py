"""The points of a grid run in passes over the history: one after the other, or in processes beside each other.

What a pass has found goes to a state file when it ends, so that a run that is stopped goes on where it was.
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
"""Seconds between two looks at how far processes are."""
Point = tuple[Value, ...]
Seen = Callable[[float], None]
"""Is told which part of a pass is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The figures of a point: of the whole history, and before and after the holdout, where there is one."""

    whole: Figures
    before: Figures | None = None
    after: Figures | None = None


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """The ends of the first and the last record of a history, and the numbers of records and dead letters, with the
    place and the reason of the first of these. `unknown`: of labels whose key no record has, what is wrong."""

    since: int
    until: int
    records: int
    dead: int
    first_dead: str | None = None
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """The results of a pass: of each point, and of the history."""

    parts: list[Parts]
    history: HistorySummary


def passes(
    search: Search, pieces: Sequence[Sequence[Point]], workers: int, seen: Seen
) -> Iterator[tuple[int, PassResult]]:
    """Run points piece by piece; yield the number of each piece with its results when it is done.

    KeyboardInterrupt: a signal came, and the pieces at hand are lost. CepError: a process ended.
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
    done = context.Array("d", len(pieces) + 1, lock=False)  # the part of each piece; the last one: whether to stop
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
            hint = "perhaps it ran out of memory: fewer `--workers`"
            raise CepError("--workers: a process ended by itself", hint=hint, code="failed") from None
        finally:
            done[len(pieces)] = 1.0
            pool.shutdown(wait=True, cancel_futures=True)


_search: Search | None = None
_done: Any = None


def _begin(search_of: Callable[[BacktestOptions], Search], options: BacktestOptions, done: Any) -> None:
    """Make a process ready: it compiles the program, and leaves Ctrl-C to the one that started it."""
    global _search, _done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _search, _done = search_of(options), done


def _end_with_parent() -> None:
    """End the process where the one that started it is gone: it may have been killed."""
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
