"""The least fixpoint of recursive static rules, by semi-naive evaluation.

Each round uses only the rows that are new since the previous round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cep.core.errors import CepError
from cep.core.relation import Column
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.expressions.checking import check, compile_expression
from cep.rules.expressions.evaluate import Evaluation
from cep.rules.static.materialized import MaterializedRelation, present
from cep.rules.static.rule_predicate import enter, fit_head
from cep.rules.static.semi_naive import rounds
from cep.rules.terms import Call, Condition, Predicate, StaticRule, each_condition

if TYPE_CHECKING:
    from cep.rules.static.datalog import Closing


_NewRows = dict[str, tuple[int, int]]
"""For each predicate, the range of the new rows in its table: the number of the first row, and the number after the
last."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule, prepared for evaluation on the new rows of one recursive predicate in its body.

    - `delta`: this predicate. If `delta` is None, the rule is evaluated only once.
    - `names`: for each column of the new rows, the variable that gets its values.
    - `types`: the types of these variables.
    - `conditions`: the other conditions of the body.
    """

    delta: str | None
    names: Mapping[int, str]
    types: Mapping[str, str]
    conditions: tuple[Condition, ...]


def entries(rule: StaticRule, tables: Mapping[str, MaterializedRelation]) -> Iterator[_Entry]:
    """Yield one entry for each recursive predicate in the rule's body. If the body contains no recursive predicate,
    yield a single entry, which is evaluated only once."""
    once = True
    for i, condition in enumerate(rule.conditions):
        if isinstance(condition, Predicate) and not condition.negated and condition.name in tables:
            once = False
            entry = enter(condition.arguments, range(len(condition.arguments)))
            types = {name: tables[condition.name].types[j] for j, name in entry.names.items()}
            rest = entry.conditions + rule.conditions[:i] + rule.conditions[i + 1 :]
            yield _Entry(condition.name, entry.names, types, rest)
    if once:
        yield _Entry(None, {}, {}, rule.conditions)


@dataclass(frozen=True, slots=True)
class _Variant:
    """An entry whose conditions and head are compiled."""

    name: str
    entry: _Entry
    conditions: Conditions
    head: tuple[Evaluation, ...]


class Fixpoint:
    """The evaluation of a group of predicates that depend on each other.

    Each round joins the new rows with all rows, until a round derives no new row.
    """

    def __init__(
        self,
        closing: Closing,
        tables: Mapping[str, MaterializedRelation],
        rules: Sequence[StaticRule],
        recursive: bool,
    ) -> None:
        self.closing = closing
        self.tables = tables
        self.rules = rules
        self.recursive = recursive

    def variant(self, rule: StaticRule, entry: _Entry) -> _Variant:
        pool, source = self.closing.pool, self.closing.source
        compiled = compile_conditions(entry.conditions, entry.types, self.closing.relations, pool, source)
        known = {**entry.types, **compiled.binds}
        head = tuple(
            compile_expression(fit_head(check(argument, known, source), type), pool)
            for argument, type in zip(rule.arguments, self.tables[rule.name].types)
        )
        return _Variant(rule.name, entry, compiled, head)

    def run(self) -> None:
        variants = [self.variant(rule, entry) for rule in self.rules for entry in entries(rule, self.tables)]
        for variant in variants:
            if variant.entry.delta is None:
                self.derive(variant, {}, 1)
        takers: dict[str, list[int]] = {}  # predicate -> the variants that read its new rows
        for number, variant in enumerate(variants):
            if variant.entry.delta is not None:
                takers.setdefault(variant.entry.delta, []).append(number)
        if not self.recursive:
            return
        done = dict.fromkeys(self.tables, 0)

        def since(grown: Iterable[str]) -> _NewRows:
            """Return the rows of the tables `grown` that no round has used yet, and mark them as used."""
            spans = {name: (done[name], self.tables[name].count) for name in grown}
            new = {name: (start, stop) for name, (start, stop) in spans.items() if stop > start}
            done.update((name, stop) for name, (_, stop) in new.items())
            return new

        def follows(new: _NewRows) -> _NewRows:
            grown: dict[str, None] = {}
            for number in sorted(taker for name in new for taker in takers.get(name, ())):
                variant = variants[number]
                delta = variant.entry.delta
                assert delta is not None, "it takes new rows"
                table, (start, stop) = self.tables[delta], new[delta]
                entry_columns = {name: table.column(i, start, stop) for i, name in variant.entry.names.items()}
                self.derive(variant, entry_columns, stop - start)
                grown[variant.name] = None
            return since(grown)

        makers = [rule for rule in self.rules if _makes_values(rule)]
        rows = 0
        for number, new in enumerate(rounds(since(self.tables), follows), 1):
            rows += sum(stop - start for start, stop in new.values())
            endless = bool(makers) and number > self.closing.max_rounds
            if endless or rows > self.closing.max_rows:
                raise self.endless(makers, number, rows)

    def derive(self, variant: _Variant, entry_columns: dict[str, Column], rows: int) -> None:
        index, binds = variant.conditions.answers(entry_columns, rows)
        columns = {name: column[index] for name, column in entry_columns.items()} | binds
        derived, rows = present([head(columns, len(index)) for head in variant.head], len(index))
        self.tables[variant.name].add(derived, rows)

    def endless(self, makers: Sequence[StaticRule], number: int, rows: int) -> CepError:
        rule = (makers or self.rules)[0]
        names = " and ".join(f"`{name}`" for name in self.tables)
        much = f"{rows} rows" if rows > self.closing.max_rows else f"{number - 1} rounds"
        message = f"the rules of {names} do not end: they were stopped after {much}"
        hint = "each round makes new values; add a condition that bounds them: `..., X < 1000`" if makers else None
        return self.closing.error(message, rule.span, hint, "endless")


def _makes_values(rule: StaticRule) -> bool:
    """Return True if a rule calls a function. Only such a rule can derive new values without end."""
    sides = list(rule.arguments)
    for condition in each_condition(rule.conditions):
        sides += condition.arguments if isinstance(condition, Predicate) else (condition.left, condition.right)
    return any(isinstance(side, Call) for side in sides)
