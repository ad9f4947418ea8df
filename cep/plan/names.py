"""The author's text at a position in the program, and the author's names for canonical names (`v0`, `w0`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cep.core.errors import Source, Span
from cep.rules.expressions.checking import variables
from cep.rules.terms import Comparison, Condition, Disjunction, Expression, Predicate, Variable


def excerpt(source: Source, span: Span, longest: int = 60) -> str | None:
    """Return the text at a span on one line.

    Return None if the text is not in the program, contains a comment, or is longer than `longest`.
    """
    words: list[str] = []
    for number in range(span.line, span.end_line + 1):
        begin = span.column - 1 if number == span.line else 0
        line = source.line(number)[begin : span.end_column - 1 if number == span.end_line else None]
        words += line.split()
        if sum(map(len, words)) > longest or "#" in line or "%" in line:
            return None
    text = " ".join(words)
    return text if 0 < len(text) <= longest else None


def plain(name: str) -> str:
    """Return a readable name for a generated variable: `First` for `first'2`. Other names are unchanged."""
    word, mark, _ = name.partition("'")
    return word.capitalize() if word and mark else name


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Append a number to each name that occurs earlier in `names`, so that all names are different."""
    taken = _Taken()
    return tuple(map(taken.take, names))


class _Taken:
    """A set of names that are in use. `take` returns each name only once."""

    def __init__(self) -> None:
        self.given: set[str] = set()
        self.numbers: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return a name that is not in use: `name`, with a number appended if necessary."""
        chosen = name
        while chosen in self.given:
            self.numbers[name] = self.numbers.get(name, 1) + 1
            chosen = f"{name}{self.numbers[name]}"
        self.given.add(chosen)
        return chosen


def author_names(uses: Iterable[Expression | Condition], names: Sequence[str], source: Source) -> dict[str, str]:
    """Return the author's name for each canonical name.

    `uses`: expressions and conditions that contain the canonical names. `names`: the author's names of the columns
    `v0`... The names of other variables are read from the program.
    """
    taken = _Taken()
    chosen = {f"v{place}": taken.take(name) for place, name in enumerate(names)}
    for variable in used_variables(uses):
        if variable.name not in chosen:
            text = excerpt(source, variable.span)
            chosen[variable.name] = taken.take(
                plain(variable.name) if text is None or not text.isidentifier() else text
            )
    return chosen


def used_variables(uses: Iterable[Expression | Condition]) -> Iterator[Variable]:
    """Yield the variables in expressions and conditions in the order in which they are written, except `_`."""
    for use in uses:
        for expression in operands(use):
            yield from variables(expression)


def operands(use: Expression | Condition) -> tuple[Expression, ...]:
    """Return the expressions inside a condition. If `use` is itself an expression, return it."""
    match use:
        case Comparison(_, left, right):
            return (left, right)
        case Predicate(_, arguments):
            return arguments
        case Disjunction(alternatives):
            return tuple(side for inside in alternatives for nested in inside for side in operands(nested))
        case _:
            return (use,)
