"""Programs split into stages, and the events that they derive in buckets, for tests."""

from __future__ import annotations

from random import Random
from typing import Any

from cep.engine import Engine
from cep.events import Event, types_of
from cep.plan.partition import Stage, partition
from tests.program_maker import SECOND
from tests.rounds import Buckets
from tests.test_equivalence import in_order


def split(text: str) -> list[str]:
    """The stages of a program, a line each: how it runs, its inputs with their ways, `->` what it makes (`*`: to be
    made one)."""
    return [line(stage) for stage in partition(Engine.from_text(text).plan)]


def line(stage: Stage) -> str:
    ways = {e: ",".join(map(str, r)) if isinstance(r, tuple) else r for e, r in sorted(stage.inputs.items())}
    inputs = [event if way == "single" else f"{event}[{way}]" for event, way in ways.items()]
    outputs = [f"{event}*" if event in stage.merged else event for event in stage.outputs]
    return " ".join(["keyed" if stage.keyed else "single", *inputs, "->", *outputs])


def reasons(text: str) -> list[str]:
    """Why rules of a program run in one place, each with its line."""
    plan = Engine.from_text(text).plan
    unsplit = [reason for stage in partition(plan) for reason in stage.reasons]
    return [f"{plan.rules.rules[reason.rule].span.line}: {reason.text}" for reason in unsplit]


def derived(program: str, events: list[Event], count: int, seed: int = 0, **options: Any) -> list[Event]:
    """What stages in so many buckets give."""
    return Buckets(program, count, Random(seed), **{"types": types_of(events)} | options).run([list(enumerate(events))])


def crowded(arities: dict[str, int], seed: int) -> list[Event]:
    """Events of three instants."""
    random = Random(seed)
    events = []
    for _ in range(44):
        type = random.choice(list(arities))
        time = random.randrange(3) * SECOND
        events.append(Event(type, tuple(random.randrange(3) for _ in range(arities[type])), time, time))
    return in_order(events)
