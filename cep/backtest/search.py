"""Evaluate a program over a history that has labels. The result is the figures of one point or of all points of a
grid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import typer

from cep.app.cli_options import InputOptions
from cep.app.durations import duration, instant, refuse
from cep.app.opening import ProgramSource, open_batches
from cep.app.pipeline import Interrupt
from cep.app.served_history import downloaded, named_place
from cep.backtest.grid import MOST_POINTS, Axis, Bound, choose, points_of, read_axis, read_bound, read_figure
from cep.backtest.history import History, detections_of
from cep.backtest.labels import read_labels
from cep.backtest.nab import Key, Times
from cep.backtest.passes import HistorySummary, Parts, PassResult, Point, Seen, passes
from cep.backtest.progress import SearchProgress
from cep.backtest.scoring import Figures, Label, Scoring, halves, holdout_of, score
from cep.backtest.server_labels import SERVER
from cep.backtest.state import SearchState
from cep.compile import CompiledProgram
from cep.connectors.brokers.sources import Sources
from cep.connectors.inputs import inputs
from cep.connectors.writing.time_format import number_size
from cep.core.errors import CepError
from cep.core.literals import SECOND, UNITS, write_time
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.language.reading import parameters_of
from cep.plan.algebra import Rule
from cep.plan.event_schemas import inputs_of
from cep.plan.pattern import events, patterns
from cep.rules.parameters import Parameters, Value
from cep.runtime.run_stats import count
from cep.variants import compiled_variants

if TYPE_CHECKING:
    from cep.backtest.command import BacktestOptions

AT_ONCE, KEPT_AT_ONCE = 500, 100
"""The number of points that are run per pass: AT_ONCE without a state file, and KEPT_AT_ONCE with a state file."""
TIMED = 16
"""The number of points in a trial run. The duration of a grid is estimated from this run."""
ROWS = 1 << 18
"""The number of records per batch."""


@dataclass(slots=True)
class BacktestResult:
    """The figures of all points of a grid.

    - `merge`: the largest gap that may separate two detections of one episode. By default, it is the longest window of
      the rules. It is None if this window differs between points.
    - `remarks`: doubts about the labels.
    - `chosen`: the number of the chosen point, or None if no point was chosen.
    """

    detect: str
    axes: Sequence[Axis]
    points: Sequence[Point]
    parts: Sequence[Parts]
    labels: Sequence[Label]
    merge: int | None
    history: HistorySummary
    figure: str | None = None
    bounds: Sequence[Bound] = ()
    holdout: int | None = None
    remarks: Sequence[str] = ()
    chosen: int | None = None

    @property
    def judged(self) -> list[Figures]:
        """The figures by which the best point is chosen. They do not cover the holdout, if there is one."""
        return [part.whole if part.before is None else part.before for part in self.parts]


class Search:
    """A program, and the history and labels that the options name."""

    def __init__(
        self,
        options: BacktestOptions,
        source: ProgramSource,
        program: CompiledProgram,
        parameters: Parameters,
        servers: Mapping[str, str],
    ) -> None:
        """Check the options and read the labels. Raises CepError if an option or a label is not valid.

        `servers`: for each downloaded file, the input `server:URL` that it replaces.
        """
        self.options, self.source, self.program, self.parameters = options, source, program, parameters
        self.servers = servers
        self.detect, schema, self.is_alert = _detected(program, options.scores.detect or "")
        self.schemas = inputs_of(program.plan)
        sources = inputs(options.history.inputs, self.schemas, options.history.format)
        for history_file in sources:
            if history_file.size is None:
                raise refuse(
                    f"--input {history_file.path}: a history must be files",
                    "save the live records to files first, then name the files",
                )
        self.unit = number_size(sources, self.schemas)
        named = [text.partition("=") for text in options.scores.key]
        self.key = [_attribute(schema, name) for name, _, _ in named]
        columns = [column or name for name, _, column in named]
        self.attributes = [attribute.name for attribute in schema.attributes]
        self.labels, self.label_columns = read_labels(
            options.scores.labels or "",
            [replace(attribute, name=column) for attribute, column in zip(self.key, columns)],
            self.unit,
            options.scores.detect or "",
            options.history.token_file,
        )
        served = (options.scores.labels or "").startswith(SERVER)
        ignored = [*columns, "alert"] if served else columns
        self.label_columns = [column for column in self.label_columns if column not in ignored]
        scores = options.scores
        merge = None if scores.merge is None else duration(scores.merge, "--merge")
        flapping = None if scores.flapping is None else duration(scores.flapping, "--flapping")
        self.merge = merge
        if merge is None and self._window(program, self.detect) is None:
            hint = "say how far apart detections of one episode may be: `--merge 1h`"
            raise refuse(f"--merge is missing: the rules of `{self.detect}` have no window", hint)
        self.scoring = Scoring(
            merge or 0,
            duration(scores.before, "--before"),
            duration(scores.after, "--after"),
            flapping,
            scores.score == "nab",
        )
        self.axes = [read_axis(text, parameters) for text in options.grids.grid]
        names = [axis.parameter.name for axis in self.axes]
        for name in names:
            if names.count(name) > 1:
                raise refuse(f"--grid: `{name}` is named twice", "name all its values at once")
            if name in options.parameters.values:
                raise refuse(f"--grid: `{name}` is set by --param as well", "remove one of them")
        grids = options.grids
        self.figure = None if grids.choose is None else read_figure(grids.choose, "--choose", self.scoring.nab)
        self.bounds = [read_bound(text, self.scoring.nab) for text in grids.subject_to]
        self.lateness = duration(options.history.lateness or "0", "--lateness")
        self.holdout = self._holdout()

    @classmethod
    def of(cls, options: BacktestOptions, folder: Path | None = None) -> Search:
        """Compile the program and read the labels. Raises CepError if an option is not valid.

        `folder`: a folder for the records that are downloaded from servers, or None to download none.
        """
        source = ProgramSource.read(
            options.rules,
            options.knowledge,
            options.evaluation.policy,
            options.dialect,
            options.parameters,
            distinct=options.evaluation.distinct,
        )
        compiling = source.options
        parameters = parameters_of(source.text, source.name, compiling.files, compiling.dialect, compiling.params)
        program = source.compiled(alerts=True)
        history = options.history
        servers: Mapping[str, str] = {}
        if folder is not None:
            local = downloaded(history.inputs, inputs_of(program.plan), history.token_file, folder)
            options, servers = replace(options, history=replace(history, inputs=local.inputs)), local.servers
        return cls(options, source, program, parameters, servers)

    def run(self) -> BacktestResult:
        """Run all points over the history, and score each point. Raises CepError if there are too many points."""
        number = prod(len(axis.values) for axis in self.axes)
        most = self.options.grids.points or MOST_POINTS
        if number > most:
            self._refuse(number)
        if number > MOST_POINTS:
            self._warn(number)
        points = points_of(self.axes)
        state = None if self.options.grids.state is None else SearchState(Path(self.options.grids.state), self._of())
        try:
            parts, history = self._all(points, state)
        finally:
            if state is not None:
                state.close()
        history = replace(history, first_dead=named_place(history.first_dead, self.servers))
        self._check_holdout(history)
        result = BacktestResult(
            self.detect,
            self.axes,
            points,
            parts,
            self.labels,
            self._apart(),
            history,
            self.figure,
            self.bounds,
            self.holdout,
            [*self._remarks(history), *self._nothing(parts)],
        )
        if self.figure is not None:
            result.chosen = choose(self.axes, points, result.judged, self.figure, self.bounds)
        return result

    def _all(self, points: Sequence[Point], state: SearchState | None) -> tuple[list[Parts], HistorySummary]:
        """Run the points whose figures are not in the state file. Return all points' figures, and a summary of the
        history."""
        names = [self._name(point) for point in points]
        parts = {} if state is None else dict(state.found)
        history = None if state is None else state.history
        waiting = [place for place, name in enumerate(names) if name not in parts]
        workers = self.options.grids.workers
        most = AT_ONCE if state is None else KEPT_AT_ONCE
        size = max(1, min(most, -(-len(waiting) // workers)))
        pieces = [waiting[begin : begin + size] for begin in range(0, len(waiting), size)]
        progress = SearchProgress(len(waiting))
        try:
            own = [[points[place] for place in piece] for piece in pieces]
            for number, result in passes(self, own, workers, progress.seen):
                finished = [names[place] for place in pieces[number]]
                parts |= dict(zip(finished, result.parts))
                history = result.history
                if state is not None:
                    state.add(finished, result)
        except KeyboardInterrupt:
            progress.close()
            if state is not None:
                done = sum(name in parts for name in names)
                text = f"stopped: {done:,} of {count(len(points), 'point')} are kept in {state.path}"
                typer.echo(f"{text}; run the same command to continue", err=True)
            raise
        finally:
            progress.close()
        assert history is not None, "there is a point at least"
        return [parts[name] for name in names], history

    def _apart(self) -> int | None:
        """Return the largest gap that may separate two detections of one episode. Returns None if it differs between
        points."""
        if self.merge is not None or any(axis.parameter.type == "duration" for axis in self.axes):
            return self.merge
        return self._window(self.program, self.detect)

    def _check_holdout(self, history: HistorySummary) -> None:
        asked = self.options.grids.holdout
        if asked is not None and self.holdout is not None and not history.since < self.holdout <= history.until:
            hint = f"use a time within the history, {_range(history)}"
            raise refuse(f"--holdout {asked} is outside of the history", hint)

    def _nothing(self, parts: Sequence[Parts]) -> Iterator[str]:
        if not any(part.whole.episodes for part in parts):
            where = "" if len(parts) == 1 else " at any point"
            yield f"the history has no `{self.detect}`{where}: `cep test` says why it is missing"

    def _remarks(self, history: HistorySummary) -> list[str]:
        """Return remarks about labels that are probably mistakes."""
        remarks = []
        if not self.key and (columns := [name for name in self.label_columns if name in self.attributes]):
            column = columns[0]
            remarks.append(
                f"labels have a column `{column}`, an attribute of `{self.detect}`: with `--key {column}` a label is "
                f"hit by detections of its own `{column}` alone"
            )
        elif self.label_columns:
            names = ", ".join(f"`{column}`" for column in self.label_columns)
            text = f"{count(len(self.label_columns), 'column')} of the labels that nothing uses: {names}"
            if not self.key and self.attributes:
                column = self.label_columns[0]
                text += f"; with `--key {self.attributes[0]}={column}` a label is hit only by detections whose "
                text += f"`{self.attributes[0]}` is its `{column}`"
            remarks.append(text)
        before, after = self.scoring.before, self.scoring.after
        outside = [
            label for label in self.labels if label.end + after < history.since or label.start - before > history.until
        ]
        if outside:
            lie = "lies" if len(outside) == 1 else "lie"
            counted = "it counts as missed" if len(outside) == 1 else "they count as missed"
            remarks.append(
                f"{len(outside)} of {count(len(self.labels), 'label')} {lie} outside the history ({_range(history)}): "
                f"{counted}"
            )
        return [*remarks, *history.unknown]

    def _unknown(self, keys: set[Key] | None) -> list[str]:
        """Return remarks about labels whose key does not occur in any record. `keys`: the keys in records."""
        unknown = {} if keys is None else {label.key: None for label in self.labels if label.key is not None}
        known = [key for key in sorted(keys or (), key=str) if None not in key]
        texts = []
        for key in unknown:
            if keys is None or key in keys:
                continue
            told = ", ".join(f"`{value}`" for value in key)
            hint = did_you_mean(str(key[0]), [str(known_key[0]) for known_key in known]) if len(key) == 1 else None
            number = sum(label.key == key for label in self.labels)
            texts.append(f"no record has the key {told} of {count(number, 'label')}: {hint or 'they count as missed'}")
        return texts

    def _name(self, point: Point) -> str:
        told = (f"{axis.parameter.name}={axis.parameter.written(value)}" for axis, value in zip(self.axes, point))
        return ", ".join(sorted(told))

    def _of(self) -> dict[str, Any]:
        """Return everything on which the figures depend, except the parameter values of the grid. A state file belongs
        to this backtest if it contains the same."""
        scores, history = self.options.scores, self.options.history
        sources = inputs(history.inputs, self.schemas, history.format)
        names = [axis.parameter.name for axis in self.axes]
        values = {
            parameter.name: parameter.written(parameter.value.value)
            for parameter in self.parameters
            if parameter.name not in names
        }
        labels = hashlib.sha256(
            repr([(label.start, label.end, label.key) for label in self.labels]).encode()
        ).hexdigest()
        evaluation = self.options.evaluation
        return {
            "program": self._without_defaults(),
            "values": values,
            "compiled": self.program.fingerprint if not self.axes else None,
            "inputs": [(source.path, source.size) for source in sources],
            "labels": labels,
            "scores": asdict(replace(scores, labels=None)),
            "lateness": history.lateness,
            "evaluation": asdict(evaluation),
            "facts": self.options.knowledge.facts,
            "knowledge": self.options.knowledge.files,
            "holdout": self.holdout,
        }

    def _without_defaults(self) -> str:
        """Return the program's text without the default values of parameters. The figures do not depend on them."""
        lines = self.source.text.splitlines(keepends=True)
        spans = [parameter.default.span for parameter in self.parameters]
        for span in sorted(spans, reverse=True):
            line = lines[span.line - 1]
            lines[span.line - 1] = line[: span.column - 1] + line[span.end_column - 1 :]
        return "".join(lines)

    def run_points(self, points: Sequence[Point], seen: Seen) -> PassResult:
        """Run several points in one pass, and score each of them. Raises KeyboardInterrupt if a signal arrives."""
        history, merges = self._pass(points, seen)
        scorings = [replace(self.scoring, merge=merge) for merge in merges]
        parts = [self._score(*own, history) for own in zip(history.detections, scorings)]
        stats = history.stats
        summary = HistorySummary(
            history.since,
            history.until,
            stats.records,
            stats.dead.total(),
            history.first_dead,
            tuple(self._unknown(history.keys)),
        )
        return PassResult(parts, summary)

    def write(self, chosen: int) -> list[Path]:
        """Write the values of the chosen point into the PARAM lines of the program. Return the changed files."""
        point = points_of(self.axes)[chosen]
        lines: dict[str, list[str]] = {}
        changes = [
            (axis.parameter.default.span, axis.parameter.written(value), axis.parameter.source)
            for axis, value in zip(self.axes, point)
            if value != axis.parameter.default.value
        ]
        for span, text, source in sorted(changes, key=lambda change: change[0], reverse=True):
            file, line = source.place(span.line)
            own = lines.setdefault(file, Path(file).read_text(encoding="utf-8").splitlines(keepends=True))
            own[line - 1] = own[line - 1][: span.column - 1] + text + own[line - 1][span.end_column - 1 :]
        for file, own in lines.items():
            Path(file).write_text("".join(own), encoding="utf-8")
        return [Path(file) for file in lines]

    def _window(self, program: CompiledProgram, name: str) -> int | None:
        target = next((alert.event for alert in program.alerts if self.is_alert and alert.name == name), name)
        return window_of(program.rules.rules, target)

    def _pass(self, points: Sequence[Point], seen: Seen) -> tuple[History, list[int]]:
        """Run several points in one pass. Return their detections and, for each point, the largest gap that may
        separate two detections of one episode."""
        params = [{axis.parameter.name: value for axis, value in zip(self.axes, point)} for point in points]
        named = [self._texts(param) for param in params]
        wanted, alerts = ([], [self.detect]) if self.is_alert else ([self.detect], [])
        variants = compiled_variants(self.source.text, self.source.name, self.source.options, named, wanted, alerts)
        running = replace(self.options.evaluation.engine, lateness=self.lateness)
        reading = InputOptions(
            inputs=self.options.history.inputs,
            format=self.options.history.format,
            lateness=self.options.history.lateness,
        )
        interrupt = Interrupt()
        with interrupt.listening():
            batches = open_batches(reading, ROWS, inputs_of(variants.program.plan), None, Sources(_say_nothing))
            key = [attribute.name for attribute in self.key]
            history = detections_of(variants, self.detect, key, batches, interrupt, running, seen)
        if interrupt.signal:
            raise KeyboardInterrupt
        if self.merge is not None:
            return history, [self.merge] * len(points)
        names = [alerts[self.detect].name if alerts else own[self.detect] for alerts, own in variants.both]
        return history, [self._window(variants.program, name) or 0 for name in names]

    def _texts(self, values: Mapping[str, Value]) -> dict[str, object]:
        return {name: self.parameters.by_name[name].of(value).given for name, value in values.items()}

    def _score(self, own: Mapping[Key, Times], scoring: Scoring, history: History) -> Parts:
        holdout = self.holdout
        whole = score(own, self.labels, scoring, history.since, history.until)
        if holdout is None:
            return Parts(whole)
        (early, before), (late, after) = halves(own, self.labels, holdout)
        middle = min(max(holdout, history.since), history.until)
        return Parts(
            whole,
            score(early, before, scoring, history.since, middle),
            score(late, after, scoring, middle, history.until),
        )

    def _holdout(self) -> int | None:
        if self.figure is None:
            return None
        if self.options.grids.holdout is not None:
            return instant(self.options.grids.holdout, "--holdout", self.unit)
        cut = holdout_of(self.labels)
        if cut is None:
            hint = "use `--holdout TIME`, or more labels"
            raise refuse(f"--choose: {len(self.labels)} labels cannot be divided into two parts", hint)
        return cut

    def _estimate(self, number: int) -> str:
        """Estimate how long a grid takes in one process. The estimate comes from two trial runs: one with a single
        point, and one with several points."""
        several = [_point(self.axes, place * number // TIMED) for place in range(TIMED)]
        self._seconds(several)  # compile the kernels first
        alone, together = self._seconds(several[:1]), self._seconds(several)
        further = max((together - alone) / (TIMED - 1), 0.0)
        return _about(number * further + -(-number // AT_ONCE) * max(alone - further, 0.0))

    def _seconds(self, points: Sequence[Point]) -> float:
        began = process_time()
        self._pass(points, lambda part: None)
        return process_time() - began

    def _refuse(self, number: int) -> None:
        told = self._estimate(number)
        hint = f"use fewer values, or `--points {number}`: that takes {told}, measured on {TIMED} points"
        most = self.options.grids.points or MOST_POINTS
        raise CepError(f"--grid: {number:,} points are more than the limit of {most:,}", hint=hint, code="option")

    def _warn(self, number: int) -> None:
        typer.echo(f"{number:,} points take {self._estimate(number)}, measured on {TIMED} points", err=True)


def _point(axes: Sequence[Axis], place: int) -> Point:
    """Return the point number `place` of a grid, in the order of `points_of`, without computing the other points."""
    values = []
    for axis in reversed(axes):
        place, own = divmod(place, len(axis.values))
        values.append(axis.values[own])
    return tuple(reversed(values))


def _about(seconds: float) -> str:
    unit = next((name for name in ("d", "h", "min") if seconds * SECOND >= UNITS[name]), "s")
    amount = max(seconds * SECOND / UNITS[unit], 1.0)
    return f"about {float(f'{amount:.1e}'):,.16g} {unit}"


def window_of(rules: Iterable[Rule], event: str) -> int | None:
    """Return the longest window of the rules from which an event is derived, in microseconds. Returns None if these
    rules have no window."""
    by_event: dict[str, list[Rule]] = {}
    for rule in rules:
        by_event.setdefault(rule.event, []).append(rule)
    waiting, seen, longest = [event], {event}, 0
    while waiting:
        for rule in by_event.get(waiting.pop(), ()):
            for part in patterns(rule.body):
                longest = max(longest, part.within or 0, part.properties().duration or 0)
            more = set(events(rule.body)) - seen
            seen |= more
            waiting += sorted(more)
    return longest or None


def _range(history: HistorySummary) -> str:
    return f"from {write_time(history.since)} to {write_time(history.until)}"


def _say_nothing(source: str, text: str, /, *, lost: bool) -> None:
    """Ignore a message about a lost source. A history is read from files, which are never lost."""


def _detected(program: CompiledProgram, name: str) -> tuple[str, Schema, bool]:
    """Return the name and schema of the event or alert whose detections are scored, and True if it is an alert.

    Raises CepError if the name is unknown.
    """
    schemas = program.plan.schemas
    derived = {rule.event for rule in program.rules.rules if schemas[rule.event].fluent is None}
    tables = {table for alert in program.alerts for table in alert.tables}
    known = sorted(event for event in derived - tables if event not in program.rules.helpers)
    alert = next((alert for alert in program.alerts if alert.name == name), None)
    if name in known:
        return name, schemas[name], False
    if alert is not None:
        return name, schemas[alert.table], True
    names = [*known, *(alert.name for alert in program.alerts)]
    if name in schemas and schemas[name].fluent is not None:
        raise refuse(f"--detect: `{name}` is a fluent", f"name an event or an alert: {', '.join(names) or 'none'}")
    hint = did_you_mean(name, names) or f"it derives {', '.join(f'`{name}`' for name in names) or 'nothing'}"
    raise refuse(f"--detect: the program derives no `{name}`", hint)


def _attribute(schema: Schema, name: str) -> Attribute:
    names = [attribute.name for attribute in schema.attributes]
    if name not in names:
        hint = did_you_mean(name, names) or (
            f"it has {', '.join(f'`{name}`' for name in names)}; `--key {names[0]}={name}` if `{name}` is a column"
            if names
            else "it has none: leave `--key` out"
        )
        raise refuse(f"--key: `{schema.name}` has no attribute `{name}`", hint)
    return schema.attributes[names.index(name)]
