"""A step of a program. Rows up to the new watermark leave the reorder buffer and go through the goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from cep.core.errors import CepError
from cep.core.relation import Table
from cep.core.time import BEGINNING, END_OF_TIME
from cep.runtime.admission import by_table, receive
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.parts import EngineParts
from cep.runtime.time_slices import TimeSlice


class Steppable(Protocol):
    """An object that takes steps. `broken`: True during a step, and after a step has failed."""

    broken: bool


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Steppable)


def wholly(refuses: bool = False) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Return a decorator for methods that take a step. If the step fails, the object is `broken`, and further calls
    fail.

    `refuses`: True if the method checks its arguments before it changes anything. An error then does not break the
    object, unless memory has run out.
    """

    def of(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        @wraps(method)
        def step(self: S, /, *args: P.args, **options: P.kwargs) -> T:
            if self.broken:
                raise CepError(
                    "the engine stopped in the middle of a step, so its state is incomplete",
                    hint="continue with a new engine of the program, restored from the last snapshot",
                    code="broken",
                )
            self.broken = True
            try:
                answer = method(self, *args, **options)
            except Exception as error:
                self.broken = not refuses or isinstance(error, MemoryError)
                raise
            self.broken = False
            return answer

        return step

    return of


TimedChange = tuple[int, Any, Any]
"""A change of the knowledge: the time at which it takes effect (microseconds), the added triples, and the removed
triples."""


def step(parts: EngineParts, watermark: int) -> dict[str, list[Table]]:
    """Advance the watermark. Return the new occurrences of each derived event, one table per slice.

    Events without new occurrences are omitted.
    """
    ended = parts.buffer.watermark >= END_OF_TIME
    released = parts.buffer.release(watermark)
    if parts.history is not None:
        parts.history.add_records(released)
    derived = parts.machine.step(released, parts.buffer.frontier(watermark))
    if parts.changes is not None:
        parts.changes.reach(watermark)
    transitions = {name: derived.pop(name) for name in parts.machine.transitions if name in derived}
    if watermark >= END_OF_TIME and not ended and not parts.plan.changes:
        _extend(derived, parts.machine.open())
    if parts.history is not None:
        edges = parts.plan.edges  # beginnings and ends of fluents have no history of their own
        parts.history.add_derived({name: tables for name, tables in derived.items() if name not in edges})
        parts.history.add_transitions(transitions)
    return derived


def step_slices(parts: EngineParts, slices: Sequence[TimeSlice]) -> dict[str, list[Table]]:
    """Push and step one slice of time after the other. Return the new occurrences as `step` does.

    The refused rows are sorted as after a push of the whole batch: by type, with late rows at the end.
    """
    derived: dict[str, list[Table]] = {}
    refused = len(parts.dead)
    for number, piece in enumerate(slices):
        receive(parts, piece)
        reached = parts.buffer.reached()
        if number:
            _extend(derived, step(parts, min(piece.since, reached)))
    _extend(derived, step(parts, reached))
    parts.dead[refused:] = by_table(parts.dead[refused:], slices[0].tables)
    return derived


def _extend(tables_by_name: dict[str, list[Table]], more: Mapping[str, list[Table]]) -> None:
    for name, tables in more.items():
        tables_by_name.setdefault(name, []).extend(tables)


def update(parts: EngineParts, changes_given: Sequence[TimedChange]) -> None:
    """Add changes of the knowledge.

    Raises CepError if one of them is late or cannot be applied. The knowledge is then unchanged.
    """
    learn(parts, timely(parts, changes_given))


def know(parts: EngineParts, changes_given: Sequence[TimedChange]) -> None:
    """Replace all changes of the knowledge by `changes_given`, which must take effect at or before the watermark."""
    changes, watermark = _changing(parts), parts.buffer.watermark
    assert all(time <= watermark for time, _, _ in changes_given), "the others come at their time"
    changes.know([(time, changes.loaded.change(add, remove)) for time, add, remove in changes_given], watermark)


def _changing(parts: EngineParts) -> KnowledgeChanges:
    if parts.changes is None:
        raise CepError(
            "the engine has no knowledge that could change",
            hint="add `knowledge=` to `Engine.from_text`",
            code="knowledge",
        )
    return parts.changes


def timely(parts: EngineParts, changes_given: Sequence[TimedChange]) -> list[tuple[int, bytes]]:
    """Convert changes of the knowledge to the form that `learn` accepts. Raises CepError if one of them is late."""
    changes = _changing(parts)
    stable = parts.buffer.watermark if parts.revision is None else parts.revision.stable
    for time, _, _ in changes_given:
        if not BEGINNING < time < END_OF_TIME:
            raise ValueError("the time of an update must be in microseconds, within 2**62")
        if time <= stable and parts.revision is not None and parts.revision.length:
            hint = "results are revised only as far back as `revise` says, or `--revise` of `cep run`"
            raise CepError("the update is late: the results that it would change are final", hint=hint, code="late")
        if time <= stable:
            hint = "send updates before the events of their time, or within the lateness"
            raise CepError("the update is late: the watermark has passed it", hint=hint, code="late")
    return [(time, changes.loaded.change(add, remove)) for time, add, remove in changes_given]


def learn(parts: EngineParts, timed_changes: Sequence[tuple[int, bytes]]) -> None:
    """Add changes of the knowledge (see `KnowledgeSource.change`) that are not late.

    Raises CepError if one of them cannot be applied. The knowledge is then unchanged.
    """
    changes = parts.changes
    assert changes is not None, "who gives changes gives knowledge"
    if parts.revision is not None and any(time <= parts.buffer.watermark for time, _ in timed_changes):
        parts.revision.leave()  # reruns that must still use the former knowledge
    changes.add(timed_changes, parts.buffer.watermark)
