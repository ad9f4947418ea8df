"""What the author wrote: the text at a span, and the author's names for canonical ones (`v0`, `w0`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cep.errors import Source, Span
from cep.expressions import variables
from cep.syntax.ast import Comparison, Condition, Expression, Predicate, Variable


def excerpt(source: Source, span: Span, longest: int = 60) -> str | None:
    """The text at a span on one line; None where it is not in the source, or is longer than `longest`."""
    lines = source.text.splitlines()[span.line - 1 : span.end_line]
    if not lines:
        return None
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    text = " ".join(" ".join(lines).split())
    return text if 0 < len(text) <= longest and not any("#" in line or "%" in line for line in lines) else None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, a second of the same with a number after it."""
    made: list[str] = []
    for name in names:
        number, chosen = 2, name
        while chosen in made:
            chosen, number = f"{name}{number}", number + 1
        made.append(chosen)
    return tuple(made)


def author_names(uses: Iterable[Expression | Condition], names: Sequence[str], source: Source) -> dict[str, str]:
    """The author's name for every canonical one: `names` those of the columns `v0`..., the others as they are written
    where they are used.
    """
    given = {f"v{place}": name for place, name in enumerate(distinct(names))}
    for variable in used_variables(uses):
        if variable.name not in given:
            text = excerpt(source, variable.span)
            known = [*given.values(), variable.name if text is None or not text.isidentifier() else text]
            given[variable.name] = distinct(known)[-1]
    return given


def used_variables(uses: Iterable[Expression | Condition]) -> Iterator[Variable]:
    """The variables of expressions and conditions but the anonymous, as they are written."""
    for use in uses:
        for expression in operands(use):
            yield from variables(expression)


def operands(use: Expression | Condition) -> tuple[Expression, ...]:
    """The expressions of a condition; an expression is its own."""
    match use:
        case Comparison(_, left, right):
            return (left, right)
        case Predicate(_, arguments):
            return arguments
        case _:
            return (use,)
