"""Derived events as HTML for notebooks: a timeline, and the first rows of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import polars as pl

from cep.core.literals import write_duration, write_time
from cep.core.schema import Schema
from cep.rules.printing import declaration

ROWS = 10
"""The greatest number of rows shown per table."""
LANES = 12
"""The greatest number of tables shown."""
EVENTS, WARNINGS = 20, 5
"""The greatest number of an engine's event types, and of its warnings, that are shown."""
LONGEST = 80
"""The greatest number of characters shown per value."""
COLUMNS = 20
"""The greatest number of columns shown per table."""
_LEFT, _WIDTH, _HEIGHT, _RIGHT = 150, 560, 20, 12
_COLOURS = ("#3b7dd8", "#d9822b", "#3d9a50", "#b0468f", "#7a6ad8", "#a8822a")
_TABLE = "<table cellpadding='3' style='font:inherit;border-collapse:collapse;text-align:left;white-space:nowrap'>"


def page(summary: str, tables: Mapping[str, pl.DataFrame], dead: Sequence[str] = ()) -> str:
    """Return a page of derived events as HTML: a summary, a timeline of all tables, and the first rows of each table.

    `dead`: the reasons why input rows were rejected.
    """
    parts = [f"<div style='margin:2px 0'>{escape(summary)}</div>"]
    if dead:
        more = "" if len(dead) == 1 else f" and {len(dead) - 1:,} more"
        first = escape(_short(dead[0]))
        parts.append(f"<div style='margin:2px 0;color:#c0392b'>rows that could not be read: {first}{more}</div>")
    filled = {name: table for name, table in tables.items() if table.height}
    parts.append(timeline(filled))
    shown = list(filled.items())[:LANES]
    parts += [_table(name, table, number == 0) for number, (name, table) in enumerate(shown)]
    if len(filled) > len(shown):
        parts.append(f"<div style='opacity:.7'>and {len(filled) - len(shown):,} more events</div>")
    return f"<div style='font:13px system-ui,sans-serif'>{''.join(parts)}</div>"


def engine_page(
    summary: str, inputs: Mapping[str, Schema], outputs: Mapping[str, Schema], warnings: Sequence[str]
) -> str:
    """Return a page about an engine as HTML: its input and derived events with their attributes, and the first
    warnings."""
    parts = [f"<div style='margin:2px 0'>{escape(summary)}</div>"]
    rows = ""
    for way, schemas in (("in", inputs), ("out", outputs)):
        for schema in list(schemas.values())[:EVENTS]:
            written = declaration(schema.name, schema.shown)
            shown = f"<code>{escape(_short(written))}</code>"
            rows += f"<tr><td>{way}</td><td>{shown}</td></tr>"
        if len(schemas) > EVENTS:
            rows += f"<tr><td>{way}</td><td>and {len(schemas) - EVENTS:,} more</td></tr>"
    parts.append(f"{_TABLE}<tbody>{rows}</tbody></table>")
    for warning in warnings[:WARNINGS]:
        parts.append(f"<pre style='margin:4px 0;white-space:pre-wrap'>{escape(warning)}</pre>")
    if len(warnings) > WARNINGS:
        parts.append(f"<div style='opacity:.7'>and {len(warnings) - WARNINGS:,} more warnings</div>")
    return f"<div style='font:13px system-ui,sans-serif'>{''.join(parts)}</div>"


# -- the timeline


def timeline(tables: Mapping[str, pl.DataFrame]) -> str:
    """Return a timeline as inline SVG, with one row of bars per table. Returns "" if the tables contain no times."""
    known = {name: table for name, table in tables.items() if _bounds(table) is not None}
    if not known:
        return ""
    ends = [bounds for table in known.values() if (bounds := _bounds(table)) is not None]
    first, last = min(low for low, _ in ends), max(high for _, high in ends)
    lanes = dict(list(known.items())[:LANES])
    height = len(lanes) * _HEIGHT + 24
    drawn = [_lane(name, table, number, first, last) for number, (name, table) in enumerate(lanes.items())]
    y = len(lanes) * _HEIGHT + 4
    right = _LEFT + _WIDTH
    axis = (
        f"<path d='M{_LEFT} {y}H{right}' stroke='currentColor' stroke-opacity='.4'/>"
        f"<text x='{_LEFT}' y='{y + 15}' font-size='11' fill='currentColor'>{escape(write_time(first))}</text>"
        f"<text x='{right}' y='{y + 15}' font-size='11' fill='currentColor' text-anchor='end'>"
        f"{escape(write_time(last))}</text>"
    )
    box = f"0 0 {right + _RIGHT} {height}"
    return (
        f"<svg viewBox='{box}' width='{right + _RIGHT}' style='max-width:100%;display:block;margin:4px 0' role='img' "
        f"aria-label='when events occurred'>{''.join(drawn)}{axis}</svg>"
    )


