"""Late rows and stateful operators: revision compared with recomputation of each window.

    python -m benchmarks.late_rows [--keys 600 6000] [--late 5 40] [--rules seq unless average formula cycle ties all]

Rows are spread evenly, with one push per sixteenth of the window. A share of them is late by up to the window. Results
are CPU seconds per push, with `revise` and with recomputation of the window at each push.
"""

from __future__ import annotations

import argparse
from collections import Counter
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import polars as pl

SECOND, WINDOW, STEP, EACH, MEASURED = 1_000_000, 3200, 200, 15, 6
"""The seconds of the window and of a push, the rows per key and push, and the number of pushes that are measured."""
EVENT = "event reading(k: int, v: float) TIME t.\n"
RISE = "rise(K, A, B) <- (reading(K, A) SEQ reading(K, B)) WHERE A < 0.3, B > 0.7 WITHIN 300 s.\n"
RULES = {
    "seq": f"policy chronological.\n{RISE}",
    "recent": f"policy recent.\n{RISE.replace('rise', 'latest')}",
    "unless": "low(K) <- reading(K, A) WHERE A < 0.2.\nhigh(K) <- reading(K, A) WHERE A > 0.8.\n"
    "alone(K) <- low(K) UNLESS high(K) WITHIN 60 s.\n",
    "average": "mean(K, M) <- reading(K, V) AGGREGATE M = avg(V) OVER LAST 300 s BY K.\n",
    "formula": "fluent raised(k: int).\ninitiate raised(K) <- reading(K, V) WHERE V > 0.8.\n"
    "terminate raised(K) <- reading(K, V) WHERE V < 0.2.\nfluent long(k: int).\n"
    "long(K) WHILE HISTORICALLY[0, 60 s] raised(K).\n",
    "cycle": "fluent on(k: int).\nfluent off(k: int).\ninitiate on(K) <- reading(K, V) WHERE V > 0.7, not off(K).\n"
    "terminate on(K) <- reading(K, V) WHERE V < 0.1.\ninitiate off(K) <- reading(K, V) WHERE V < 0.3, not on(K).\n"
    "terminate off(K) <- reading(K, V) WHERE V > 0.9.\n",
    "ties": f"policy unrestricted.\n{RISE.replace('rise', 'up')}policy chronological.\n"
    "next(K, B) <- (up(K, A, B) SEQ up(K, B, C)) WITHIN 300 s.\n",
}


def engine_of(rules: str, **options: Any) -> Any:
    from cep.engine import Engine

    text = "".join(RULES.values()) if rules == "all" else RULES[rules]
    return Engine.from_text(EVENT + text, **options)


def pushes_of(keys: int, late: int) -> list[pl.DataFrame]:
    """Return the rows of each push, with their time of arrival `came`."""
    random, count = np.random.default_rng(3), WINDOW // STEP + MEASURED
    n = count * keys * EACH
    times = np.sort(random.integers(0, count * STEP * SECOND, n))
    delay = np.where(random.random(n) < late / 100, random.integers(SECOND, (WINDOW - STEP) * SECOND, n), 0)
    rows = pl.DataFrame(
        {"start": times, "end": times, "k": random.integers(0, keys, n), "v": random.random(n), "came": times + delay}
    ).sort("came", maintain_order=True)
    step = rows["came"].to_numpy() // (STEP * SECOND)
    return [rows.filter(pl.lit(step == number)) for number in range(count)]


def revised(rules: str, pushes: list[pl.DataFrame]) -> tuple[list[float], Counter[Any]]:
    """Return the CPU seconds of each push, and the final result of the engine."""
    engine, spent, net = engine_of(rules, revise=WINDOW * SECOND), [], Counter[Any]()
    for table in pushes:
        table = table.drop("came")
        began = process_time()
        made = engine.push({"reading": table})
        spent.append(process_time() - began)
        _count(net, made)
    return spent, +net


def anew(rules: str, pushes: list[pl.DataFrame]) -> list[float]:
    """Return the CPU seconds of each window if an empty engine computes it from its rows."""
    every, spent = pl.concat(pushes).sort("start"), []
    for number in range(len(pushes) - MEASURED, len(pushes)):
        until = (number + 1) * STEP * SECOND
        known = every.filter((pl.col("start") >= until - WINDOW * SECOND) & (pl.col("came") < until)).drop("came")
        engine = engine_of(rules)
        began = process_time()
        engine.push({"reading": known})
        spent.append(process_time() - began)
    return spent


def whole(rules: str, pushes: list[pl.DataFrame]) -> Counter[Any]:
    """Return the result of one run over all rows, in order of time."""
    engine, net = engine_of(rules, lateness=None), Counter[Any]()
    every = pl.concat(pushes).drop("came")
    engine.receive({"reading": every})
    _count(net, engine.advance(int(every["end"].max())))  # type: ignore[arg-type]
    return net


def _count(net: Counter[Any], made: Any) -> None:
    for name, table in made.items():
        signs = table["@change"].to_list() if "@change" in table.columns else [1] * table.height
        for row, sign in zip(table.drop("@change", "@id", strict=False).iter_rows(), signs):
            net[name, row] += sign


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.late_rows", description=__doc__)
    parser.add_argument("--keys", nargs="*", type=int, default=[600, 6000])
    parser.add_argument("--late", nargs="*", type=int, default=[5, 40])
    parser.add_argument("--rules", nargs="*", default=[*RULES, "all"])
    given = parser.parse_args()
    for rules in given.rules:
        for keys in given.keys:
            for late in given.late:
                pushes = pushes_of(keys, late)
                revised(rules, pushes[:4]), anew(rules, pushes[:4])  # compiles
                spent, net = revised(rules, pushes)
                mine, other = median(spent[-MEASURED:]), median(anew(rules, pushes))
                same = "the same" if net == whole(rules, pushes) else "NOT THE SAME"
                print(
                    f"{rules:>8}, {keys:>6,} keys, {late:>2} % late: {1000 * mine:6.1f} ms a push, anew "
                    f"{1000 * other:6.1f}: {mine / other:.2f} of the cost, {same}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
