"""What docs/lars.md shows is so: the drawings are evaluated again, what is written in a table is read.

A block `lars` is a program; `ticks` behind it a drawing of it: a row of ticks, then rows of what comes in and of what
is derived. Under a tick stand the arguments of its atoms, several atoms separated by `,`, arguments of one by `/`;
`x` where an atom has none. A row `b seen at 3` has the ticks at which b is in the answer of tick 3.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cep.core.errors import Source
from cep.core.literals import SECOND
from cep.language.dialects.lars.laser import read_laser
from cep.language.dialects.lars.printer import print_program
from cep.language.dialects.lars.reader import read
from tests.lars_answer_sets import nearest
from tests.reference_lars import Atom, by_definition, by_strata, strata
from tests.test_docs import DOCS, Block, blocks

PAGE = DOCS / "lars.md"
BLOCKS = blocks(PAGE)
DRAWN = [(one, other) for one, other in pairwise(BLOCKS) if one.kind == "lars" and other.kind == "ticks"]


def rows(drawing: Block) -> tuple[list[int], list[tuple[str, list[list[str]]]]]:
    """The ticks of a drawing, and its rows: a name and the cells."""
    first, *rest = drawing.text.rstrip("\n").split("\n")
    assert first.startswith("tick"), f"{PAGE.name}:{drawing.line}"
    places = [(match.start(), int(match.group())) for match in re.finditer(r"\d+", first)]
    found = []
    for line in rest:
        starts = [start for start, _ in places]
        cells = [line[one:other].strip() for one, other in zip(starts, [*starts[1:], None], strict=True)]
        assert all(not line[start - 1 : start].strip() for start in starts), f"not under a tick: {line}"
        found.append((line[: starts[0]].strip(), [cell.split(",") if cell else [] for cell in cells]))
    return [tick for _, tick in places], found


def value(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def atom(name: str, cell: str) -> Atom:
    return name, () if cell == "x" else tuple(map(value, cell.split("/")))


def text_of(name: str, cell: str) -> str:
    return name if cell == "x" else f"{name}({cell.replace('/', ', ')})"


@pytest.mark.parametrize(("program", "drawing"), DRAWN, ids=[f"line {each.line}" for each, _ in DRAWN])
def test_drawings(program: Block, drawing: Block) -> None:
    tree = read(Source(program.text, PAGE.name), SECOND)
    ticks, drawn = rows(drawing)
    stream: list[tuple[int, list[Atom]]] = [(tick, []) for tick in ticks]
    for name, cells in drawn:
        if name not in tree.derived and " seen at " not in name:
            for (_, atoms), cell in zip(stream, cells, strict=True):
                atoms += [atom(name, each) for each in cell]
    between = {"first": ticks[0], "last": ticks[-1]}
    found = dict(
        by_strata(tree, stream, **between) if strata(tree) else nearest(by_definition(tree, stream, **between))
    )
    shown = 0
    for name, cells in drawn:
        predicate, _, at = name.partition(" seen at ")
        if at:
            (answer,) = found[int(at)]
            places = {int(each.partition("@")[2] or at) for each in answer if each.partition("@")[0] == predicate}
            assert places == {tick for tick, cell in zip(ticks, cells, strict=True) if cell}, name
        elif predicate in tree.derived:
            for tick, cell in zip(ticks, cells, strict=True):
                (answer,) = found[tick]
                own = {each for each in answer if "@" not in each and each.partition("(")[0] == predicate}
                assert own == {text_of(predicate, each) for each in cell}, f"{name} at {tick}"
        shown += predicate in tree.derived
    assert shown, "nothing is drawn of what is derived"


def test_programs_are_read() -> None:
    for each in BLOCKS:
        if each.kind == "lars":
            read(Source(each.text, PAGE.name))
        elif each.kind == "laser":
            program = read_laser(Source(each.text, PAGE.name))
            assert read(Source(print_program(program))) == program
