"""`python -m benchmarks`: measure every workload and print one table."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import applications, charts, closure, knowledge, lars, metric, metric_time, processes, report
from benchmarks.measure import Measured, measure
from benchmarks.report import circumstances, parser, replace
from benchmarks.table import Line, Target, json_lines, markdown, rates, short
from benchmarks.workload import Size, Workload
from benchmarks.workloads import workloads

FLAT = 1.5
QUICK = 200_000
FURTHER = (
    "rules by type", "pushes of 1,000", "avg, each 10 s", "avg, last 10 s every 5 s", "slope(X), last 10 s",
    "percentile, last 10 s", "station by knowledge", "near", "load GeoNames, triples", "pattern, a triple more",
    "closure, triples", "closure, a station more", "cep run parquet", "cep run csv", "cep run jsonl", "detect",
)  # fmt: skip
"""The workloads of the third table in docs/benchmarks.md. The printed table has all workloads."""


def lines(workload: Workload, sizes: tuple[Size, ...], costs: dict[tuple[str, Size], float]) -> Iterator[Line]:
    """Measure a workload and yield its lines. Store each cost in `costs`: seconds per event, by workload and size."""
    sides: list[tuple[Size, Measured, Measured | None]] = []
    for events, keys in sizes:
        print(f"{workload.name}, {short(events)} events, {short(keys)} keys", file=sys.stderr)
        engine = measure(workload.name, events, keys, "engine")
        loop = measure(workload.name, events, keys, "loop") if workload.loop else None
        sides.append(((events, keys), engine, loop))
        costs[workload.name, (events, keys)] = engine.seconds / events
    cheapest = min(engine.seconds / events for (events, _), engine, _ in sides)
    for (events, keys), engine, loop in sides:
        rate, flat = events / engine.seconds, engine.seconds / events / cheapest
        loop_rate = events / loop.seconds if loop else None
        targets = [*goals(workload, rate, loop_rate, flat), *other_goals(workload, (events, keys), costs)]
        if loop and (loop.derived, loop.sum) != (engine.derived, engine.sum):
            print(f"{workload.name}: loop and engine derive {loop.derived:,}, {engine.derived:,}", file=sys.stderr)
            targets.append(Target("same", False))
        yield Line(
            workload.name,
            rate,
            events=events,
            keys=keys,
            loop=loop_rate,
            flat=flat,
            peak=engine.peak,
            state_bytes=engine.state_bytes,
            live=engine.state_rows,
            derived=engine.derived,
            targets=tuple(targets),
        )
    if workload.plan:
        seconds = min(engine.plan for _, engine, _ in sides)
        planned = Target(f"{workload.plan:g} s", seconds <= workload.plan)
        yield Line(f"{workload.name}, plan", seconds, "s", targets=(planned,))


def goals(workload: Workload, rate: float, loop: float | None, flat: float) -> Iterator[Target]:
    """Yield the targets for one size of a workload."""
    if workload.rate:
        yield Target(short(workload.rate), rate >= workload.rate)
    if workload.times and loop:
        yield Target(f"{workload.times:g}x", rate >= workload.times * loop)
    if workload.flat:
        yield Target("flat", flat <= FLAT)


def other_goals(workload: Workload, size: Size, costs: dict[tuple[str, Size], float]) -> Iterator[Target]:
    """Yield the targets that compare a workload with another one of the same size.

    Strings must be at least half as fast as integers, and knowledge may cost at most 1.5 times as much as facts.
    """
    cost = costs[workload.name, size]
    if workload.half_of and (numbers := costs.get((workload.half_of, size))):
        yield Target("int/2", cost <= 2 * numbers)
    if workload.beside and (facts := costs.get((workload.beside, size))):
        yield Target("facts*1.5", cost <= 1.5 * facts)


def smaller(sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    """Return the sizes for a quick run, without duplicates: fewer events, and at most 1,000 keys if possible."""
    few = [size for size in sizes if size[1] <= 1000] or sizes
    return tuple(dict.fromkeys((min(events, QUICK), keys) for events, keys in few))


def publish(results: list[Line], run: str) -> None:
    """Write the results into the three tables of docs/benchmarks.md, and draw their chart. The last table has, for each
    workload and number of keys, only the run with the most events. `run`: when and where the results were measured."""
    charts.renew("engine", json_lines(results), run)
    names = [line.workload for line in results]
    fluents = {name: name for name in names if name.startswith("fluent") and "pushes" not in name}
    largest: dict[tuple[str, int | None], Line] = {}
    for line in results:
        if line.workload in FURTHER:
            same = largest.get((line.workload, line.keys))
            if same is None or (line.events or 0) >= (same.events or 0):
                largest[line.workload, line.keys] = line
    others = list(largest.values())
    tables = {
        "rules": rates(results, charts.WORKLOADS),
        "fluents": rates(results, fluents),
        "further workloads": markdown(others),
    }
    replace(report.PAGE, {name: f"`python -m benchmarks`, {run}:\n\n{table}" for name, table in tables.items()})


def main() -> None:
    """Parse the options, measure, and print the table."""
    known = parser("benchmarks", __doc__)
    known.add_argument("--quick", action="store_true", help=f"at most {QUICK:,} events and a thousand keys")
    known.add_argument("--only", metavar="NAME", default="", help="workloads whose name holds this")
    known.add_argument("--json", metavar="FILE", type=Path, help="write the results as JSON Lines too")
    known.add_argument("--profile", metavar="NAME", choices=workloads, help="where this workload spends its time")
    options = known.parse_args()
    if options.profile:
        sizes = workloads[options.profile].sizes
        events, keys = smaller(sizes)[-1] if options.quick else sizes[1]
        measure(options.profile, events, keys, "engine", profile=True)
        return
    before, costs = os.getloadavg()[0], dict[tuple[str, Size], float]()
    results: list[Line] = []
    for workload in workloads.values():
        if options.only in workload.name:
            sizes = smaller(workload.sizes) if options.quick else workload.sizes
            results += lines(workload, sizes, costs)
    results += knowledge.lines(options.quick, options.only)
    results += closure.lines(options.quick, options.only)
    results += metric.lines(options.quick, options.only)
    results += lars.lines(options.quick, options.only)
    results += applications.lines(options.quick, options.only)
    results += metric_time.lines(options.quick, options.only)
    results += processes.lines(QUICK if options.quick else 2_000_000, options.only)
    print(markdown(results))
    if options.json:
        options.json.write_text(json_lines(results))
    if options.write:
        publish(results, circumstances(before))


if __name__ == "__main__":
    main()
