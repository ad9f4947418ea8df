"""The tuning demo: search a grid of limits for a storm warning, choose a point, and check it on later data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from rich.console import Console

from cep.api import detect
from cep.app.cli_options import DialectOptions, EvaluationOptions, KnowledgeOptions, ParameterOptions
from cep.backtest.command import BacktestOptions, FormOptions, GridOptions, HistoryOptions, ScoreOptions
from cep.backtest.nab import Key, Times
from cep.backtest.picture import svg
from cep.backtest.report import warnings
from cep.backtest.scoring import Figures, Scoring, score
from cep.backtest.search import BacktestResult, Search
from cep.core.literals import say_duration
from cep.demos.moments import moment
from cep.demos.printed import illustrated, table
from cep.demos.run import weather
from cep.demos.tuning import incidents

HERE = Path(__file__).parent
PROGRAM = HERE / "tuning.cep"
LIMIT = "precision >= 80%"
BEFORE = "6h"
"""The longest time from the end of a correct warning to the first cancellations."""
DAYS = 7
"""The number of days for which reports state the number of warnings."""
HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Tuning:
    """The results of the search. `labels`: the incidents. `default`: the index of the point that has the program's own
    parameter values."""

    result: BacktestResult
    labels: pl.DataFrame
    default: int
    scoring: Scoring

    @property
    def chosen(self) -> int:
        """The index of the chosen point."""
        assert self.result.chosen is not None, "a program that never warns has no load"
        return self.result.chosen

    def values(self, point: int) -> str:
        """Return the values of a point in the program's notation."""
        axes, values = self.result.axes, self.result.points[point]
        return ", ".join(f"{a.parameter.name} {a.parameter.written(v)}" for a, v in zip(axes, values))

    def found(self, point: int) -> list[bool]:
        """Run the program with the values of one point. Return for each label whether a warning hits it."""
        values = {a.parameter.name: a.parameter.written(v) for a, v in zip(self.result.axes, self.result.points[point])}
        readings = pl.scan_csv(weather(), null_values=["NA"], infer_schema_length=None)
        warned = detect(PROGRAM, readings, params=values)["warning"]
        times: dict[Key, Times] = {
            tuple(key): table["end"].cast(pl.Int64).sort().to_numpy()
            for key, table in warned.group_by("station", maintain_order=True)
        }
        history, scoring = self.result.history, self.scoring
        return [score(times, [each], scoring, history.since, history.until).hit == 1 for each in self.result.labels]


def options(labels: Path) -> BacktestOptions:
    """Return the options of `cep backtest` for this demo."""
    return BacktestOptions(
        rules=(PROGRAM,),
        history=HistoryOptions(inputs=(f"reading={weather()}",)),
        scores=ScoreOptions(labels=str(labels), detect="warning", key=("station",), merge="6h", before=BEFORE),
        grids=GridOptions(grid=("Wind", "Sight", "Patience"), choose="recall", subject_to=(LIMIT,)),
        form=FormOptions(),
        dialect=DialectOptions(),
        parameters=ParameterOptions(),
        evaluation=EvaluationOptions(),
        knowledge=KnowledgeOptions(),
    )


def tune(labels: Path | None = None) -> Tuning:
    """Run all points of the grid. `labels`: the file into which the labels are written, or None."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "labels.csv") if labels is None else labels
        table = incidents.write(path)
        search = Search.of(options(path))
        result = search.run()
    own = tuple(axis.parameter.default.value for axis in result.axes)
    return Tuning(result, table, result.points.index(own), search.scoring)


def show(picture: Path | None, labels: Path | None) -> str:
    """Return what `cep demo tuning` prints."""
    tuning = tune(labels)

    def draw(path: Path) -> None:
        path.write_text(svg(tuning.result), encoding="utf-8")

    return illustrated(picture, draw, lambda console: _print(console, tuning))


def _print(console: Console, tuning: Tuning) -> None:
    result = tuning.result
    spells = table("Spells with many departures cancelled, winter of 2013, UTC", "from station", "hours cancelled")
    spells.add_column("as written")
    spells.add_column("chosen")
    hits = zip(tuning.found(tuning.default), tuning.found(tuning.chosen), strict=True)
    for label, row, found in zip(result.labels, tuning.labels.iter_rows(named=True), hits, strict=True):
        spells.add_row(
            moment(label.start),
            row["station"],
            str((label.end - label.start) // HOUR),
            str(row["cancelled"]),
            *("warned" if each else "" for each in found),
        )
    console.print(spells)
    held = table(
        f"{len(result.points)} points, the most recall with {LIMIT}", "limits part", "recall precision lead load"
    )
    for name, point in (("as written", tuning.default), ("chosen", tuning.chosen)):
        parts = result.parts[point]
        for part, figures in (("before the holdout", parts.before), ("from then on", parts.after)):
            assert figures is not None, "the choice has a holdout"
            held.add_row(name, part, *_figures(figures))
        held.add_section()
    console.print(held)
    for name, point in (("As written", tuning.default), ("Chosen", tuning.chosen)):
        console.print(f"{name}: {tuning.values(point)}.")
    assert result.holdout is not None, "there are labels"
    console.print(f"The holdout begins {moment(result.holdout)}; the choice uses only earlier data.")
    for warning in warnings(result):
        console.print(f"warning: {warning}")


def _figures(figures: Figures) -> tuple[str, str, str, str]:
    recall = f"{figures.hit} of {figures.labels}"
    precision = f"{figures.hitting} of {figures.episodes}"
    lead = "" if figures.lead is None else say_duration(round(figures.lead))
    return recall, precision, lead, f"{DAYS * (figures.load or 0):.2f}/w"
