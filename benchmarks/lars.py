"""LARS programs from Ticker (A1, A2, B1, B2) and Laser (diamond, join, box), and programs with many rules.

Ticker's programs run twice: tick by tick, and with many ticks at once. B is compared with clingo, which starts from
scratch at each tick. Sources: Beck, Eiter, Folie, *Ticker* (2017), section 6; *Laser* (2017).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import ONE_CORE
from benchmarks.table import Line, Target

ROOT = Path(__file__).parent.parent
SECOND = 1_000_000
Tables = dict[str, pl.DataFrame]

_LEVELS = """\
event alpha(v: int).
high at T :- alpha(V) at T in [{n}{what}], 18 <= V.
mid at T :- alpha(V) at T in [{n}{what}], 12 <= V, V < 18.
low at T :- alpha(V) at T in [{n}{what}], V < 12.
lfu :- high always in [{n}].
lru :- mid always in [{n}].
fifo :- low always in [{n}].
done :- lfu.
done :- lru.
done :- fifo.
random :- not done.
"""
_NETWORK = """\
event req(i: int, n: int).
event cache(i: int, n: int).
event quality(n: int, l: int).
event down(n: int).
need(I, N) :- item(I), node(N), req(I, N) [{n}].
avail(I, N) :- item(I), node(N), cache(I, N) [{n}].
get(I, N, M) :- source(I, N, M), not nGet(I, N, M).
nGet(I, N, M) :- node(M), get(I, N, K), M != K.
nGet(I, N, M) :- source(I, N, M), source(I, N, K), M != K, qual(M, L), qual(K, H), L < H.
source(I, N, M) :- need(I, N), not avail(I, N), avail(I, M), reach(N, M).
reach(N, M) :- conn(N, M).
reach(N, M) :- reach(N, K), conn(K, M), K != M, N != M.
conn(N, M) :- edge(N, M), not down(M) [{n}].
qual(N, L) :- node(N), lev(L), lev(K), K < L, quality(N, L) [{n}], not quality(N, K) [{n}].
"""
_EDGES = [(i, i + 1) for i in range(10)] + [(0, 10), (1, 10), (2, 8), (3, 7)]
"""The links of the Abilene network."""
_FACTS = [
    *(f"node({i})." for i in range(11)),
    *(f"item({i})." for i in (1, 2)),
    *(f"lev({i})." for i in range(3)),
    *(f"edge({a}, {b}). edge({b}, {a})." for a, b in _EDGES),
]
PROGRAMS = {
    "A1": _LEVELS.replace("{what}", ""),
    "A2": _LEVELS.replace("{what}", " #"),
    "B1": _NETWORK + "\n".join(_FACTS),
    "B2": _NETWORK + "\n".join(_FACTS),
    "diamond": "event p(x: int, y: int).\nq(X, Y) :- p(X, Y) [{n}].\n",
    "join": "event p(x: int, y: int).\nevent r(x: int, y: int).\nq(X, Y, Z) :- p(X, Y) [{n}], r(Y, Z) [{n}].\n",
    "box": "event p(x: int, y: int).\nq(X, Y) :- p(X, Y) always in [{n}].\n",
}
TICKER = ("A1", "A2", "B1", "B2")
BULK = 0.05
"""The target for A in milliseconds per tick, with 1,000 ticks per push. Tick by tick, the target is ten times as long.

