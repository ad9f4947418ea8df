"""The report of a backtest: text for a terminal of 80 columns, or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cep.backtest.grid import HIGHER, Axis, at_edge, front, rank, value_of
from cep.backtest.passes import Parts
from cep.backtest.scoring import Figures
from cep.backtest.search import BacktestResult
from cep.core.literals import say_duration, write_time
from cep.rules.parameters import Value
from cep.runtime.run_stats import count

WIDTH = 80
SHOWN = 20
"""The greatest number of points that are listed."""
ROWS = (
    "recall",
    "precision",
    "lead",
    "lead_worst",
    "load",
    "load_busiest",
    "quiet",
    "flapping",
    "nab",
    "nab_low_fp",
    "nab_low_fn",
)
ASKED = ROWS[7:]
"""The figures that are printed only if an option requests them."""
TITLES = {
    "recall": "recall",
    "precision": "precision",
    "lead": "lead time, median",
    "lead_worst": "lead time, worst tenth",
    "load": "load",
    "load_busiest": "load, busiest key",
    "quiet": "longest quiet",
    "flapping": "flapping",
    "nab": "NAB, standard",
    "nab_low_fp": "NAB, low FP rate",
    "nab_low_fn": "NAB, low FN rate",
}


def lines(result: BacktestResult) -> Iterator[str]:
    history = result.history
    days = f"{write_time(result.history.since)} to {write_time(result.history.until)}"
    yield f"history   {days}"
    yield f"          {count(history.records, 'record')}, {count(history.dead, 'dead letter')}"
    if history.first_dead is not None:
        yield from _wrapped(f"one dead letter is {history.first_dead}", "          ")
    yield f"labels    {len(result.labels)}" + _divided(result)
    apart = "the longest window of a point's rules" if result.merge is None else say_duration(result.merge)
    yield from _wrapped(f"episodes  groups of `{result.detect}` detections with gaps of at most {apart}", further=10)
    for remark in result.remarks:
        yield from _wrapped(f"warning: {remark}")
    yield ""
    if not result.axes:
        yield from _figures(result.parts[0])
        return
    yield from _points(result)
    if result.figure is not None:
        yield ""
        yield from _choice(result)


def _wrapped(text: str, indent: str = "", further: int = 4) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + " " * further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _divided(result: BacktestResult) -> str:
    if result.holdout is None:
        return ""
    before = sum(label.start < result.holdout for label in result.labels)
    return f", {before} of them before the holdout, {write_time(result.holdout)}"


def _figures(parts: Parts) -> Iterator[str]:
    columns = [("all", parts.whole)]
    if parts.before is not None and parts.after is not None:
        columns += [("before", parts.before), ("from the holdout on", parts.after)]
        yield f"{'':23}" + "".join(f"{title:19}" for title, _ in columns).rstrip()
    for name in ROWS:
        if name in ASKED and all(value_of(name, figures) is None for _, figures in columns):
            continue
        texts = [_text(name, figures, len(columns) == 1) for _, figures in columns]
        yield f"{TITLES[name]:23}" + "".join(f"{text:19}" for text in texts).rstrip()


def _text(name: str, figures: Figures, long: bool) -> str:
    own = value_of(name, figures)
    if own is None:
        return "undefined" + (" (no episodes)" if long and name == "precision" and not figures.episodes else "")
    if name in ("lead", "lead_worst", "quiet"):
        return say_duration(round(own))
    if name in ("load", "load_busiest"):
        return f"{own:.3g}/d"
    if name.startswith("nab"):
        return f"{own:.1f}"
    if name == "flapping":
        return f"{100 * own:.0f} %"
    hits, of = (figures.hit, figures.labels) if name == "recall" else (figures.hitting, figures.episodes)
    interval = figures.recall_interval if name == "recall" else figures.precision_interval
    text = f"{hits} of {of}, {100 * own:.0f} %"
    if long and interval is not None:
        text += f" (95 %: {100 * interval[0]:.0f} to {100 * interval[1]:.0f} %)"
    return text


def _points(result: BacktestResult) -> Iterator[str]:
    """Yield a table of the points, followed by a table of the points on the Pareto front.

    If the best point is chosen by a figure, the points are sorted by this figure, the best first.
    """
    judged = result.judged
    order = list(range(len(result.points)))
    if result.figure is not None:
        figure = result.figure
        order.sort(key=lambda point: (-rank(figure, judged[point]), judged[point].load or 0, point))
        order.sort(key=lambda point: not all(bound.allows(judged[point]) for bound in result.bounds))
    passing = sum(all(bound.allows(point_figures) for bound in result.bounds) for point_figures in judged)
    if result.bounds:
        conditions = " and ".join(bound.text for bound in result.bounds)
        yield from _wrapped(f"points that pass {conditions} come first: {passing:,} of {len(order):,}")
    rows = list(_table(result, order[:SHOWN]))
    if 0 < passing < len(rows) - 1 and result.bounds:
        rows.insert(passing + 1, "--- these do not pass ---")
    yield from rows
    if (rest := len(order) - SHOWN) > 0:
        yield f"{count(rest, 'more point')}: `--json` has all"
    figure = result.figure if result.figure in HIGHER[:2] else "recall"
    best = front(judged, figure)
    yield ""
    yield f"Pareto front: the points at which more {figure} costs more load"
    yield from (f"  {text}" for text in _table(result, best[:SHOWN]))
    if (rest := len(best) - SHOWN) > 0:
        yield f"  and {rest} more"


def _table(result: BacktestResult, numbers: Sequence[int]) -> Iterator[str]:
    judged = result.judged
    shown = ["recall", "precision", "lead", "load"]
    if result.figure is not None and result.figure not in shown:
        shown.append(result.figure)
    titles = [{"lead": "lead time"}.get(name, name) for name in shown]
    rows = [[axis.parameter.name for axis in result.axes] + titles] + [
        [*_values(result.axes, result.points[number]), *(_text(name, judged[number], False) for name in shown)]
        for number in numbers
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(f"{text:{width}}" for text, width in zip(row, widths)).rstrip()


def point_text(result: BacktestResult, number: int) -> str:
    """Return the parameter values of a point as text: `Hot 7.0, Patience 20 min`."""
    names = [axis.parameter.name for axis in result.axes]
    return ", ".join(f"{name} {text}" for name, text in zip(names, _values(result.axes, result.points[number])))


def _values(axes: Sequence[Axis], point: Sequence[Value]) -> list[str]:
    return [axis.parameter.written(value) for axis, value in zip(axes, point)]


def _choice(result: BacktestResult) -> Iterator[str]:
    conditions = " and ".join(bound.text for bound in result.bounds)
    if result.chosen is None:
        yield f"no point passes {conditions}"
        return
    point = result.points[result.chosen]
    names = [axis.parameter.name for axis in result.axes]
    told = ", ".join(f"{name} = {text}" for name, text in zip(names, _values(result.axes, point)))
    limited = f" with {conditions}" if conditions else ""
    yield from _wrapped(f"chosen by {result.figure}{limited}, before the holdout: {told}")
    parts = result.parts[result.chosen]
    yield from _figures(parts)
    for warning in warnings(result):
        yield from _wrapped(f"warning: {warning}")


def warnings(result: BacktestResult) -> list[str]:
    """Return warnings if the choice of the best point is doubtful."""
    if result.chosen is None:
        return []
    texts = []
    before = result.judged[result.chosen]
    if not before.hit:
        texts.append("the chosen point finds none of the incidents before the holdout")
    if before.hit == 1:
        texts.append("the choice rests on a single incident")
    for name in at_edge(result.axes, result.points[result.chosen]):
        texts.append(f"the chosen `{name}` is at the edge of the values that were tried")
    after = result.parts[result.chosen].after
    for bound in result.bounds if after is not None else ():
        if after is not None and not bound.allows(after):
            value = _text(bound.figure, after, False)
            texts.append(f"from the holdout on the chosen point does not pass {bound.text}: it has {value}")
    return texts


def as_json(result: BacktestResult) -> str:
    """Return the whole result as JSON. Durations are in seconds."""
    axes = [axis.parameter for axis in result.axes]
    points = []
    for number, (point, parts) in enumerate(zip(result.points, result.parts)):
        values = {axis.name: axis.of(value).given for axis, value in zip(axes, point)}
        own: dict[str, Any] = {"params": values, "all": _json(parts.whole)}
        if parts.before is not None and parts.after is not None:
            own |= {"before": _json(parts.before), "after": _json(parts.after)}
        points.append(own | ({"chosen": True} if number == result.chosen else {}))
    told: dict[str, Any] = {
        "from": write_time(result.history.since),
        "to": write_time(result.history.until),
        "records": result.history.records,
        "dead": result.history.dead,
        "first_dead": result.history.first_dead,
        "labels": len(result.labels),
        "merge": None if result.merge is None else result.merge / 1_000_000,
        "holdout": None if result.holdout is None else write_time(result.holdout),
        "points": points,
        "warnings": [*result.remarks, *warnings(result)],
    }
    return json.dumps(told, ensure_ascii=False, indent=2)


def _json(figures: Figures) -> dict[str, Any]:
    document = asdict(figures)
    for name in ("lead", "lead_worst", "quiet"):
        if document[name] is not None:
            document[name] /= 1_000_000
    return document | {"recall_interval": figures.recall_interval, "precision_interval": figures.precision_interval}
