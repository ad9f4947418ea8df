"""The law of revision: what was added and not withdrawn is what an engine gives on the same input in order."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl
import pytest

from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, iteration, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case

UNSEEN = 0.6
"""The share of pushes after which nothing is compared with a run over all there is, which takes longer than a push.
What one has wrong mostly stays wrong, and at the end all is compared."""

Change = tuple[Event, int]
Rows = Counter[tuple[object, ...]]


def rows(frames: dict[str, pl.DataFrame], sign: int | None = None) -> Rows:
    """Rows of tables, each with its columns' names; with a `sign` those that have this `@change`."""
    found: Rows = Counter()
    for name, table in frames.items():
        table = table if sign is None else table.filter(pl.col("@change") == sign).drop("@change", "@id")
        for row in table.iter_rows(named=True):
            found[name, *row.items()] += 1
    return found


def tables(engine: Engine, changes: Sequence[tuple[int, Change]]) -> dict[str, pl.DataFrame]:
    """A push: changes with their positions."""
    by_type: dict[str, list[tuple[int, Event, int]]] = {}
    for position, (event, sign) in changes:
        by_type.setdefault(event.type, []).append((position, event, sign))
    made = {}
    for type, found in by_type.items():
        columns = {
            "start": [event.start for _, event, _ in found],
            "end": [event.end for _, event, _ in found],
            "@order": [position for position, _, _ in found],
            "@change": pl.Series([sign for *_, sign in found], dtype=pl.Int8),
        }
        for place, attribute in enumerate(engine.inputs[type].attributes):
            columns[attribute.name] = pl.Series([event.args[place] for _, event, _ in found], strict=False)
        made[type] = pl.DataFrame(columns)
    return made


class Known:
    """What is in the input after a prefix of it. `keys`: events whose first argument is their KEY; `sets`: those of
    which equal records are one; of others they are as many."""

    def __init__(self, length: int, keys: Iterable[str], sets: Iterable[str] = ()) -> None:
        self.length, self.keys, self.sets = length, frozenset(keys), frozenset((*keys, *sets))
        self.latest = -(2**62)
        self.there: dict[tuple[object, ...], list[tuple[int, Event]]] = {}

    def take(self, position: int, change: Change, latest: int | None = None) -> str | None:
        """Why it is a dead letter, if it is one: `latest` is that against which it is late, None: the latest so far."""
        event, sign = change
        if event.end < (self.latest if latest is None else latest) - self.length:
            return "late"
        self.latest = max(self.latest, event.end)
        args = event.args[:1] if event.type in self.keys else event.args
        key = (event.type, args, event.start, event.end)
        there = self.there.setdefault(key, [])
        if sign < 0:
            if not there:
                return "unknown-withdrawal"
            there.pop()
        elif event.type not in self.sets:
            there.append((position, event))
        elif not there or there[0][1].args != event.args:
            there[:] = [(position, event)]
        return None

    def in_order(self) -> list[Event]:
        return [event for _, event in self.placed()]

    def into(self, engine: Engine) -> None:
        """Give it to an engine in order, each event with its place in what came: that of a record is its own."""
        made = tables(engine, [(position, (event, 1)) for position, event in self.placed()])
        engine.receive({name: table.drop("@change") for name, table in made.items()})

    def placed(self) -> list[tuple[int, Event]]:
        every = (one for there in self.there.values() for one in there)
        return sorted(every, key=lambda one: (one[1].end, one[0]))


def sets_of(engine: Engine) -> set[str]:
    """The events of which equal records are one by what they are."""
    return {name for name, schema in engine.inputs.items() if schema.distinct or schema.fluent is not None}


def named(frames: dict[str, pl.DataFrame], sign: int) -> Rows:
    """The names of rows that have this `@change`."""
    return Counter(
        (name, id) for name, table in frames.items() for id in table.filter(pl.col("@change") == sign)["@id"].to_list()
    )


