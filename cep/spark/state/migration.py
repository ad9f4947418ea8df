"""The migration of a checkpoint to another program: which rules go on, which start empty, and what forbids it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.core.errors import CepError
from cep.engine import Engine
from cep.plan.partition import Stage, partition
from cep.spark.sink.event_files import ParquetLayout


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Where the state of a program is: `rules` with state and their `goals`, by name; `stages`: for each how its events
    are dealt to buckets (`inputs`, `keyed`), which of them are input (`outside`), what it derives (`outputs`), and its
    goals. `events`: the types of input events; `columns`: of Parquet, by event."""

    rules: dict[str, list[str]]
    stages: list[dict[str, Any]]
    events: dict[str, list[str]]
    columns: dict[str, dict[str, str]]

    @classmethod
    def of(cls, engine: Engine, wanted: Sequence[str]) -> StateLayout:
        """The layout of the program that the engine runs, of which the events `wanted` are written."""
        rules = {rule: sorted(goals) for rule, goals in engine.goals().items()}
        return cls(
            rules,
            [_stage(engine, stage) for stage in partition(engine.plan)],
            {name: [a.type for a in schema.attributes] for name, schema in sorted(engine.inputs.items())},
            ParquetLayout({event: engine.outputs[event] for event in wanted}).names,
        )

    @property
    def goals(self) -> set[str]:
        """The names of all goals."""
        return {goal for goals in self.rules.values() for goal in goals}


@dataclass(frozen=True, slots=True)
class Migration:
    """The rules with state: those that go `on`, those that start `empty`, and those that are `gone`."""

    on: tuple[str, ...]
    empty: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        parts = {"go on": self.on, "start empty": self.empty, "are gone": self.gone}
        return "; ".join(f"{what}: {', '.join(rules)}" for what, rules in parts.items() if rules)


def migrated(before: StateLayout, now: StateLayout, reasons: Sequence[str] = ()) -> tuple[Migration, list[int]]:
    """What is carried over, and for each stage now the number of the stage before that it continues, 0: none. CepError:
    something forbids it; says all reasons."""
    found = [
        f"`{event}` comes with other attributes: {', '.join(types)} before, {', '.join(now.events[event])} now"
        for event, types in before.events.items()
        if now.events.get(event, types) != types
    ]
    sources = []
    for number in range(1, len(now.stages) + 1):
        source, why = _source(before, now, number)
        sources.append(source)
        found += why
    if found := [*reasons, *found]:
        raise CepError(
            "--migrate: the state cannot be carried over\n" + "\n".join(found),
            hint="start anew with other folders, or leave out the rules that ask for it",
            code="checkpoint",
        )
    was, is_now = before.goals, now.goals
    moved = Migration(
        tuple(rule for rule, goals in now.rules.items() if was.issuperset(goals)),
        tuple(rule for rule, goals in now.rules.items() if not was.issuperset(goals)),
        tuple(rule for rule, goals in before.rules.items() if is_now.isdisjoint(goals)),
    )
    return moved, sources


def _source(before: StateLayout, now: StateLayout, number: int) -> tuple[int, list[str]]:
    """The stage before that had the state of this one, 0: there is none; and why it does not fit."""
    stage = now.stages[number - 1]
    mine = before.goals.intersection(stage["goals"])
    if not mine:
        return 0, []
    having = [place for place, one in enumerate(before.stages, 1) if mine.issubset(one["goals"])]
    if not having:
        several = [str(place) for place, one in enumerate(before.stages, 1) if mine.intersection(one["goals"])]
        return 0, [f"stage {number} would take over parts of what stages {' and '.join(several)} remember"]
    each = {place: _misfits(number, stage, before.stages[place - 1]) for place in having}
    best = min(having, key=lambda place: (len(each[place]), abs(place - number)))
    return best, each[best]


def _misfits(number: int, now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Why the state in the buckets of a stage is not where another stage, of this number, would look for it."""
    if now["keyed"] != before["keyed"]:
        return [f"stage {number} ran {_ran(before['keyed'])}, and would run {_ran(now['keyed'])}"]
    found = [
        f"stage {number} deals `{event}` by {_way(now['inputs'][event])}, before by {_way(way)}"
        for event, way in before["inputs"].items()
        if now["inputs"].get(event, way) != way
    ]
    came = sorted(set(now["inputs"]).difference(before["inputs"]).intersection(before["outputs"]))
    made = sorted(set(before["inputs"]).difference(now["inputs"]).intersection(now["outputs"]))
    found += [f"stage {number} made `{event}` itself, and would take it from another stage" for event in came]
    return found + [f"stage {number} took `{event}` from another stage, and would make it itself" for event in made]


def _stage(engine: Engine, stage: Stage) -> dict[str, Any]:
    inputs = {event: list(way) if isinstance(way, tuple) else way for event, way in sorted(stage.inputs.items())}
    goals = {goal for goals in engine.goals(stage.rules).values() for goal in goals}
    ways = {"keyed": stage.keyed, "inputs": inputs, "outside": sorted(stage.outside), "outputs": list(stage.outputs)}
    return ways | {"goals": sorted(goals)}


def _ran(keyed: bool) -> str:
    return "in buckets" if keyed else "in one place"


def _way(way: Any) -> str:
    if not isinstance(way, list):
        return {"whole": "all that it is", "broadcast": "going everywhere", "single": "one place"}[way]
    return "argument " + " and ".join(str(position + 1) for position in way)
