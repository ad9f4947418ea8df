"""The command `cep backtest`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, ClassVar

from typer import Option

from cep.app.cli_help import OUTPUT
from cep.app.cli_options import (
    DialectOptions,
    EvaluationOptions,
    HistoryInputOptions,
    KnowledgeOptions,
    ParameterOptions,
    RuleFiles,
)
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.server_client import served_address
from cep.app.terminal import announce_compiling, complain, say
from cep.core.errors import CepError, reason_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions(HistoryInputOptions):
    """Options for the history: its records, and how to read them."""

    lateness: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Do not sort the records; accept them this much out of order. Detections are then that much later.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Options for scoring detections against labels."""

    PANEL: ClassVar = "Scoring"

    labels: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="The incidents: a table (csv, parquet, json) with `start`, `end` and the key, windows of NAB, or "
            "`server:URL`, whose verdicts are read with the token of --token-file.",
        ),
    ] = None
    detect: Annotated[
        str | None, Option(metavar="NAME", help="The event or alert to score; its occurrences are the detections.")
    ] = None
    key: Annotated[
        tuple[str, ...],
        Option(
            metavar="ATTRIBUTE[=COLUMN]",
            help="Attribute that identifies an incident, in events and labels; `f=fridge` if labels call it `fridge`. "
            "Repeatable.",
        ),
    ] = ()
    merge: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Merge detections of a key that are at most this far apart into one episode. Default: the longest "
            "window of the rule.",
        ),
    ] = None
    before: Annotated[
        str, Option(metavar="DURATION", help="Count an episode as a hit if it ends at most this long before a label.")
    ] = "0"
    after: Annotated[
        str, Option(metavar="DURATION", help="Count an episode as a hit if it begins at most this long after a label.")
    ] = "0"
    flapping: Annotated[
        str | None, Option(metavar="DURATION", help="Report the share of episodes that are shorter than this.")
    ] = None
    score: Annotated[
        str | None, Option(metavar="nab", help="Add the score of the Numenta Anomaly Benchmark (at most 100).")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """Options for a grid: the parameter values to try, and how to choose among them."""

    PANEL: ClassVar = "Grids"

    grid: Annotated[
        tuple[str, ...],
        Option(
            metavar="NAME[=VALUES]",
            help="Try several values of a parameter: those of its declared range, or `Hot=6,7,8`. Repeatable.",
        ),
    ] = ()
    points: Annotated[
        int | None, Option(metavar="N", min=1, help="Largest number of points to try. Default: 10,000.")
    ] = None
    choose: Annotated[
        str | None,
        Option(
            metavar="FIGURE",
            help="Choose the best point by this figure: recall, precision, lead, lead_worst, quiet, load, "
            "load_busiest, flapping, or nab with --score nab.",
        ),
    ] = None
    subject_to: Annotated[
        tuple[str, ...],
        Option(
            metavar="CONDITION", help="Choose only among points that satisfy this condition: `load <= 1/d`. Repeatable."
        ),
    ] = ()
    holdout: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Choose by the labels before this time, and report the figures before and after it. Default: after "
            "two thirds of the labels.",
        ),
    ] = None
    state: Annotated[
        str | None, Option(metavar="FILE", help="Store progress in this file; after Ctrl-C the same command resumes.")
    ] = None
    workers: Annotated[
        int, Option(metavar="N", min=1, help="Number of processes that share the points; each reads the history.")
    ] = 1
    write: Annotated[bool, Option(help="Write the chosen values into the PARAM lines of the program.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormOptions:
    PANEL: ClassVar = OUTPUT

    picture: Annotated[
        str | None, Option(metavar="FILE", help="Draw the points of a grid as SVG: a figure against the load.")
    ] = None
    json: Annotated[bool, Option("--json", help="Print all figures as JSON.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestOptions:
    rules: RuleFiles
    history: HistoryOptions
    scores: ScoreOptions
    grids: GridOptions
    form: FormOptions
    dialect: DialectOptions
    parameters: ParameterOptions
    evaluation: EvaluationOptions
    knowledge: KnowledgeOptions

    def check(self) -> None:
        """Raise CepError if an option is missing, or cannot be combined with another option."""
        if not self.history.inputs:
            raise refuse("there is no --input", "name the history: `--input history.parquet`")
        if self.grids.state is not None and any(map(served_address, self.history.inputs)):
            hint = "save the records first, as the page on backtests shows"
            raise refuse("--state needs a history that does not change, but the history of a server grows", hint)
        if self.scores.labels is None:
            raise refuse("there are no --labels", "name a file of incidents: `--labels labels.csv`")
        if self.scores.detect is None:
            raise refuse("there is no --detect", "name the event or alert that detects: `--detect warming`")
        if self.scores.score not in (None, "nab"):
            raise refuse(f"--score: `{self.scores.score}` is not a score", "use `--score nab`")
        if self.form.picture is not None:
            if Path(self.form.picture).suffix != ".svg":
                raise refuse(
                    f"--picture {self.form.picture}: a picture is written as SVG",
                    "use a name like `--picture front.svg`",
                )
            if not self.grids.grid:
                raise refuse("--picture draws the points of a --grid, which is missing", "add `--grid Hot`")
        if self.grids.choose is None:
            for option, value in (
                ("--subject-to", self.grids.subject_to),
                ("--holdout", self.grids.holdout),
                ("--write", self.grids.write),
            ):
                if value:
                    raise refuse(f"{option} needs --choose", "add `--choose recall`")
        elif not self.grids.grid:
            raise refuse("--choose: there is no --grid to choose from", "add `--grid Hot`")


@takes(BacktestOptions)
def backtest(options: BacktestOptions) -> int:
    """Score rules against past incidents, and tune them.

    \b
      cep backtest rules.cep -i history.parquet --labels labels.csv \\
          --detect warming --key fridge
      cep backtest rules.cep -i history.parquet --labels labels.csv \\
          --detect warming --key fridge --grid Hot --grid Patience=10min,20min \\
          --choose recall --subject-to 'load <= 1/d' --write

    It reports recall, precision, lead time and load. With --grid all points are run in one pass over the history.
    """
    from cep.backtest.report import as_json, lines
    from cep.backtest.search import Search

    options.check()
    announce_compiling()
    with TemporaryDirectory(prefix="cep-") as folder:
        search = Search.of(options, Path(folder))
        result = search.run()
    say(as_json(result) if options.form.json else "\n".join(lines(result)))
    if options.form.picture is not None:
        from cep.backtest.picture import svg

        try:
            Path(options.form.picture).write_text(svg(result), encoding="utf-8")
        except OSError as error:
            raise refuse(f"--picture {options.form.picture}: {reason_of(error)}") from None
    if options.grids.write and result.chosen is not None:
        if not result.judged[result.chosen].hit:
            hint = "look at the labels, the key and the holdout; or set the parameters by hand"
            message = "--write: the chosen point finds none of the incidents before the holdout; nothing is written"
            complain(CepError(message, hint=hint, code="failed"))
            return 1
        for path in search.write(result.chosen):
            say(f"{path}: updated")
    return 0 if options.grids.choose is None or result.chosen is not None else 1