For B, the target is half the time of clingo in the same run.
"""
RATES = {"diamond": 1e6, "join": 0.5e6, "box": 1e6}


def lines(quick: bool, only: str) -> Iterator[Line]:
    """Yield the lines whose name contains `only`: milliseconds per tick, or input atoms per second."""
    for name in PROGRAMS:
        if only not in f"lars {name.lower()}":
            continue
        for size in (20,) if quick else (20, 200):
            for push in (1000, 1) if name in TICKER else (100,):
                found = _in_process(name, size, push, 200 if quick else 1000)
                ticks, seconds = found["ticks"], found["seconds"]
                title = f"LARS {name}, window {size}, {push} ticks a push"
                if name in TICKER:
                    cost = 1000 * seconds / ticks
                    most = found["clingo"] / 2 if "clingo" in found else BULK * (10 if push == 1 else 1)
                    target = Target(f"{most:.2g} ms", cost <= most)
                    yield Line(
                        title, cost, "ms/tick", events=found["atoms"], derived=found["derived"], targets=(target,)
                    )
                else:
                    rate = found["atoms"] / seconds
                    target = Target(f"{RATES[name] / 1e6:g}M", rate >= RATES[name])
                    yield Line(
                        title, rate, "atoms/s", events=found["atoms"], derived=found["derived"], targets=(target,)
                    )

    if only in "lars rules":
        for many in (1000,) if quick else (1000, 10_000):
            found = _in_process("rules", 10, many, 100)
            for what, value in found["parts"].items():
                yield Line(f"LARS, {many} rules, {what}", value, "s" if what != "a tick" else "ms")


def rules(many: int) -> str:
    """Return a program with `many` rules. A third of them read the event directly."""
    forms = ("p{0}(X) :- a(X, {0}) [10].", "p{0}(X) :- p{1}(X), not a(X, {0}) [5].", "p{0}(X) :- p{1}(X), X < {0}.")
    return "event a(x: int, k: int).\n" + "\n".join(forms[n % 3].format(n, n - 1) for n in range(many))


def run_rules(many: int, ticks: int) -> dict[str, Any]:
    """Return the CPU seconds to compile the rules, the CPU seconds to build the engine, and the median CPU milliseconds
    of a tick with five atoms."""
    from cep.compile import compile
    from cep.engine import Engine

    began = time.process_time()
    program = compile(rules(many), dialect="lars")
    compiled = time.process_time()
    engine = Engine(program, changes=True, lateness=0)
    built, steps = time.process_time(), []
    for tick in range(ticks):
        atoms = {"time": [tick * SECOND] * 5, "x": [*range(5)], "k": [(7 * tick + n) % many for n in range(5)]}
        since = time.process_time()
        engine.push({"a": pl.DataFrame(atoms)})
        steps.append(1000 * (time.process_time() - since))
    parts = {"compiled": compiled - began, "built": built - compiled, "a tick": float(np.median(steps))}
    return {"parts": parts}


def stream(name: str, size: int, ticks: int) -> Tables:
    """Return the input of some ticks, for a window of this size."""
    random = np.random.default_rng(0)
    if name in ("A1", "A2"):
        modes = [(18, 30), (12, 18), (0, 12)]
        chosen = random.integers(0, 3, ticks // (2 * size) + 1)
        values = np.concatenate([random.integers(*modes[mode], 2 * size) for mode in chosen])
        return {"alpha": pl.DataFrame({"time": np.arange(ticks) * SECOND, "v": values[:ticks]})}
    if name in TICKER:
        return _network(random, size, ticks, name == "B2")
    many = 200
    at = np.repeat(np.arange(ticks), many) * SECOND

    def table(values: int) -> pl.DataFrame:
        return pl.DataFrame(
            {"time": at, "x": random.integers(0, values, len(at)), "y": random.integers(0, values, len(at))}
        )

    if name == "box":
        same = np.tile(np.arange(many), ticks)
        return {"p": pl.DataFrame({"time": at, "x": same, "y": same})}
    return {"p": table(300)} if name == "diamond" else {"p": table(50_000), "r": table(50_000)}


def _network(random: np.random.Generator, size: int, ticks: int, second: bool) -> Tables:
    """Return Ticker's input for B1 or B2."""
    rows: dict[str, list[tuple[int, ...]]] = {"req": [], "cache": [], "quality": [], "down": []}
    levels, off, until = random.integers(0, 3, 11), 0, -1
    for tick in range(ticks):
        for item in (1, 2):
            if random.random() < (0.5 if second else 0.1):
                nodes = random.choice(11, random.integers(1, 4) if second else 1, False)
                rows["req"] += [(tick, item, int(node)) for node in nodes]
        entries = random.integers(1, 4) if second else int(random.random() < 0.1)
        rows["cache"] += [(tick, int(random.integers(1, 3)), int(random.integers(11))) for _ in range(entries)]
        for node in range(11):
            if random.random() < (0.25 if second else 3 / size) or not tick:
                levels[node] = random.integers(3) if not second or random.random() > 0.9 else levels[node]
                rows["quality"].append((tick, node, int(levels[node])))
        if second and tick > until and random.random() < 1 / size:
            off, until = int(random.integers(11)), tick + 3 * size // 2
        if second and tick <= until:
            rows["down"].append((tick, off))
        elif not second and random.random() < 0.1:
            rows["down"].append((tick, int(random.integers(11))))
    columns = {"req": ("i", "n"), "cache": ("i", "n"), "quality": ("n", "l"), "down": ("n",)}
    made = {}
    for name, found in rows.items():
        table = np.array(found, np.int64).reshape(-1, 1 + len(columns[name]))
        own = {column: table[:, 1 + at] for at, column in enumerate(columns[name])}
        made[name] = pl.DataFrame({"time": table[:, 0] * SECOND, **own})
    return made


