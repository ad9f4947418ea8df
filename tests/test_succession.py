"""A program takes over where input is revised: what is told is at each time what the former program derives up to the
change, and the new one afterwards, however late records come, and wherever the program is stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random

import polars as pl
import pytest

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.compile import CompiledProgram, CompileOptions, compiled
from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, resolved
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.succeeding_lifecycle import described
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, CHANGE, Schema
from cep.engine import Engine
from cep.rules.alert import Alert
from cep.runtime.options import EngineOptions
from cep.runtime.output import Frames
from cep.runtime.prior_state import PriorState
from cep.runtime.run_stats import RunStats
from cep.server.shadow import Shadow
from cep.server.warming import OpenRows
from cep.succession import Successor, cuts_between
from tests.live_programs import BEGINNING, END, Result, RevisedRules, Row, Rules, expected_of
from tests.long import seeds
from tests.serving import EIGHT

SECOND = 1_000_000
Record = tuple[int, str, float, int]
"""Microseconds after eight, a fridge, degrees; 1: it comes, -1: it withdraws."""
Told = tuple[object, ...]


@cache
def program(text: str, alerts: bool = False) -> CompiledProgram:
    return compiled(text, "rules.cep", CompileOptions(alerts=alerts))


def table(records: Sequence[Record]) -> pl.DataFrame:
    times = [EIGHT + at for at, *_ in records]
    return pl.DataFrame(
        {
            "start": pl.Series(times, dtype=pl.Int64),
            "end": pl.Series(times, dtype=pl.Int64),
            "fridge": pl.Series([fridge for _, fridge, _, _ in records], dtype=pl.String),
            "temp": pl.Series([temp for _, _, temp, _ in records], dtype=pl.Float64),
            CHANGE: pl.Series([sign for *_, sign in records], dtype=pl.Int8),
        }
    )


class Run:
    """A program that changes. `told`: the rows that it has added and not withdrawn; `there`: the records that count;
    `versions`: its texts, each with the watermark at which it took over."""

    def __init__(self, text: str, options: EngineOptions, alerts: bool = False) -> None:
        self.options, self.alerts, self.keyed = options, alerts, " KEY " in text
        self.engine = Engine(program(text, alerts), options)
        self.versions = [(text, BEGINNING)]
        self.batches: list[pl.DataFrame] = []
        self.there: list[tuple[int, str, float]] = []
        self.told: dict[tuple[str, str], Told] = {}
        self.cuts: dict[str, int] = {}

    def push(self, records: Sequence[Record]) -> Frames:
        shown = self.engine.shown
        self.batches.append(table(records))
        self.engine.receive({"reading": self.batches[-1]}, in_turn=True)
        given = self.engine.advance(self.engine.reached)
        dead = {row.row for row in self.engine.take_dead()}
        for row, (*record, sign) in enumerate(records):
            if row not in dead:
                at, fridge, temp = record
                if self.keyed:
                    self.there = [one for one in self.there if one[:2] != (at, fridge)]
                elif sign < 0:
                    self.there.remove((at, fridge, temp))
                self.there += [(at, fridge, temp)] if sign > 0 else []
        self.take(given, shown)
        return given

    def take(self, given: Frames, shown: Mapping[str, Schema]) -> None:
        """Take rows, of which none is there twice, and none is withdrawn that is not there."""
        for name in given.keys() & shown.keys():
            names = sorted(each.name for each in shown[name].attributes)
            for row in given[name].iter_rows(named=True):
                key, told = (name, row["@id"]), (name, *(row[each] for each in names), row["start"], row["end"])
                before = self.told.get(key)
                if row[CHANGE] < 0:
                    assert before == told
                    del self.told[key]
                else:
                    assert before is None or (before[-1] is None and before[:-1] == told[:-1] and told[-1] is not None)
                    self.told[key] = told

    def successor(self, text: str) -> tuple[Successor, Mapping[str, pl.DataFrame]]:
        """Return an engine of another program that can take over, and the rows of its alerts on fluents that hold."""
        old = self.engine
        warm = Engine(program(text, self.alerts), replace(self.options, final=True))
        rows = OpenRows([(one.table, one.ends, one.arguments) for one in warm.alerts if one.ends is not None])
        for batch in self.batches:
            warm.receive({"reading": batch}, in_turn=True)
            rows.take(warm.advance(warm.reached))
        rows.take(warm.advance(old.stable))
        prior = PriorState(old.state_for_another(), warm=PriorState(warm.snapshot()))
        return Successor(program(text, self.alerts), replace(self.options, before=prior)), rows.open()

    def change(self, text: str) -> Frames | None:
        """Another program takes over, as a server has it do; None: the former one still revises."""
        old = self.engine
        if isinstance(old, Successor) and old.former is not None:
            return None
        new, holding = self.successor(text)
        self.cuts = cuts_between(old, new, self.cuts)
        given = new.take_over(old, {"rules.cep": self.versions[-1][0]}, self.cuts, holding)
        self.versions.append((text, old.watermark))
        self.engine = new
        self.take(given, new.shown)
        return given

    def restart(self) -> None:
        """Go on from a snapshot."""

        def made(texts: Mapping[str, str]) -> Successor:
            return Successor(program(texts["rules.cep"], self.alerts), self.options)

        blob = self.engine.snapshot()
        new = made({"rules.cep": self.versions[-1][0]})
        assert new.goes_on(blob)
        self.engine = new.go_on_with(blob, made)

    def check(self, rules: Mapping[str, Rules]) -> None:
        """Assert that the net rows of the output so far are those that are expected now."""
        until = self.engine.watermark
        whole = {rules[text]: results(text, self.there, until) for text, _ in self.versions}
        wanted = expected_of([(rules[text], time) for text, time in self.versions], whole)
        open_rows = {(*row[:-1], None) if row[-1] == END else row for row in wanted}
        told: set[Row] = set(self.told.values())
        assert sorted(map(str, told - open_rows)) == [], "nothing else is told"
        assert sorted(map(str, open_rows - told)) == [], "nothing is missing"


def results(text: str, there: Sequence[tuple[int, str, float]], until: int) -> list[Result]:
    """Run a program over these records in order, up to a time. Fluents that still hold end at the end of time."""
    engine = Engine(program(text))
    records = [(*record, 1) for record in sorted(there, key=lambda one: one[0]) if EIGHT + record[0] <= until]
    tables = [engine.push({"reading": table(records).drop(CHANGE)}), engine.advance(until)]
    held = {name: rows.with_columns(end=pl.lit(END, pl.Int64)) for name, rows in engine.held_now().items()}
    found: list[Result] = []
    for given in (*tables, held):
        for name, rows in given.items():
            names = sorted(each.name for each in engine.outputs[name].attributes)
            for row in rows.iter_rows(named=True):
                found.append((name, tuple(row[each] for each in names), row["start"], row["end"]))
    return found


class Records:
    """Random readings of three fridges: late, withdrawn, many at one time."""

    def __init__(self, random: Random, length: int, keyed: bool = False) -> None:
        self.random, self.length, self.keyed, self.now = random, length, keyed, 0

    def batch(self, there: Sequence[tuple[int, str, float]]) -> list[Record]:
        random = self.random
        found: list[Record] = []
        for _ in range(random.randrange(1, 5)):
            self.now += random.choice((0, 0, 300_000, 700_000, 1_500_000))
            at = max(0, self.now - (random.randrange(self.length) if random.random() < 0.4 else 0)) // 100_000 * 100_000
            fridge, temp = f"f{random.randrange(3)}", float(random.randrange(10))
            if there and random.random() < 0.15:
                found.append((*random.choice(there[-20:]), -1))
            elif self.keyed or not any(one[:2] == (at, fridge) and one[2] != temp for one in (*there, *found)):
                found.append((at, fridge, temp, 1))  # among different ones at one time the order of arrival would count
        return found


@pytest.mark.parametrize("seed", seeds(36))
def test_what_is_told_is_what_each_program_derives_in_its_time(seed: int) -> None:
    random = Random(seed)
    length, lateness = random.choice((4, 12, 40)) * SECOND, random.choice((0, 0, 2 * SECOND))
    keyed = random.random() < 0.3

    def text(each: Rules) -> str:
        return each.text.replace("TIME time", "TIME time KEY fridge") if keyed else each.text

    rules = [RevisedRules.draw(random)]
    by = random.choice((None, None, "fridge"))
    options = EngineOptions(revise=length, lateness=lateness, begins=True, lateness_by=by)
    run = Run(text(rules[0]), options)
    records, changes = Records(random, length, keyed), 0
    for number in range(60):
        run.push(records.batch(run.there))
        if random.random() < 0.15:
            run.restart()
        if random.random() < 0.2:
            rules.append(RevisedRules.draw(random))
            changes += run.change(text(rules[-1])) is not None
            if random.random() < 0.3:
                run.restart()
        if number % 10 == 9:
            run.check({text(each): each for each in rules})
    assert changes
    assert run.engine.stable > 0


ALERTS = """
fluent hot(f: string).
initiate hot(F) <- reading(F, T) WHERE T > 6.
terminate hot(F) <- reading(F, T) WHERE T < 3.
warm(F, T) <- reading(F, T) WHERE T > 6.
ALERT warm ON warm(f: F, t: T) SEVERITY "Severe" TITLE "{F} at {T}" FOR 3 s KEYED BY F.
ALERT heat ON hot(F) TITLE "{F} is hot" AFTER 1 s KEYED BY F.
"""


class Follower:
    """Follows the alerts of a run."""

    def __init__(self, run: Run) -> None:
        self.run, self.outbox, self.stats = run, Outbox(None), RunStats()
        self.begin()

    def begin(self) -> None:
        self.service = Service(self.run.engine, "", "rules", self.stats, self.run.cuts)
        self.service.listen(AlertListener(self.run.engine, self.outbox))

    def push(self, records: Sequence[Record]) -> None:
        rows = table(records).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ARRIVAL))
        self.service.take(Batch({"reading": rows}, [], []), self.run.push(records))

    def told(self) -> list[Told]:
        """Return the latest change of each alert."""
        entries = [entry.change for entry in self.outbox.latest(most=10**6)]
        return sorted((one.alert, one.state, one.withdrawn, one.start, one.ended, one.title) for one in entries)


@pytest.mark.parametrize("seed", seeds(24))
def test_alerts_that_mean_the_same_go_on_as_if_nothing_had_changed(seed: int) -> None:
    random = Random(seed)
    length = random.choice((4, 12)) * SECOND
    options = EngineOptions(revise=length, begins=True)
    first = Rules.draw(random).text + ALERTS
    changing, steady = (Follower(Run(first, options, alerts=True)) for _ in range(2))
    records, changes = Records(random, length), 0
    for _ in range(60):
        batch = records.batch(steady.run.there)
        changing.push(batch)
        steady.push(batch)
        if random.random() < 0.2:
            given = changing.run.change(Rules.draw(random).text + ALERTS)
            if given is not None:
                changes += 1
                changing.begin()
                changing.service.take(Batch({}, [], [], handover="", held=given), {})
        elif random.random() < 0.1:
            changing.run.restart()
            changing.begin()
    assert changes and len(steady.told()) > 5
    assert changing.told() == steady.told()


def drawn_alerts(random: Random) -> str:
    """Alerts on events and fluents, of which each may be missing, and their rules and clauses differ."""
    hot, warm = random.choice((5, 6)), random.choice((4, 6))
    text = f"""
