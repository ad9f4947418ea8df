"""The drawings of formulas in `docs/fluents.md`: each is run and drawn again.

A block `formula` has a rule; what `p` and `q` (fluents, begun and ended by events), `e` and `f` (events of instants)
and `g` (an event with a duration) are, `p(1)` a tuple of one; the axis; and what the rule makes of it, a row a tuple. A
second takes a few columns of the axis.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cep.engine import holds
from cep.events import Event, Held
from tests.test_docs import DOCS, Block, blocks

SECOND = 1_000_000
PAGE: Path = DOCS / "fluents.md"
DRAWN = [block for block in blocks(PAGE) if block.kind == "formula"]
_PIECE = re.compile(r"[\[(]=*[\])]?|\|")


@pytest.mark.parametrize("block", DRAWN, ids=lambda block: str(block.line))
def test_a_drawing(block: Block) -> None:
    rule, *lines = block.text.splitlines()
    head = rule.split(" WHILE ")[0].split(" ")[-1].split("(")[0]
    axis = next(line for line in lines if line.startswith("seconds"))
    ticks = [(match.start(), int(match[0])) for match in re.finditer(r"\d+", axis)]
    (left, first), (right, second) = ticks[:2]
    per_second = (right - left) // (second - first)
    given: dict[str, str] = {}
    for line in lines[: lines.index(axis)]:
        given[line.split(" ")[0]] = line
    events: list[Event] = []

    def time(column: int) -> int:
        assert (column - left) % per_second == 0, f"{column} is no second"
        return ((column - left) // per_second + first) * SECOND

    program = [f"fluent {head}({'n: int' if f'{head}(' in rule else ''}).", rule + "."]
    for name, line in given.items():
        pieces = list(_PIECE.finditer(line, left))
        if name in "efg":
            program.append(f"event {name}{'.' if name == 'g' else ' TIME time.'}")
            events += [Event(name, (), time(each.start()), time(each.end() - 1)) for each in pieces]
            continue
        name, _, argument = name.removesuffix(")").partition("(")
        values, own, variable = ((int(argument),), "(n: int)", "(N)") if argument else ((), "", "")
        program += [f"event {word}_{name}{own} TIME time." for word in ("begin", "end")]
        program.append(f"fluent {name}{own}.")
        program.append(f"initiate {name}{variable} <- begin_{name}{variable}.")
        program.append(f"terminate {name}{variable} <- end_{name}{variable}.")
        for each in pieces:
            assert each[0][0] == "(", "an event begins it, so the beginning is open"
            events.append(Event(f"begin_{name}", values, time(each.start()), time(each.start())))
            if each[0][-1] == "]":
                events.append(Event(f"end_{name}", values, time(each.end() - 1), time(each.end() - 1)))
    text = "\n".join(dict.fromkeys(program))
    rows: dict[str, str] = {}
    for each in holds(text, sorted(events, key=lambda e: e.end)):
        if each.type == head:
            label = f"{head}({each.args[0]})" if each.args else head
            row = rows.setdefault(label, f"{label:{left}}".ljust(len(axis)))
            rows[label] = drawn(row, each, left, first, per_second, len(axis))
    shown = [*lines[: lines.index(axis) + 1], *(row.rstrip() for row in rows.values())]
    assert lines == shown, "the drawing should be:\n" + "\n".join([rule, *shown])


def drawn(row: str, held: Held, left: int, first: int, per_second: int, width: int) -> str:
    """The row with an interval in it."""

    def column(time: int) -> int:
        place = left + (time // SECOND - first) * per_second
        assert time % SECOND == 0 and left <= place < width, f"{time} has no column"
        return place

    begin = left if held.start is None else column(held.start)
    end = width - 1 if held.end is None else column(held.end)
    bar = "|" if begin == end else held.bounds[0] + "=" * (end - begin - 1) + held.bounds[1]
    if held.end is None:
        bar = bar[:-1] + "="
    if held.start is None:
        bar = "=" + bar[1:]
    if row[begin] == ")":  # a hole
        bar = "o" + bar[1:]
    return row[:begin] + bar + row[begin + len(bar) :]