def _bounds(table: pl.DataFrame) -> tuple[int, int] | None:
    times = pl.concat([table["start"].cast(pl.Int64), table["end"].cast(pl.Int64)]).drop_nulls()
    low, high = times.min(), times.max()
    return None if not isinstance(low, int) or not isinstance(high, int) else (low, high)


def _lane(name: str, table: pl.DataFrame, number: int, first: int, last: int) -> str:
    """Return the SVG of one table's row in the timeline. Events that would share pixels are merged into one bar.

    `number`: the position of the row in the timeline. `first`, `last`: the times at the timeline's left and right edge.
    """
    length = max(1, last - first)
    places = (
        table.select(
            pl.col("start").cast(pl.Int64).fill_null(first).alias("start"),
            pl.col("end").cast(pl.Int64).fill_null(last).alias("end"),
        )
        .select((((pl.all() - first) / length) * _WIDTH).floor().cast(pl.Int64))
        .unique()
        .sort("start", "end")
    )
    bars: list[list[int]] = []
    for start, end in places.rows():
        if bars and start <= bars[-1][1] + 1:
            bars[-1][1] = max(bars[-1][1], end)
        else:
            bars.append([start, end])
    y, colour = number * _HEIGHT, _COLOURS[number % len(_COLOURS)]
    drawn = "".join(f"M{_LEFT + start} {y + 4}h{max(2, end - start)}v12h-{max(2, end - start)}z" for start, end in bars)
    shown = name if len(name) <= 20 else f"{name[:19]}…"
    return (
        f"<text x='{_LEFT - 8}' y='{y + 14}' font-size='12' fill='currentColor' text-anchor='end'>{escape(shown)}"
        f"</text><path d='{drawn}' fill='{colour}' fill-opacity='.75'>"
        f"<title>{escape(name)}: {table.height:,}</title></path>"
    )


# -- tables


def _table(name: str, table: pl.DataFrame, opened: bool) -> str:
    columns = table.columns[:COLUMNS]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    shown = table.select(columns).head(ROWS)
    types = shown.dtypes
    integral = [pl.col(column).cast(pl.Int64) for column, type_ in zip(columns, types) if type_.is_temporal()]
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value, type_)}</td>" for value, type_ in zip(row, types)) + "</tr>"
        for row in shown.with_columns(integral).rows()
    )
    more = []
    if table.height > ROWS:
        more.append(f"{table.height - ROWS:,} more rows")
    if len(table.columns) > COLUMNS:
        more.append(f"{len(table.columns) - COLUMNS:,} more columns")
    foot = f"<div style='opacity:.7;margin:2px 8px'>{' and '.join(more)}</div>" if more else ""
    return (
        f"<details{' open' if opened else ''} style='margin:4px 0'>"
        f"<summary><b>{escape(name)}</b> {table.height:,}</summary>"
        f"<div style='overflow-x:auto'>{_TABLE}<thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{foot}</details>"
    )


def _cell(value: object, type_: pl.DataType) -> str:
    if value is None:
        return "<span style='opacity:.5'>null</span>"
    if isinstance(value, int) and isinstance(type_, pl.Datetime):
        return escape(write_time(value))
    if isinstance(value, int) and isinstance(type_, pl.Duration):
        return escape(f"-{write_duration(-value)}" if value < 0 else write_duration(value))
    return escape(_short(str(value).lower() if isinstance(value, bool) else str(value)))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
