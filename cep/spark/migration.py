"""From a checkpoint of one program to another: which rules go on, which start empty, and what forbids it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.engine import Engine
from cep.errors import CepError
from cep.plan.algebra import Tick
from cep.plan.partition import Stage, partition
from cep.spark.output import Layout


@dataclass(frozen=True, slots=True)
class Laid:
    """Where the state of a program is: `rules` that remember with their `goals`, by name; `stages`: for each how its
    events are dealt (`inputs`, `keyed`) and its goals. `events`: the types of what comes in; `columns`: of Parquet, by
    event; `ticking`: the rules with time points."""

    rules: dict[str, list[str]]
    stages: list[dict[str, Any]]
    events: dict[str, list[str]]
    columns: dict[str, dict[str, str]]
    ticking: list[str]

    @classmethod
    def of(cls, engine: Engine, wanted: Sequence[str]) -> Laid:
        """That of the program that the engine runs, of which the events `wanted` are written."""
        rules = {rule: sorted(goals) for rule, goals in engine.goals().items()}
        ticks = {name for unit, name in engine.named().items() if _ticks(engine, unit)}
        return cls(
            rules,
            [_stage(engine, stage) for stage in partition(engine.plan)],
            {name: [a.type for a in schema.attributes] for name, schema in sorted(engine.inputs.items())},
            Layout({event: engine.outputs[event] for event in wanted}).names,
            sorted(rule for rule, goals in rules.items() if ticks & set(goals)),
        )

    @property
    def goals(self) -> set[str]:
        """The names of all goals."""
        return {goal for goals in self.rules.values() for goal in goals}


@dataclass(frozen=True, slots=True)
class Migration:
    """The rules that remember: those that go `on`, those that start `empty`, and those that are `gone`."""

    on: tuple[str, ...]
    empty: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        parts = {"go on": self.on, "start empty": self.empty, "are gone": self.gone}
        return "; ".join(f"{what}: {', '.join(rules)}" for what, rules in parts.items() if rules)


def migrated(before: Laid, now: Laid, reasons: Sequence[str] = ()) -> Migration:
    """What is carried over. CepError: something forbids it, with all reasons."""
    told = [*reasons, *_forbidden(before, now)]
    if told:
        raise CepError(
            "--migrate: the state cannot be carried over\n" + "\n".join(told),
            hint="start anew with another folder",
            code="checkpoint",
        )
    was, is_now = before.goals, now.goals
    return Migration(
        tuple(rule for rule, goals in now.rules.items() if was.issuperset(goals)),
        tuple(rule for rule, goals in now.rules.items() if not was.issuperset(goals)),
        tuple(rule for rule, goals in before.rules.items() if is_now.isdisjoint(goals)),
    )


def _forbidden(before: Laid, now: Laid) -> list[str]:
    told = [
        f"`{event}` comes with other attributes: {', '.join(types)} before, {', '.join(now.events[event])} now"
        for event, types in before.events.items()
        if now.events.get(event, types) != types
    ]
    told += [
        f"columns of `{event}`: {', '.join(names.values())} before, {', '.join(now.columns[event].values())} now"
        for event, names in before.columns.items()
        if now.columns.get(event, names) != names
    ]
    told += [f"{rule}: a new time point, which buckets that sleep would miss" for rule in _new_ticks(before, now)]
    if len(before.stages) != len(now.stages):
        return [*told, f"{len(before.stages)} stages before, {len(now.stages)} now: Spark's state goes by them"]
    kept = before.goals & now.goals
    for number, (one, two) in enumerate(zip(before.stages, now.stages, strict=True), 1):
        moved = (set(one["goals"]) ^ set(two["goals"])) & kept
        told += [f"{rule}: another stage" for rule, goals in now.rules.items() if moved & set(goals)]
        if kept & set(one["goals"]) and one["keyed"] != two["keyed"]:
            told.append(f"stage {number} ran {_ran(one['keyed'])}, and would run {_ran(two['keyed'])}")
        elif kept & set(one["goals"]):
            told += _redealt(number, one["inputs"], two["inputs"])
    return list(dict.fromkeys(told))


def _redealt(number: int, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"stage {number} deals `{event}` by {_way(now[event])}, before by {_way(way)}"
        for event, way in before.items()
        if event in now and now[event] != way
    ]


def _new_ticks(before: Laid, now: Laid) -> list[str]:
    return [rule for rule in now.ticking if not before.goals.issuperset(now.rules[rule])]


def _stage(engine: Engine, stage: Stage) -> dict[str, Any]:
    inputs = {event: list(way) if isinstance(way, tuple) else way for event, way in sorted(stage.inputs.items())}
    goals = {goal for goals in engine.goals(stage.rules).values() for goal in goals}
    return {"keyed": stage.keyed, "inputs": inputs, "goals": sorted(goals)}


def _ticks(engine: Engine, unit: int | str) -> bool:
    return isinstance(unit, int) and isinstance(engine.plan.nodes[unit], Tick)


def _ran(keyed: bool) -> str:
    return "in buckets" if keyed else "in one place"


def _way(way: Any) -> str:
    if not isinstance(way, list):
        return {"whole": "all that it is", "broadcast": "going everywhere", "single": "one place"}[way]
    return "argument " + " and ".join(str(position + 1) for position in way)