def pushes(tables: Tables, push: int, ticks: int) -> list[Tables]:
    """Cut the tables into pushes of `push` ticks each."""
    bounds = np.arange(0, ticks + push, push) * SECOND
    places = {name: np.searchsorted(table["time"].to_numpy(), bounds) for name, table in tables.items()}
    return [
        {name: table[int(places[name][n]) : int(places[name][n + 1])] for name, table in tables.items()}
        for n in range(len(bounds) - 1)
    ]


def run(name: str, size: int, push: int, ticks: int, runs: int = 1) -> dict[str, Any]:
    """Run a program. Return the CPU seconds, the number of atoms, and the number of changes.

    A shorter run first compiles everything. For B, also return clingo's milliseconds per tick. With several `runs`, the
    least time of each push counts, which estimates its time on an idle machine.
    """
    from cep.engine import Engine

    found: dict[str, Any] = {}
    least: list[float] = []
    for number, count in enumerate((max(ticks // 10, 2 * push), *[ticks] * runs)):
        engine = Engine.from_text(PROGRAMS[name].replace("{n}", str(size)), dialect="lars", changes=True)
        tables = stream(name, size, count)
        pieces = pushes(tables, push, count)
        take: Callable[[Tables], dict[str, pl.DataFrame]] = engine.push
        spent, derived, began = [], 0, time.process_time()
        for piece in (*pieces, None):
            made = engine.close() if piece is None else take(piece)
            derived += sum(table.height for table in made.values())
            since, began = began, time.process_time()
            spent.append(began - since)
        least = spent if number < 2 else list(map(min, least, spent))
        atoms = sum(table.height for table in tables.values())
        found = {"seconds": sum(least), "ticks": count, "atoms": atoms, "derived": derived}
    if name in ("B1", "B2"):
        from benchmarks.lars_clingo import costs

        tables = stream(name, size, ticks)
        each = [costs(tables, _FACTS, size, ticks) for _ in range(runs)]
        found["clingo"] = sum(map(min, zip(*each))) / ticks
    return found


def _in_process(name: str, size: int, push: int, ticks: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lars", name, str(size), str(push), str(ticks)],
        env={**os.environ, **ONE_CORE, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    _, _name, *_numbers = sys.argv
    _size, _push, _ticks, *_runs = map(int, _numbers)
    print(json.dumps(run_rules(_push, _ticks) if _name == "rules" else run(_name, _size, _push, _ticks, *_runs)))
