"""Run LARS programs on streams of atoms written as text, and return the derived atoms at each tick.

```python
from cep.lars import answers

for tick, models in answers("high :- alpha [2].", [(0, ["alpha"])], last=4):
    print(tick, [sorted(model) for model in models])
```

Source of the semantics: Beck, Eiter and Folie, *Ticker* (2017), Definition 4; `docs/lars.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from operator import index
from typing import SupportsIndex

import polars as pl

from cep.compile import CompileOptions, ReadProgram
from cep.connectors.records.times import of_duration
from cep.core.errors import CepError, Source
from cep.core.fluents import HOLDS, INCONSISTENT
from cep.engine import Engine
from cep.events import Iri, Value
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.dialects.lars.ast import LarsAtom, LarsProgram, LarsRule
from cep.language.dialects.lars.lowering import lowered
from cep.language.dialects.lars.programs import program_of
from cep.language.dialects.lars.reader import atom as read_atom
from cep.language.dialects.lars.relations import BEGINS, predicate_of
from cep.language.dialects.lars.safety import refuse_unsafe
from cep.language.dialects.lars.tokens import LarsCursor
from cep.language.syntax import ast
from cep.plan.types import grown
from cep.rules.printing import print_expression
from cep.rules.terms import Constant

Stream = Iterable[tuple[int, Sequence[str]]]
Atom = tuple[str, tuple[Constant, ...]]
Told = tuple[str | None, int | None]
"""A pair of an atom as text and the number of its answer stream. The number is None if the atom is in all answer
streams.

