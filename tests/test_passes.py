"""The passes of the plan, one by one: a program, what a pass is given, and what it makes of it.

A file `tests/passes/<pass>/<what it shows>.txt` holds the three. `python -m pytest tests/test_passes.py --write` writes
the second and third part anew; a new file needs the first alone. Look at the difference before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from cep.core.values import Pool
from cep.language.dialects.etalis import lower
from cep.language.syntax.parser import parse
from cep.plan import horizon, order, safety, types
from cep.plan import plan as planning
from cep.plan.alerts import ill_placed
from cep.plan.binarise import binarise
from cep.plan.partition import partition
from cep.plan.pattern import Pattern
from cep.plan.plan import plan
from cep.rules.static.datalog import close

FOLDER = Path(__file__).parent / "passes"
BEFORE, AFTER = "--- before ---", "--- after ---"
FILES = sorted(FOLDER.rglob("*.txt"))


# --- the passes -------------------------------------------------------------------------------------------------------


class Planned:
    """A program at each stage of its planning, each made when it is asked for."""

    def __init__(self, text: str) -> None:
        self.pool = Pool()
        self.rules = lower(parse(text, "<program>"), None, {})
        rules = self.rules
        self.relations = close(rules.statics, {}, self.pool, rules.source, declared=rules.declared).relations

    @cached_property
    def safe(self) -> tuple[frozenset[int], Any]:
        return safety.unsafe(self.rules)

    @cached_property
    def nodes(self) -> Any:
        return binarise([rule for number, rule in enumerate(self.rules.rules) if number not in self.safe[0]])

    @cached_property
    def groups(self) -> Any:
        return order.order(self.nodes.nodes, self.nodes.heads, self.nodes.spans, self.rules.source)[0]

    @cached_property
    def typed(self) -> Any:
        rules = self.rules
        return types.infer(self.nodes, self.groups, rules.schemas, self.relations, self.pool, rules.source, False)

    @cached_property
    def whole(self) -> Any:
        return plan(self.rules, self.relations, self.pool, frozenset())

    # --- as text ---

    def lowered(self) -> Iterator[str]:
        for rule in self.rules.rules:
            yield f"{rule.event}({', '.join(map(show, rule.arguments))}) <-"
            yield from indented(tree(rule.body))

    def refused(self) -> Iterator[str]:
        refused, errors = self.safe
        yield f"refused: {', '.join(f'rule {number}' for number in sorted(refused)) or 'none'}"
        for error in errors:
            yield from str(error).splitlines()

    def shared(self) -> Iterator[str]:
        for number, node in enumerate(self.nodes.nodes):
            yield f"{number} {show(node)}"
        for head in self.nodes.heads:
            yield f"{head.event}({', '.join(map(show, head.arguments))}) <- {head.child}"

    def ordered(self) -> Iterator[str]:
        for group in self.groups:
            yield f"{'cycle' if group.recursive else 'one'}: {', '.join(map(str, group.units))}"
            for units, rounds in group.slices:
                yield f"    {'in rounds: ' if rounds else ''}{', '.join(map(str, units))}"

    def columns(self) -> Iterator[str]:
        for number, columns in enumerate(self.typed.columns):
            yield f"{number} ({', '.join(one.type + '?' * one.optional for one in columns)})"
        for name, schema in sorted(self.typed.schemas.items()):
            said = ", ".join(f"{each.name}: {each.type}" for each in schema.attributes)
            yield f"{name}({said})"

    def horizons(self) -> Iterator[str]:
        for number, node in enumerate(self.whole.nodes):
            keeps = horizon.horizon(node, self.whole.points)
            yield f"{number} {'instants' if self.whole.points[number] else 'intervals'}, {show(keeps)}"

    def misplaced(self) -> Iterator[str]:
        rules = self.rules
        for error in ill_placed(rules.alerts, rules.rules, self.typed.schemas, rules.source):
            yield from str(error).splitlines()

    def warned(self) -> Iterator[str]:
        for warning in self.whole.warnings:
            yield from str(warning).splitlines()

    def stages(self) -> Iterator[str]:
        for stage in partition(self.whole):
            yield f"stage {stage.number}, {'by key' if stage.keyed else 'in one place'}: rules {show(stage.rules)}"
            for event, route in sorted(stage.inputs.items()):
                yield f"    takes {event}, {show(route)}"
            yield f"    makes {', '.join(stage.outputs)}"
            for reason in stage.reasons:
                yield f"    rule {reason.rule}: {reason.text}"


Lines = Callable[[Planned], Iterable[str]]
PASSES: dict[str, tuple[Lines, Lines]] = {
    "safe": (Planned.lowered, Planned.refused),
    "binarise": (Planned.lowered, Planned.shared),
    "order": (Planned.shared, Planned.ordered),
    "types": (Planned.shared, Planned.columns),
    "alerts": (Planned.columns, Planned.misplaced),
    "horizon": (Planned.shared, Planned.horizons),
    "lint": (Planned.lowered, Planned.warned),
    "partition": (Planned.shared, Planned.stages),
}
"""What is shown of a program before a pass and after it."""


# --- plans as text ----------------------------------------------------------------------------------------------------


def show(value: Any) -> str:
    """A value on one line; of a record what is not empty, without its place in the text."""
    match type(value).__name__:
        case "Variable":
            return str(value.name)
        case "Constant":
            return repr(value.value)
        case "tuple" | "list":
            return f"[{', '.join(map(show, value))}]"
        case "str":
            return str(value)
    if not is_dataclass(value):
        return repr(value)
    shown = [f"{name}={show(part)}" for name, part in parts(value)]
    return f"{type(value).__name__}({', '.join(shown)})"


def tree(value: Any) -> Iterator[str]:
    """A pattern, the patterns in it below it."""
    below = [(name, part) for name, part in parts(value) if is_pattern(part)]
    lists = [(name, part) for name, part in parts(value) if isinstance(part, tuple) and part and is_pattern(part[0])]
    own = [(name, part) for name, part in parts(value) if (name, part) not in below + lists]
    yield " ".join([type(value).__name__, *(f"{name}={show(part)}" for name, part in own)])
    for name, part in [*below, *((name, one) for name, many in lists for one in many)]:
        first, *rest = tree(part)
        yield from indented([f"{name}: {first}", *rest])


def is_pattern(value: Any) -> bool:
    return isinstance(value, Pattern)


def parts(value: Any) -> list[tuple[str, Any]]:
    found = [(each.name, getattr(value, each.name)) for each in fields(value) if each.compare]
    return [(name, part) for name, part in found if part is not None and part is not False and part != ()]


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


# --- the files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fixture:
    """A program, and what is shown of it."""

    program: str
    before: str
    after: str

    @classmethod
    def read(cls, text: str) -> Fixture:
        program, _, rest = text.partition(f"{BEFORE}\n")
        before, _, after = rest.partition(f"{AFTER}\n")
        return cls(program.rstrip("\n") + "\n", before, after)

    @classmethod
    def made(cls, name: str, program: str) -> Fixture:
        planned = Planned(program)
        before, after = ("".join(f"{line}\n" for line in lines(planned)) for lines in PASSES[name])
        return cls(program, before, after)

    def __str__(self) -> str:
        return f"{self.program}{BEFORE}\n{self.before}{AFTER}\n{self.after}"


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_pass(path: Path, pytestconfig: pytest.Config) -> None:
    given = Fixture.read(path.read_text())
    made = Fixture.made(path.parent.name, given.program)
    if pytestconfig.getoption("write"):
        path.write_text(str(made))
    else:
        assert str(given) == str(made), f"`python -m pytest {Path(__file__).name} --write` writes it anew"


def test_every_pass_has_a_fixture_and_every_fixture_a_pass() -> None:
    assert {path.parent.name for path in FILES} == set(PASSES)
    assert list(PASSES) == [*(each.name for each in planning.PASSES), "partition"]


def test_the_architecture_lists_the_passes_in_their_order() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    rows = text.partition("## The passes of the plan")[2].partition("\n## ")[0].splitlines()
    said = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows if row.startswith("| `")]
    assert said == [(f"`{each.name}`", each.does) for each in planning.PASSES]
