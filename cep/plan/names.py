"""The author's text at a span, and the author's names for canonical ones (`v0`, `w0`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cep.core.errors import Source, Span
from cep.rules.expressions.checking import variables
from cep.rules.terms import Comparison, Condition, Disjunction, Expression, Predicate, Variable


def excerpt(source: Source, span: Span, longest: int = 60) -> str | None:
    """The text at a span on one line; None where it is not in the source, or is longer than `longest`."""
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
    """Return a name for a variable that no author wrote: `First` for `first'2`. Others keep theirs."""
    word, mark, _ = name.partition("'")
    return word.capitalize() if word and mark else name


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """The names, a second of the same with a number after it."""
    taken = _Taken()
    return tuple(map(taken.take, names))


class _Taken:
    """Names already given out; each is given out once."""

    def __init__(self) -> None:
        self.given: set[str] = set()
        self.numbers: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The name, with a number after it where it is taken."""
        chosen = name
        while chosen in self.given:
            self.numbers[name] = self.numbers.get(name, 1) + 1
            chosen = f"{name}{self.numbers[name]}"
        self.given.add(chosen)
        return chosen


def author_names(uses: Iterable[Expression | Condition], names: Sequence[str], source: Source) -> dict[str, str]:
    """The author's name for every canonical one: `names` those of the columns `v0`..., the others as they are written
    where they are used.
    """
    taken = _Taken()
    given = {f"v{place}": taken.take(name) for place, name in enumerate(names)}
    for variable in used_variables(uses):
        if variable.name not in given:
            text = excerpt(source, variable.span)
            given[variable.name] = taken.take(plain(variable.name) if text is None or not text.isidentifier() else text)
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
        case Disjunction(alternatives):
            return tuple(side for inside in alternatives for each in inside for side in operands(each))
        case _:
            return (use,)