fluent hot(f: string).
initiate hot(F) <- reading(F, T) WHERE T > {hot}.
terminate hot(F) <- reading(F, T) WHERE T < {hot - 3}.
warm(F, T) <- reading(F, T) WHERE T > {warm}.
"""
    title, after, keep = random.choice(('"{F}"', '"now {F}"')), random.choice((0, 1, 2)), random.choice((0, 2))
    lasting = f"AFTER {after} s " if after else ""
    fluent = lasting + (f"KEEP {keep} s " if keep else "")
    every = [
        f"ALERT warm ON warm(f: F, t: T) TITLE {title} FOR {random.choice((2, 4))} s KEYED BY F.\n",
        f'ALERT much ON warm(f: F, t: T) WHERE T > 7 TITLE "much" {lasting}FOR 5 s.\n',
        f"ALERT heat ON hot(F) TITLE {title} {fluent}KEYED BY F.\n",
        f'ALERT state ON state(F) = S TITLE "{{S}}" {fluent}KEYED BY {random.choice(("F", "F, S", "S"))}.\n',
        f"ALERT first ON reading(fridge: F, temp: T) WHERE T > 7 TITLE {title} FOR 3 s KEYED BY F "
        f"{random.choice(('', 'INHIBITED BY hot(F)', 'INHIBITED BY heat(f: F)'))}.\n",
    ]
    chosen = [each for each in every if random.random() < 0.7]
    return text + "".join(each for each in chosen if "heat(" not in each or every[2] in chosen)


def alerts_in_order(run: Run) -> list[AlertChange]:
    """Return the changes of alerts by each program in its time, over the records that count, in order."""
    found: list[AlertChange] = []
    before: AlertLifecycle | None = None
    cuts: dict[str, int] = {}
    ends = [time for _, time in run.versions[1:]] + [run.engine.watermark]
    for (text, begin), end in zip(run.versions, ends):
        engine = Engine(program(text, True), begins=True)
        records = [(*record, 1) for record in sorted(run.there, key=lambda one: one[0]) if EIGHT + record[0] <= end]
        tables = [engine.push({"reading": table(records).drop(CHANGE)}), engine.advance(end)]
        now = AlertLifecycle(engine.alerts, *described(engine))
        live = [] if before is None else list(before.live.values())
        going_on = [] if before is None else [one for one in live if before.fingerprints[one.name] in now.prints]
        found += [resolved(change, begin, withdrawn=True) for change in live if change not in going_on]
        now.begin(going_on)
        new = set(now.prints) - set(() if before is None else before.prints)
        cuts |= dict.fromkeys(new, begin)
        given: dict[str, pl.DataFrame] = {}
        for alert, mark in zip(now.alerts, now.prints):
            parts = {name: [each[name] for each in tables if name in each] for name in alert.tables}
            rows = {name: pl.concat(part) for name, part in parts.items() if part}
            given |= in_time(alert, rows, cuts[mark], begin, end, mark in new)
        found += now.take(given, end)
        before = now
    return found


def in_time(
    alert: Alert, rows: Mapping[str, pl.DataFrame], cut: int, begin: int, end: int, new: bool
) -> dict[str, pl.DataFrame]:
    """Return the rows of an alert in the time of a program; of a new alert on a fluent also what holds at the start."""
    later = {name: each.filter(pl.col("end") > begin, pl.col("end") <= end) for name, each in rows.items()}
    if alert.ends is None or alert.table not in rows:
        return later
    later = {name: each.with_columns(pl.col("start").clip(cut)) for name, each in later.items()}
    if new:
        held = rows[alert.table].filter(pl.col("end") <= begin)
        if alert.ends in rows:
            over = rows[alert.ends].filter(pl.col("end") <= begin)
            held = held.join(over, on=["start", *alert.arguments], how="anti", nulls_equal=True)
        held = held.with_columns(start=pl.lit(begin, pl.Int64), end=pl.lit(begin, pl.Int64))
        later[alert.table] = pl.concat([held, later[alert.table]])
    return later


FIELDS = ("name", "slot", "start", "end", "until", "occurrences", "first", "last", "title", "fired", "since", "ended")


def standing(changes: Iterable[AlertChange]) -> dict[str, Told]:
    """Return what each alert came to, without those that were withdrawn."""
    last = {change.alert: change for change in changes if not change.hidden}
    return {
        alert: (change.state == "resolved", *(getattr(change, name) for name in FIELDS))
        for alert, change in last.items()
        if not change.withdrawn
    }


@pytest.mark.parametrize("seed", seeds(48))
def test_alerts_are_those_of_each_program_in_its_time(seed: int) -> None:
    random = Random(seed)
    length = random.choice((2, 4, 12)) * SECOND

    def text() -> str:
        return Rules.draw(random).text + drawn_alerts(random)

    run = Run(text(), EngineOptions(revise=length, begins=True), alerts=True)
    follower, records = Follower(run), Records(random, length)
    changes = withdrawn = 0
    for number in range(60):
        follower.push(records.batch(run.there))
        if random.random() < 0.2 and (given := run.change(text())) is not None:
            changes += 1
            follower.begin()
            follower.service.take(Batch({}, [], [], handover="", held=given), {})
        elif random.random() < 0.1:
            run.restart()
            follower.begin()
        if number % 3 == 2:
            told = [entry.change for entry in follower.outbox.after(0, 10**6)]
            wanted = alerts_in_order(run)
            assert standing(told) == standing(wanted), number
            last = {change.alert: change for change in told}
            gone = {one.alert for one in wanted if one.withdrawn and not one.hidden}
            assert all(last[alert].withdrawn for alert in gone)
            withdrawn += len(gone)
            revisions = [(change.alert, change.revision) for change in told]
            assert len(set(revisions)) == len(revisions), "each change of an alert is told once"
    assert changes and withdrawn
    follower.outbox.close()


@pytest.mark.parametrize("seed", seeds(24))
def test_a_shadow_compares_what_is_left(seed: int) -> None:
    random = Random(seed)
    length = random.choice((2, 4, 12)) * SECOND
    texts = [each.text for each in RevisedRules.edits(random, 1)]
    run, records = Run(texts[0], EngineOptions(revise=length, begins=True)), Records(random, length)
    for _ in range(random.randrange(1, 15)):
        run.push(records.batch(run.there))
    shadow = Shadow(run.engine, run.successor(texts[1])[0], {}, KnowledgeUpdates(()))
    compared = 0
    for _ in range(40):
        batch = records.batch(run.there)
        shadow.take(Batch({"reading": table(batch)}, [], []), run.push(batch))
        assert shadow.failed is None
        left: list[Counter[Result]] = []
        for text in texts:
            rows = results(text, run.there, run.engine.watermark)
            left.append(Counter(row for row in rows if shadow.since < row[-1] < END))
        shown = shadow.shown(0)["events"]
        for name in {row[0] for row in left[0] | left[1]}:
            old, new = (Counter({row: n for row, n in rows.items() if row[0] == name}) for rows in left)
            told = shown[name]
            assert told["same"] == (old & new).total()
            assert told["gone"] + told["moved"] == (old - new).total()
            assert told["appeared"] + told["moved"] == (new - old).total()
            compared += (old | new).total()
    assert compared


def test_the_former_program_reads_what_the_new_one_does_not() -> None:
    two = """
