"""Laws that apply to every test: dividing the input into batches, restarts, disorder, corrections and workers do not
change the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.schema import CHANGE
from cep.core.suggest import did_you_mean
from cep.diff.rows import Row
from cep.testing.checks import Failure
from cep.testing.matching import same_rows
from cep.testing.records import Records
from cep.testing.runs import Outcome, Prepared, Schedule

SEEDS = 3
"""The default number of schedules that are tried for each law. A schedule determines how a run differs from the plain
run, which passes all records in one batch."""
SHRINKS = 400
"""The greatest number of runs in the search for the smallest failing schedule."""


@dataclass(frozen=True, slots=True)
class Law:
    """A law, which says that a change in the way a test runs does not change its result.

    - `applies`: a function that returns True if the law can be checked for a test.
    - `schedule`: a function that draws the records and the schedule of a run from a random generator.
    """

    name: str
    applies: Callable[[Prepared], bool]
    schedule: Callable[[Prepared, Random], tuple[Records, Schedule]]


def laws_named(names: Sequence[str], workers: bool) -> tuple[Law, ...]:
    """Return the laws called `names`. Raises CepError if a name is unknown.

    If `names` is empty, return all laws. The law `workers` is then included only if `workers` is True.
    """
    known = {law.name: law for law in (*LAWS, WORKERS)}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"the laws are {', '.join(known)}"
            raise CepError(f"--law: there is no law `{name}`", hint=hint, code="option")
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return (*LAWS, WORKERS) if workers else LAWS


def broken(prepared: Prepared, plain: Outcome, laws: Sequence[Law], seeds: Sequence[int]) -> tuple[int, list[Failure]]:
    """Run a test under each law that applies to it. `plain`: the result of the plain run, which has one batch.

    Returns the number of runs whose result equals `plain`, and one failure for each broken law.
    """
    passed, failures = 0, []
    for law in laws:
        if not law.applies(prepared):
            continue
        for seed in seeds[:1] if law is WORKERS else seeds:
            records, schedule = law.schedule(prepared, Random(f"{law.name} {seed}"))
            told = _difference(prepared, plain, records, schedule)
            if told is None:
                passed += 1
                continue
            smallest = _smallest(prepared, plain, records, schedule)
            told = _difference(prepared, plain, records, smallest) or told
            details = (*told, *_told(records, smallest), f"`--law {law.name} --seed {seed}` runs it again")
            failures.append(Failure(prepared.test.place, f"the law `{law.name}` does not hold", details))
            break
    return passed, failures


def _difference(prepared: Prepared, plain: Outcome, records: Records, schedule: Schedule) -> tuple[str, ...] | None:
    outcome = prepared.run(schedule, records)
    none: Counter[Row] = Counter()
    for name in sorted({*plain.rows, *outcome.rows}):
        plain_rows, other = plain.rows.get(name, none), outcome.rows.get(name, none)
        if not same_rows(plain_rows, other, prepared.test.tolerance):
            lost, more = (plain_rows - other).total(), (other - plain_rows).total()
            return (f"`{name}`: {lost} rows of the plain run are missing, and {more} are new",)
    if len(outcome.dead) != len(plain.dead):
        return (f"{len(outcome.dead)} dead letters, and {len(plain.dead)} in the plain run",)
    return None


# --- schedules ---


def _plain(prepared: Prepared) -> Schedule:
    return Schedule.plain(prepared.records)


def _some(random: Random, count: int) -> frozenset[int]:
    share = random.choice((0.1, 0.3, 0.6, 1.0))
    return frozenset(place for place in range(1, count) if random.random() < share)


def _cuts(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    return prepared.records, replace(_plain(prepared), cuts=_some(random, len(prepared.records)))


def _restart(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    places = _some(random, len(prepared.records)) or frozenset({1})
    return prepared.records, replace(_plain(prepared), cuts=places, restarts=places)


def _shuffle(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    lateness = prepared.test.file.lateness
    order = _disorder(prepared, prepared.records, lateness, random)
    schedule = Schedule(order, _some(random, len(order)), slack=lateness)
    return prepared.records, schedule


def _disorder(prepared: Prepared, records: Records, lateness: int, random: Random) -> NDArray[np.int64]:
    """Return a random order of arrival in which no record is later than `lateness` permits.

    Records that end at the same time keep their order if results may depend on it, or if one may correct another.
    """
    jitter: dict[int, int] = {}
    arrivals, corrected = [], _corrected(prepared)
    for place, end in enumerate(records.ends.tolist()):
        delay = random.randrange(max(lateness, 1))
        in_order = prepared.by_order or int(records.types[place]) in corrected
        if in_order:
            delay = jitter.setdefault(end, delay)
        tie = place if in_order else random.random()
        arrivals.append((end + delay, tie, place))
    return np.array([place for *_, place in sorted(arrivals)], np.int64)


def _late(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    """Draw a run in which records arrive late within the `revise` window. Some records are withdrawn and sent again."""
    assert prepared.revise is not None, "the law is for tests that revise"
    records = prepared.records
    order = _kept_in_window(records, prepared.revise, random)
    again = [place for place in order.tolist() if random.random() < 0.3 and _may_come_again(prepared, records, place)]
    if again:
        records, order = _with_withdrawals(records, order, again)
    return records, Schedule(order, _some(random, len(order)))


def _kept_in_window(records: Records, revise: int, random: Random) -> NDArray[np.int64]:
    """Return a random order of arrival in which no record is later than `revise` permits.

    Records that end at the same time keep their order, so that a correction follows the record that it corrects.
    """
    ends = records.ends.tolist()
    arrivals, latest = [], 0
    for place, end in enumerate(ends):
        latest = max(latest, end) if place else end
        room = max(revise - (latest - end), 1)
        arrivals.append((latest + random.randrange(room), place))
    by_end: dict[int, list[int]] = {}
    for number, (_, place) in enumerate(arrivals):
        by_end.setdefault(ends[place], []).append(number)
    for numbers in by_end.values():  # a correction arrives after the record that it corrects
        times = sorted(arrivals[number][0] for number in numbers)
        for number, time in zip(numbers, times):
            arrivals[number] = (time, arrivals[number][1])
    return np.array([place for _, place in sorted(arrivals)], np.int64)


def _may_come_again(prepared: Prepared, records: Records, place: int) -> bool:
    """Return True if the result must stay the same when the record at `place` is withdrawn and sent again."""
    name = list(records.tables)[int(records.types[place])]
    table = records.tables[name]
    schema = prepared.program.plan.schemas.get(name)
    declared = schema is not None and schema.declared and schema.key is None and not schema.distinct
    coming = CHANGE not in table.columns or (table[CHANGE].to_numpy() > 0).all()
    return declared and bool(coming) and not prepared.by_order


def _with_withdrawals(
    records: Records, order: NDArray[np.int64], again: Sequence[int]
) -> tuple[Records, NDArray[np.int64]]:
    """For each position in `again`, let the record be withdrawn after its arrival, and then arrive a second time.
    Return all records, with the withdrawals, and their order of arrival."""
    names = list(records.tables)
    tables = {}
    first_new: dict[int, int] = {}
    types, rows, ends = records.types.tolist(), records.rows.tolist(), records.ends.tolist()
    for number, name in enumerate(names):
        table = records.tables[name]
        own = [place for place in again if types[place] == number]
        if not own:
            tables[name] = table
            continue
        whole = table if CHANGE in table.columns else table.with_columns(pl.lit(1, pl.Int8).alias(CHANGE))
        taken = whole[[rows[place] for place in own]]
        tables[name] = pl.concat([whole, taken.with_columns(pl.lit(-1, whole.schema[CHANGE]).alias(CHANGE))])
        for offset, place in enumerate(own):
            first_new[place] = len(rows)
            types.append(number)
            rows.append(table.height + offset)
            ends.append(ends[place])
    places = []
    for place in order.tolist():
        places += [place, first_new[place], place] if place in first_new else [place]
    columns = [np.array(column, np.int64) for column in (types, rows, ends)]
    made_of = Records(tables, columns[0], columns[1], columns[2], records.dead, records.origins, records.unit)
    return made_of, np.array(places, np.int64)


def _once(prepared: Prepared) -> list[int]:
    inputs = prepared.engine().inputs
    known = ((number, inputs.get(name)) for number, name in enumerate(prepared.records.tables))
    return [number for number, schema in known if schema is not None and (schema.distinct or schema.key is not None)]


def _corrected(prepared: Prepared) -> frozenset[int]:
    inputs = prepared.engine().inputs
    known = ((number, inputs.get(name)) for number, name in enumerate(prepared.records.tables))
    return frozenset(number for number, schema in known if schema is not None and schema.key is not None)


def _duplicates(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    records, numbers = prepared.records, _once(prepared)
    order = []
    for place in range(len(records)):
        order += [place] * (2 if int(records.types[place]) in numbers and random.random() < 0.5 else 1)
    return records, Schedule(np.array(order, np.int64), _some(random, len(order)))


def _workers(prepared: Prepared, random: Random) -> tuple[Records, Schedule]:
    return prepared.records, replace(_plain(prepared), cuts=_some(random, len(prepared.records)), workers=2)


LAWS = (
    Law("cuts", lambda prepared: len(prepared.records) > 1, _cuts),
    Law("restart", lambda prepared: len(prepared.records) > 1, _restart),
    Law("shuffle", lambda prepared: len(prepared.records) > 1 and prepared.revise is None, _shuffle),
    Law("late", lambda prepared: len(prepared.records) > 0 and prepared.revise is not None, _late),
    Law("duplicates", lambda prepared: bool(_once(prepared)), _duplicates),
)
"""The laws that run in the current process, once per seed."""
WORKERS = Law("workers", lambda prepared: len(prepared.records) > 0, _workers)
"""The law that starts worker processes. It runs once per test, and only on request."""


# --- the smallest schedule ---


def _smallest(prepared: Prepared, plain: Outcome, records: Records, schedule: Schedule) -> Schedule:
    """Shorten a failing schedule: remove cuts, restarts and swaps as long as the schedule still fails."""
    runs = 0
    smallest = schedule
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(smallest):
            runs += 1
            if runs > SHRINKS:
                return smallest
            if _difference(prepared, plain, records, smaller) is not None:
                smallest, shrunk = smaller, True
                break
    return smallest


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    for half in _halves(sorted(schedule.cuts)):
        yield replace(schedule, cuts=schedule.cuts - half, restarts=schedule.restarts - half)
    for half in _halves(sorted(schedule.restarts)):
        yield replace(schedule, restarts=schedule.restarts - half)
    order = schedule.order.tolist()
    if order != sorted(order) and len(set(order)) == len(order):
        yield replace(schedule, order=np.sort(schedule.order))
        for place, (first, other) in enumerate(zip(order, order[1:])):
            if first > other:
                swapped = [*order[:place], other, first, *order[place + 2 :]]
                yield replace(schedule, order=np.array(swapped, np.int64))


def _halves(places: Sequence[int]) -> Iterator[frozenset[int]]:
    """Yield the sets of positions to remove: first all positions, then each half, each quarter, and so on down to
    single positions."""
    size = len(places)
    while size:
        for begin in range(0, len(places), size):
            yield frozenset(places[begin : begin + size])
        size //= 2


def _told(records: Records, schedule: Schedule) -> Iterator[str]:
    order = schedule.order.tolist()
    if order != sorted(order):
        moved = [str(place + 1) for place in order]
        yield f"records arrive in the order {', '.join(moved[:20])}{', ...' if len(moved) > 20 else ''}"
    if schedule.restarts:
        yield f"with a stop and a restart after record {_listed(schedule.restarts)}"
    if rest := schedule.cuts - schedule.restarts:
        yield f"in batches that end after record {_listed(rest)}"


def _listed(places: frozenset[int]) -> str:
    told = [str(place) for place in sorted(places)]
    return ", ".join(told[:20]) + (", ..." if len(told) > 20 else "")
