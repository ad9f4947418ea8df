"""`python -m benchmarks.scale`: a cost model of runs on Spark, and its predictions for 100 machines.

A micro-batch takes, in seconds of a core,

    driver  = batch + task * files + bucket * buckets + block * blocks
    workers = batch + task * files + bucket * buckets + block * blocks
              + rows * (read + deal + hand * bytes + step + rule * (rules - 1) + write) + keeping the state

Driver and workers have separate coefficients. A block is the rows of one event that one task sends to one bucket.
Keeping the state writes the input of a micro-batch to a log. Once the logged input is as large as the state, the whole
state is written instead.

The cost per row and byte is measured in the tasks themselves, in one process without Spark. The cost of Spark, of a
task and of a block is measured in micro-batches of a cluster with one worker. All costs are CPU time, the least of
several passes, so that other work on the machine has little influence.

`--measure` measures the costs anew, and then the times of clusters with 1 to 4 workers, which the model has not seen.
Without it, the figures in `benchmarks/scale.json` are used. `--write` puts the tables of predictions into
`docs/scale.md`, and draws its charts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.report import replace
from benchmarks.scale_measure import Shape
from benchmarks.scale_model import MANY, Costs, Measured, Tried, tried
from benchmarks.scale_paper import by_the_day, on_paper

FIGURES = Path(__file__).with_name("scale.json")
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
WORKERS = (1, 2, 3, 4)


def loads(workers: int) -> tuple[Shape, Shape, Shape]:
    """Return the loads to measure in clusters with this many workers. Each has at least a bucket and two files per
    worker."""
    return (
        Shape(MANY, 100_000, 2 * workers, workers),
        Shape(100_000, 1_000, 2 * workers, workers, rules=10),
        Shape(200_000, 10_000, 8, 4 * workers),
    )


def tries() -> Iterator[Tried]:
    """Yield the measured costs of clusters with 1 to 4 workers."""
    for workers in WORKERS:
        yield from tried(workers, loads(workers))


def compared(costs: Costs, found: Sequence[Tried]) -> Iterator[str]:
    """Yield a table of predicted and measured costs."""
    cpu = "predicted CPU s | measured CPU s | predicted for the driver | measured for the driver"
    yield f"| workers | events | keys | rules | files | buckets | {cpu} |"
    yield "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for one in found:
        shape, driver, every = one.shape, one.costs.driver, one.costs.driver + one.costs.workers
        guess = costs.of_driver(shape) + costs.of_workers(shape)
        off = f"{guess:.2f} ({guess / every - 1:+.0%})"
        what = f"{one.workers} | {shape.events:,} | {shape.keys:,} | {shape.rules} | {shape.files} | {shape.buckets}"
        yield f"| {what} | {off} | {every:.2f} | {costs.of_driver(shape):.2f} | {driver:.2f} |"


def written(costs: Costs) -> Iterator[str]:
    """Yield a table of the coefficients."""
    yield "| cost per | driver | workers |"
    yield "|---|--:|--:|"
    for name, text in (("batch", "micro-batch"), ("task", "file"), ("bucket", "bucket")):
        yield f"| {text}, ms | {getattr(costs.driver, name) * 1e3:.2f} | {getattr(costs.workers, name) * 1e3:.2f} |"
    yield f"| block, µs | {costs.driver.block * 1e6:.1f} | {costs.workers.block * 1e6:.1f} |"
    steps = {
        "spread": "added to *step* each time the number of keys grows tenfold, beyond 1,000 keys",
        "rule": "added to *step* for each further rule",
    }
    for name in ("read", "deal", "step", "spread", "rule", "write"):
        text = steps.get(name, name)
        yield f"| row: {text}, µs | | {getattr(costs, name) * 1e6:.3f} |"
    for name in ("hand", "log", "whole"):
        yield f"| byte: {name}, ns | | {getattr(costs, name) * 1e9:.2f} |"
    yield f"| row passed to its bucket, bytes | | {costs.row_bytes:.0f} |"
    yield f"| row waiting for the watermark, bytes | | {costs.waits:.0f} |"
    yield f"| row waiting for a partner, bytes | | {costs.held:.0f} |"


def tables(costs: Costs) -> dict[str, str]:
    """Return the tables of the page, by the names of their markers."""
    return {"paper": "\n".join(on_paper(costs)), "days": "\n".join(by_the_day(costs))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="the costs of this machine, and what its clusters take")
    parser.add_argument("--try", dest="tried", action="store_true", help="only what its clusters take, anew")
    parser.add_argument("--run", metavar="TEXT", help="when and where that ran")
    parser.add_argument("--write", action="store_true", help="the tables and charts of docs/scale.md")
    asked = parser.parse_args()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if asked.measure:
        figures["measured"] = asdict(Measured.now())
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    if asked.measure or asked.tried:
        figures |= {"tried": [], "run": asked.run or "not said"}
        for one in tries():
            figures["tried"].append(asdict(one))
            FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    costs = Measured.read_from(figures["measured"]).costs()
    found = [Tried.read_from(one) for one in figures.get("tried", ())]
    for text in ("\n".join(written(costs)), "\n".join(compared(costs, found)), *tables(costs).values()):
        print(text, end="\n\n")
    if asked.write:
        from benchmarks.scale_charts import charts

        replace(PAGE, tables(costs))
        for name, text in charts(costs, found, figures["run"]).items():
            (PAGE.parent / "pictures" / name).write_text(text)


if __name__ == "__main__":
    main()