event a(x: int) TIME time.
event b(x: int) TIME time.
both(X) <- a(X) AND b(X) WITHIN 9 s.
"""
    one = "event a(x: int) TIME time.\nonly(X) <- a(X).\n"
    options = EngineOptions(revise=10 * SECOND, begins=True)

    def rows(*times: int) -> pl.DataFrame:
        return pl.DataFrame({"start": times, "end": times, "x": [1] * len(times)}, {"start": int, "end": int, "x": int})

    old = Engine(program(two), options)
    old.push({"a": rows(SECOND), "b": rows(3 * SECOND)})
    warm = Engine(program(one), replace(options, final=True))
    warm.advance(old.stable)
    prior = PriorState(old.state_for_another(), warm=PriorState(warm.snapshot()))
    new = Successor(program(one), replace(options, before=prior))
    assert new.take_over(old, {}, {}, {}) == {}
    assert set(new.inputs) == {"a", "b"} and set(new.shown) == {"both", "only"}
    found = new.push({"b": rows(2 * SECOND, 4 * SECOND)})
    assert found["both"]["end"].to_list() == [2 * SECOND] and found.keys() == {"both"}, "until the change"
    found = new.push({"a": rows(2 * SECOND, 5 * SECOND), "b": rows(20 * SECOND)})
    assert found["only"]["end"].to_list() == [5 * SECOND], "from the change on"
    assert new.former is None and new.watermark == 20 * SECOND
    assert new.push({"a": rows(21 * SECOND), "b": rows(30 * SECOND)}).keys() == {"only"}
    assert new.watermark == 30 * SECOND, "what nobody reads moves the time"


def test_a_snapshot_with_a_former_program_is_of_its_own_program() -> None:
    options = EngineOptions(revise=10 * SECOND, begins=True)
    random = Random(1)
    first, second = Rules.edits(random, 1)
    run = Run(first.text, options)
    run.push([(0, "f", 5.0, 1)])
    run.change(second.text)
    blob = run.engine.snapshot()
    other = Successor(program(first.text), options)
    assert not other.goes_on(blob)
    with pytest.raises(CepError, match="belongs to another program"):
        other.go_on_with(blob, lambda texts: other)