def check(
    text: str, events: Sequence[Event], rng: random.Random, length: int, keys: Iterable[str] = (), **options: object
) -> int:
    """Push events in any order, some twice, some withdrawn, in random pieces; gives how many rows were withdrawn."""
    compiling, running = divided(options)
    program = compiled(text, "<program>", compiling)
    running = replace(running, revise=length)
    ordered = replace(running, revise=None, lateness=None)
    engine = Engine(program, running)
    events = [event for event in events if event.type in engine.inputs]
    if rng.random() < 0.5:
        events = rng.sample(events, len(events))
    changes: list[Change] = []
    for number, event in enumerate(events):
        changes.append((event, 1))
        if rng.random() < 0.3:
            gone = rng.choice(events[: number + 1])
            if gone.type in keys and rng.random() < 0.5:  # its KEY and its times say which it is
                gone = replace(gone, args=(gone.args[0], *[None] * (len(gone.args) - 1)))
            changes.append((gone, -1))
        if rng.random() < 0.1:
            changes.append((event, 1))
    names: Rows = Rows()
    known, net, withdrawn, at = Known(length, keys, sets_of(engine)), Rows(), 0, 0
    looks = random.Random(text)
    in_turn = looks.random() < 0.5
    while at < len(changes):
        piece = list(enumerate(changes))[at : at + rng.choice((1, 1, 2, 3, 5))]
        at += len(piece)
        before = known.latest
        told = [known.take(position, change, known.latest if in_turn else before) for position, change in piece]
        reasons = Counter(filter(None, told))
        if rng.random() < 0.15:
            own = compiled(text, "<program>", compiling) if running.explain else program  # its codes are its own
            engine = Engine(own, running).restore(engine.snapshot())
        elif looks.random() < 0.1:
            engine.snapshot()  # and the same engine goes on
        if in_turn:
            engine.receive(tables(engine, piece), in_turn=True)
            made = engine.advance(engine.reached)
        else:
            made = engine.push(tables(engine, piece))
        assert Counter(row.code for row in engine.take_dead()) == reasons, (text, changes[:at], length)
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
        names.subtract(named(made, -1))
        names.update(named(made, 1))
        withdrawn += rows(made, -1).total()
        assert set(names.values()) <= {0, 1}, "no row is added twice, and none withdrawn that is not there"
        if looks.random() < UNSEEN:
            continue
        other = Engine(program, ordered)
        known.into(other)
        assert +net == rows(other.advance(known.latest) if known.latest > -(2**62) else {}), (
            text,
            changes[:at],
            length,
        )
    made = engine.close()
    net.subtract(rows(made, -1))
    net.update(rows(made, 1))
    other = Engine(program, ordered)
    known.into(other)
    assert +net == rows(other.close()), (text, changes, length)
    return withdrawn


