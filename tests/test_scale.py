"""The scale study: the page says what the model says, the model says nearly what was measured, and laws of it hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale import FIGURES, tables
from benchmarks.scale_charts import charts
from benchmarks.scale_measure import BatchCosts, Shape, task_costs
from benchmarks.scale_model import GRID, Fixed, Measured, Tried, blocks_in_cluster
from benchmarks.scale_paper import CORES, EVERY, MACHINES, Paper

DOCS = Path(__file__).parent.parent / "docs"
KEPT = json.loads(FIGURES.read_text())
COSTS = Measured.read_from(KEPT["measured"]).costs()
TRIED = [Tried.read_from(one) for one in KEPT["tried"]]


def test_the_page_has_the_tables_and_charts_of_the_model() -> None:
    page = (DOCS / "scale.md").read_text(encoding="utf-8")
    for name, text in tables(COSTS).items():
        assert f"<!-- {name} -->\n{text}\n<!-- /{name} -->" in page, "`python -m benchmarks.scale --write`"
    for name, text in charts(COSTS, TRIED, KEPT["run"]).items():
        assert (DOCS / "pictures" / name).read_text() == text, "`python -m benchmarks.scale --write`"
        assert f"](pictures/{name})" in page


def test_predictions_are_near() -> None:
    """The page says how near, and why four workers are farther off."""
    assert {one.workers for one in TRIED} == {1, 2, 3, 4}
    for one in TRIED:
        guess, took = COSTS.of_driver(one.shape) + COSTS.of_workers(one.shape), one.costs.driver + one.costs.workers
        assert abs(guess / took - 1) <= (0.25 if one.workers < 4 else 0.4), one


@pytest.mark.parametrize("every", EVERY)
def test_no_limit_falls_where_it_should_not(every: float) -> None:
    """Bytes of a shared folder do not grow with machines; those of each machine do; the driver has a share of each."""
    found = [Paper(COSTS, machines * CORES, every).limits() for machines in MACHINES]
    folder, store, memory = list(found[0])[1:]
    assert len({round(one[folder]) for one in found}) == 1
    for name in (store, memory):
        rates = [one[name] / machines for one, machines in zip(found, MACHINES, strict=True)]
        assert max(rates) / min(rates) < 1.01
    parts = [Paper(COSTS, machines * CORES, every).driver() for machines in MACHINES]
    assert parts == sorted(parts)


def test_a_rate_that_cores_take_is_the_largest() -> None:
    one = Paper(COSTS, 64, 10.0)
    most = one.by_cores()
    assert one.busy(most * 0.99) < 7.0 < one.busy(most * 1.01)


def test_what_is_measured_is_that_of_a_micro_batch() -> None:
    """Small shapes, so that nothing is compiled: every row comes through, every byte is counted."""
    shape = Shape(400, keys=10, files=4, buckets=2)
    costs = task_costs(shape, 4)
    assert shape.blocks == 8 and costs.derived > 100 and costs.handed > 400 * 20 and costs.kept > 400 * 20
    assert all(value >= 0 for value in (costs.read, costs.hand, costs.step, costs.log, costs.whole, costs.write))


def test_a_block_is_what_files_and_buckets_do_not_explain() -> None:
    driver, workers = Fixed(0.1, 2e-3, 1e-3, 3e-6), Fixed(0.2, 3e-3, 4e-3, 9e-5)
    found = [Tried(1, shape, BatchCosts(driver.of(shape), workers.of(shape), 0)) for shape in GRID]
    block = blocks_in_cluster(found)
    assert (block.driver, block.workers) == pytest.approx((3e-6, 9e-5))