If the text is None, the number is the number of answer streams at the tick.
"""
TICK = 1
"""The length of a tick in microseconds inside this module, so that a time is the number of a tick."""
_NOTATIONS = ("lars", "laser")
_LASER = re.compile(r"\b(?:time_win|tuple_win|diamond|box)\s*\(")
_SYMBOL = re.compile(r"[a-z][A-Za-z0-9_]*")
_COLUMNS = {
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
    "string": pl.String,
    "iri": pl.String,
    "any": pl.Object,
}


def answers(
    program: str,
    stream: Stream,
    *,
    facts: Iterable[str] | None = None,
    first: int | None = None,
    last: int | None = None,
    models: int = 1,
    window: str = "n+1",
    tick: str | timedelta = "1 s",
    dialect: str | None = None,
) -> Iterator[tuple[int, list[frozenset[str]]]]:
    """Yield each tick and the answer streams at this tick: the derived atoms, without facts.

    An atom that is true at the current tick is written `q(1)`, and an atom that is true at tick 3 `q(1)@3`. Raises
    CepError if an argument or the program is not valid.

    Args:
        program: The text of the rules.
        stream: Pairs (tick, atoms) in order. Atoms are written as text, `p(1)`.
        facts: Atoms that are true at all ticks.
        first: The tick at which the stream begins, unless its first atoms are earlier. By default, the stream begins at
            the tick of its first atoms.
        last: The last tick to evaluate, by default the tick of the last atoms.
        models: The answer streams to return. 1: only the answer stream that is nearest to that of the previous tick.
            Another number n: at most n answer streams, sorted. 0: all answer streams.
        window: The number of ticks that a window of size n covers: `"n+1"` or `"n"`.
        tick: The length of a tick, for windows whose length has a unit, `[2 sec]`.
        dialect: `lars` for the syntax of Ticker, `laser` for rule strings of Laser. By default, the dialect is inferred
            from the text.
    """
    for option, number in (("first", first), ("last", last), ("models", models)):
        if not (_is_number(number) or (number is None and option != "models")):
            raise CepError(f"{option}: `{number!r}` is not a whole number", hint=f"`{option}=1`", code="option")
    if not isinstance(program, str):
        raise CepError(f"program: expected a text of rules, not {_kind(program)}", code="option")
    if window not in ("n+1", "n"):
        hint = 'use `window="n"`, or "n+1", the default'
        raise CepError(f"window: `{window}` is not a valid way to count", hint=hint, code="option")
    read = _read(Source(program, "<program>"), dialect, _microseconds(tick), window == "n")
    return _Run(read, program, _texts(facts or (), "facts"), _in_order(stream), first, last, models).answers()


def _is_number(value: object) -> bool:
    return isinstance(value, SupportsIndex) and not isinstance(value, bool)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _texts(atoms: object, where: str) -> list[str]:
    hint = '`["alpha(3)", "rtm50"]`'
    if isinstance(atoms, str) or not isinstance(atoms, Iterable):
        raise CepError(f"{where}: expected a list of atoms, not {_kind(atoms)}", hint=hint, code="option")
    texts = list(atoms)
    for atom in texts:
        if not isinstance(atom, str):
            raise CepError(f"{where}: `{atom!r}` is {_kind(atom)}; atoms must be texts", hint=hint, code="option")
    return texts


def _in_order(stream: object) -> list[tuple[int, list[str]]]:
    """Return the stream as a list of (tick, atoms). Raises CepError if it is malformed or not in order."""
    hint = 'a stream is `[(0, ["alpha(3)", "rtm50"]), (2, ["rtm50"])]`, its ticks in order'
    if isinstance(stream, str) or not isinstance(stream, Iterable):
        raise CepError(f"stream: {_kind(stream)} is not a list of ticks with atoms", hint=hint, code="option")
    steps: list[tuple[int, list[str]]] = []
    for place, entry in enumerate(stream, 1):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise CepError(f"stream: item {place} is not a tick and its atoms: `{entry!r}`", hint=hint, code="option")
        tick, atoms = entry
        if not _is_number(tick):
            message = f"stream: the tick of item {place} is not a whole number: `{tick!r}`"
            raise CepError(message, hint=hint, code="option")
        if steps and tick < steps[-1][0]:
            message = f"stream: tick {tick} of item {place} comes after tick {steps[-1][0]}"
            raise CepError(message, hint="sort the stream by its ticks", code="option")
        steps.append((index(tick), _texts(atoms, f"stream, item {place}")))
    return steps


def _read(source: Source, dialect: str | None, tick: int, counted: bool) -> LarsProgram:
    """Parse the program, and set the length of its tick to TICK. Raises CepError if the program is not valid."""
    if dialect not in (None, *_NOTATIONS):
        raise CepError(
            f"dialect: `{dialect}` is not a dialect of LARS", hint='use `dialect="lars"`, or "laser"', code="option"
        )
    try:
        program = program_of(source, f"{dialect or 'lars'}{'/n' if counted else ''}", tick)
    except CepError as error:
        if dialect is not None:
            raise
        try:
            program = program_of(source, f"laser{'/n' if counted else ''}", tick)
        except CepError as other:
            raise (other if _LASER.search(source.text) else error) from None
    return replace(program, tick=TICK)


def _microseconds(tick: str | timedelta) -> int:
    try:
        length = of_duration(tick) if isinstance(tick, str) else tick // timedelta(microseconds=1)
    except (TypeError, ValueError):
        length = 0
    if length <= 0:
        hint = 'use a duration like `tick="1 s"` or `"100 ms"`'
        raise CepError(f"tick: `{tick}` is not a valid duration", hint=hint, code="option")
    return length


class _Run:
    def __init__(
        self,
        read: LarsProgram,
        text: str,
        facts: Sequence[str],
        stream: Sequence[tuple[int, Sequence[str]]],
        first: int | None,
        last: int | None,
        models: int,
    ) -> None:
        self.read_atoms: dict[str, Atom] = {}
        self.models = models
        source = Source(text, "<program>")
        self.program = self._with_facts(read, [self.atom(fact) for fact in facts])
        refuse_unsafe(self.program, source)
        steps = [(tick, [self.atom(atom) for atom in atoms]) for tick, atoms in stream]
        begins = [tick for tick in (first, steps[0][0] if steps else None) if tick is not None]
        self.first = min(begins, default=None)
        self.last = steps[-1][0] if last is None and steps else last
        if self.first is None or self.last is None:
            return
        self.stream = [(tick, atoms) for tick, atoms in steps if tick <= self.last]
        self.types = self._types(steps)
        tree = lowered(self._declared(), source, AnswerSetOptions(models))
        options = CompileOptions(dialect="lars", tick=TICK)
        compiled = ReadProgram(text, "<program>", "lars", TICK, tree).compiled(options)
        self.engine = Engine(compiled, lateness=None, until=self.last)
        self.arities = {
            rule.head.predicate: len(rule.head.arguments) for rule in self.program.rules if rule.head is not None
        }
        self.fixed = {
            self.text(
                rule.head.predicate,
                [argument.value for argument in rule.head.arguments if isinstance(argument, Constant)],
            )
            for rule in self.program.rules
            if rule.is_fact and rule.head is not None
        }

    @staticmethod
    def _with_facts(program: LarsProgram, facts: Sequence[Atom]) -> LarsProgram:
        more = tuple(LarsRule(LarsAtom(name, values), None, ()) for name, values in dict.fromkeys(facts))
        return replace(program, rules=(*program.rules, *more))

    def atom(self, text: str) -> Atom:
        """Parse an atom of the stream. Raises CepError if it is not an atom whose arguments are constants."""
        known = self.read_atoms.get(text)
        if known is None:
            cursor = LarsCursor(Source(text, "<atom>"), TICK)
            parsed = read_atom(cursor)
            values = tuple(argument for argument in parsed.arguments if isinstance(argument, Constant))
            if cursor.token.kind != "end" or len(values) < len(parsed.arguments):
                raise CepError(
                    f"`{text}` is not an atom", hint="an atom of a stream is `alpha(3)` or `rtm50`", code="syntax"
                )
            self.read_atoms[text] = known = (parsed.predicate, values)
        return known

    def _types(self, steps: Sequence[tuple[int, Sequence[Atom]]]) -> dict[str, tuple[str, ...]]:
        """Return the argument types of the input predicates.

        Raises CepError if the number or types of a predicate's arguments differ within the stream.
        """
        by_name: dict[str, tuple[str, ...]] = {}
        for name, values in dict.fromkeys(atom for _, atoms in steps for atom in atoms):
            types = tuple(value.type for value in values)
            before = by_name.setdefault(name, types)
            if len(before) != len(types):
                raise CepError(
                    f"`{name}` has {len(before)} arguments in one place of the stream, and {len(types)} in another",
                    hint="a predicate has the same number of arguments everywhere",
                    code="arity",
                )
            by_name[name] = tuple(map(grown, before, types))
        for name in by_name.keys() & self.program.derived:
            raise CepError(
                f"`{name}` is derived by a rule, so it cannot be in the stream",
                hint="rename one of them",
                code="unknown",
            )
        return by_name

    def _declared(self) -> LarsProgram:
        """Return the program with declarations of its input predicates."""
        declared = {
            declaration.name
            for declaration in self.program.declarations
            if isinstance(declaration, ast.EventDeclaration)
        }
        inputs = [
            ast.EventDeclaration(
                name, tuple(ast.AttributeTree(f"arg{index + 1}", type) for index, type in enumerate(types))
            )
            for name, types in self.types.items()
            if name not in declared
        ]
        begins = ast.EventDeclaration(BEGINS, ())
        return replace(self.program, declarations=(*self.program.declarations, *inputs, begins))

    def answers(self) -> Iterator[tuple[int, list[frozenset[str]]]]:
        if self.first is None or self.last is None:
            return
        self.engine.receive(self._tables())
        begin: dict[int, list[Told]] = {}
        end: dict[int, list[Told]] = {}
        for schema in self.engine.outputs.values():
            assert schema.fluent is not None and schema.fluent.part == HOLDS, "rules define fluents"
        for name, table in self.engine.close().items():
            for told, since, until in self._held(name, table):
                begin.setdefault(since, []).append(told)
                if until is not None:
                    end.setdefault(until, []).append(told)
        now: set[Told] = set()
        for tick in range(self.first, self.last + 1):
            now.difference_update(end.get(tick, ()))
            now.update(begin.get(tick, ()))
            yield tick, self._models(now)

    def _models(self, now: set[Told]) -> list[frozenset[str]]:
        counts = [model for text, model in now if text is None]
        every = [text for text, model in now if model is None and text is not None]
        texts: list[list[str]] = [list(every) for _ in range(counts[0] or 0 if counts else 1)]
        for text, model in now:
            if text is not None and model is not None:
                texts[model - 1].append(text)
        answers = [frozenset(atoms) for atoms in texts]
        return answers if len(answers) < 2 else sorted(answers, key=sorted)[: self.models or None]

    def _held(self, name: str, table: pl.DataFrame) -> Iterator[tuple[Told, int, int | None]]:
        """Yield the atoms and the numbers of answer streams that a result table of the engine contains, as pairs
        (`Told`).

        Each pair is followed by the first tick at which it is valid and the first tick at which it is no longer valid.
        """
        assert self.first is not None, "there is a stream"
        predicate = predicate_of(name)
        columns = [table[attribute.name].to_list() for attribute in self.engine.outputs[name].attributes]
        numbered = len(columns) > self.arities.get(predicate, len(columns)) + (predicate != name)
        for row, (since, until) in enumerate(zip(table["start"].to_list(), table["end"].to_list(), strict=True)):
            values = [column[row] for column in columns]
            if name == INCONSISTENT:
                yield (None, values[0]), since, until
                continue
            model = values.pop() if numbered else None
            instant = values.pop() if predicate != name else None
            text = self.text(predicate, values)
            if text in self.fixed:
                continue
            if instant is None:
                yield (text, model), since, until
                continue
            if since < instant:
                yield (f"{text}@{instant}", model), since, instant if until is None else min(instant, until)
            if until is None or until > instant + 1:
                yield (f"{text}@{instant}", model), max(since, instant + 1), until

    def _tables(self) -> dict[str, pl.DataFrame]:
        """Return the input stream as tables of events for the engine."""
        assert self.first is not None, "there is a stream"
        rows: dict[str, list[tuple[int, int, tuple[Constant, ...]]]] = {}
        position = count(1)
        for tick, atoms in self.stream:
            for name, values in atoms:
                rows.setdefault(name, []).append((tick, next(position), values))
        tables = {BEGINS: pl.DataFrame({"time": [self.first], "@order": [0]})}
        for name, entries in rows.items():
            schema = self.engine.inputs.get(name)
            if schema is None:
                continue
            columns: dict[str, pl.Series] = {
                "time": pl.Series([tick for tick, _, _ in entries], dtype=pl.Int64),
                "@order": pl.Series([place for _, place, _ in entries], dtype=pl.Int64),
            }
            for number, attribute in enumerate(schema.attributes):
                own = [row[2][number].value for row in entries]
                columns[attribute.name] = pl.Series(own, dtype=_COLUMNS.get(attribute.type), strict=False)
            tables[name] = pl.DataFrame(columns)
        return {name: table for name, table in tables.items() if name in self.engine.inputs}

    @staticmethod
    def text(name: str, values: Sequence[Value | None]) -> str:
        """Return an atom as text: `q(1, a, "A b")`."""
        return f"{name}({', '.join(map(_value, values))})" if values else name


def _value(value: Value | None) -> str:
    if isinstance(value, Iri):
        return f"<{value}>"
    if isinstance(value, str):
        return value if _SYMBOL.fullmatch(value) else print_expression(Constant(value, "string"))
    return str(value).lower() if isinstance(value, bool) else str(value)