@pytest.mark.parametrize("seed", seeds(300))
def test_the_law_on_random_programs_of_events(seed: int) -> None:
    rng = random.Random(seed)
    made = rng.choice([program, iteration, recursion, contest, window, loop, *[keyed] * 6])(rng)
    lines, keys = [], []
    for line in made.text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    try:
        Engine.from_text("\n".join(lines), types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    length = rng.choice((0, 1, 3, 20)) * 1_000_000
    try:
        check("\n".join(lines), made.events, rng, length, keys, types=types(made.events), max_derivations=2000)
    except CepError as error:
        assert error.code == "recursion", "some of what is drawn goes on for ever"


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_on_fluents(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng, FEATURES, rng.randint(0, 3), rng.randint(1, 3))
    check(case.program, case.events, rng, rng.choice((0, 3, 10, 100)), changes=seed % 3 == 0)


READINGS = """
event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S) <- reading(S, _, T) WHERE T > 30.
"""


def reading(time: int, sensor: str, seq: int, temp: float | None) -> dict[str, object]:
    return {"start": time, "end": time, "sensor": sensor, "seq": seq, "temp": temp}


def pushed(engine: Engine, *records: dict[str, object], change: int | None = None) -> list[tuple[int, str, int]]:
    table = pl.DataFrame(records, schema_overrides={"temp": pl.Float64})
    if change is not None:
        table = table.with_columns(pl.lit(change, pl.Int8).alias("@change"))
    made = engine.push({"reading": table})
    return [(row["end"], row["s"], row["@change"]) for row in made.get("hot", pl.DataFrame()).iter_rows(named=True)]


def test_a_correction_replaces_the_record_of_its_key_and_time() -> None:
    engine = Engine.from_text(READINGS, revise=100)
    assert pushed(engine, reading(10, "a", 1, 31.0)) == [(10, "a", 1)]
    assert pushed(engine, reading(20, "b", 1, 29.0)) == []
    assert pushed(engine, reading(10, "a", 1, 25.0)) == [(10, "a", -1)]
    assert pushed(engine, reading(20, "b", 1, 39.0)) == [(20, "b", 1)]
    assert pushed(engine, reading(20, "b", 1, 38.0)) == [], "one push nets its changes"
    assert pushed(engine, reading(20, "b", 1, None), change=-1) == [(20, "b", -1)], "a withdrawal needs but the key"
    assert engine.take_dead() == []


def test_what_is_final_and_what_never_was_are_dead_letters() -> None:
    engine = Engine.from_text(READINGS, revise=100)
    pushed(engine, reading(1000, "a", 1, 31.0))
    assert pushed(engine, reading(901, "a", 2, 31.0)) == [(901, "a", 1)]
    assert pushed(engine, reading(900, "a", 2, 31.0)) == [(900, "a", 1)], "exactly so old is taken"
    assert pushed(engine, reading(899, "a", 2, 31.0)) == []
    assert pushed(engine, reading(1000, "z", 2, 31.0), change=-1) == []
    assert [(row.code, row.reason) for row in engine.take_dead()] == [
        ("late", "is late by 0.001 ms: results for that time are final"),
        ("unknown-withdrawal", "withdraws a record that does not exist"),
    ]


def test_only_what_is_final_is_given_where_that_is_asked() -> None:
    engine = Engine.from_text(READINGS, revise=100, final=True)
    table = pl.DataFrame([reading(10, "a", 1, 31.0), reading(50, "a", 1, 32.0), reading(10, "a", 1, 35.0)])
    assert not engine.push({"reading": table}).get("hot", pl.DataFrame()).height
    made = engine.push({"reading": pl.DataFrame([reading(115, "a", 3, 0.0)])})["hot"]
    assert made.rows() == [(10, 10, "a")], "without `@change`: nothing of it is ever withdrawn"
    assert engine.close()["hot"].rows() == [(50, 50, "a")]


def test_without_revise_a_record_replaces_one_that_still_waits() -> None:
    engine = Engine.from_text(READINGS, lateness=50)
    engine.push({"reading": pl.DataFrame([reading(10, "a", 1, 31.0), reading(20, "a", 1, 31.0)])})
    engine.push({"reading": pl.DataFrame([reading(10, "a", 1, 1.0)])})
    late = pl.DataFrame([reading(90, "a", 1, 1.0), reading(20, "a", 1, 1.0)])
    other = Engine.from_text(READINGS, lateness=50).restore(engine.snapshot())
    engine.receive({"reading": late}, in_turn=True)
    assert engine.advance(engine.reached)["hot"].rows() == [(20, 20, "a")]
    assert [(row.row, row.code) for row in engine.take_dead()] == [(1, "late")], "the row before it was so much later"
    assert "hot" not in other.push({"reading": late}) and other.take_dead() == [], "one push is one batch"


def test_an_id_stays_and_the_end_of_a_fluent_is_no_part_of_it() -> None:
    text = "fluent on(m: string).\ninitiate on(M) <- up(M).\nterminate on(M) <- down(M)."
    engine = Engine.from_text(text, revise=1000, types={"up": ("string",), "down": ("string",)})
    engine.push([Event("up", ("a",), 10, 10), Event("down", ("a",), 50, 50)])
    made = engine.push([Event("down", ("a",), 30, 30)])["on"]
    assert made.select("end", "@change").rows() == [(50, -1), (30, 1)]
    assert made["@id"].n_unique() == 1


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="`final` needs `revise`"):
        Engine.from_text(READINGS, final=True)
    with pytest.raises(CepError, match="must be 1 or -1"):
        pushed(Engine.from_text(READINGS, revise=1), reading(10, "a", 1, 31.0), change=2)
    snapshot = Engine.from_text(READINGS, revise=1).snapshot()
    plain = READINGS.replace(" KEY sensor, seq", "")
    with pytest.raises(CepError, match="another program"):
        Engine.from_text(plain).restore(snapshot)
    snapshot = Engine.from_text(plain).snapshot()
    with pytest.raises(CepError, match="made without `revise`"):
        Engine.from_text(plain, revise=1).restore(snapshot)
    for made, other in ((1, None), (None, 1)):
        with pytest.raises(CepError, match="made with another `revise`, or without it"):
            Engine.from_text(READINGS, revise=other).restore(Engine.from_text(READINGS, revise=made).snapshot())


@pytest.mark.parametrize("text", ["KEY sensr", "KEY", "KEY sensor, sensor", "key sensor", "KEY sensor KEY seq"])
def test_a_key_that_is_none_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(CepError) as refused:
        Engine.from_text(f"event reading(sensor: string, seq: int) TIME time {text}.\nx(S) <- reading(S, _).")
    assert refused.value.hint


def test_a_key_is_printed() -> None:
    from cep.language.syntax.parser import parse
    from cep.language.syntax.printer import print_program

    text = 'event reading(sensor: string, seq: int) TIME t ZONE "UTC" KEY sensor, seq.\n'
    assert print_program(parse(text)) == text


def test_records_of_fluents_have_no_key() -> None:
    with pytest.raises(CepError, match="a fluent cannot have a KEY"):
        Engine.from_text("fluent on(m: string) START s END e KEY m.")
