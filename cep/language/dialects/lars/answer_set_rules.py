"""Translation of LARS rules that depend on a cycle through negation into the text of an answer set program.

The parts of a body that do not depend on such a cycle become rules of their own. Their heads, for instance `asks.3`,
are the solver's input. LARS is defined by the FLP reduct, the solver by another one. Both agree here, because every
windowed literal (◇, □, @) is monotone in the derived atoms, and `not` negates it as a whole. Therefore such a literal
becomes an atom of its own, `w3`, with a rule (Faber, Leone, Pfeifer, 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cep.language.dialects.lars.answer_set_keys import KeyedRule, keys_of
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    BodyLiteral,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
)
from cep.language.dialects.lars.bodies import assigned, bound, connected, shared, variables_of
from cep.rules.answer_set_rules import AnswerSetRules, AskedWindow, Calculation, DerivedPredicate, symbol_text
from cep.rules.terms import Call, Comparison, Constant, Expression, Graph, Variable, expression_variables

ASKED = "asks."
"""Prefix of the predicates that hold the solver's input."""
BEGUN = f"{ASKED}begun"
"""The predicate that holds at every tick of the stream."""


@dataclass(frozen=True, slots=True)
class SplitProgram:
    """A program in two parts.

    `rest`: the rules without a cycle through negation, and one rule for each predicate of `inputs` except `BEGUN`.
    `inputs`: the relations that `rules` read, `BEGUN` first. `names`: the predicates that `rules` derive.
    """

    rest: LarsProgram
    rules: AnswerSetRules
    inputs: tuple[str, ...]
    names: tuple[str, ...]


Types = Callable[[LarsRule], Mapping[str, str]]
"""A function that returns the known types of a rule's variables."""


def split(program: LarsProgram, types: Types = lambda _: {}) -> SplitProgram | None:
    """Separate the rules that depend on a cycle through negation from the others. Return None if there are none."""
    names = beyond_cycles(program)
    if not names:
        return None
    writer = _Writer(program, {name: number for number, name in enumerate(sorted(names))}, types)
    mine = [rule for rule in program.rules if rule.head is None or rule.head.predicate in names]
    for rule in mine:
        writer.rule(rule)
    others = [rule for rule in program.rules if rule not in mine]
    rest = replace(program, rules=(*others, *writer.asking))
    return SplitProgram(rest, writer.written(), (BEGUN, *(each.head.predicate for each in writer.asking if each.head)),
                        tuple(sorted(names)))  # fmt: skip


def beyond_cycles(program: LarsProgram) -> frozenset[str]:
    """Return the predicates that depend on a cycle through `not` of a derived predicate, or `always` of one."""
    derived = program.derived
    asks: dict[str, set[str]] = {name: set() for name in derived}
    crossing: set[tuple[str, str]] = set()
    for rule in program.rules:
        for each in rule.body if rule.head is not None else ():
            if isinstance(each, LarsLiteral) and each.atom.predicate in derived:
                assert rule.head is not None, "of a rule with a head"
                asks[rule.head.predicate].add(each.atom.predicate)
                if each.negated or each.modality == EVERY:
                    crossing.add((rule.head.predicate, each.atom.predicate))
    reached = {name: _reached(name, asks) for name in derived}
    cyclic = {name for name, other in crossing if name in reached[other] or name == other}
    return frozenset(name for name in derived if name in cyclic or reached[name] & cyclic)


def _reached(name: str, asks: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = asks[waiting.pop()] - found
        found |= new
        waiting += new
    return found


@dataclass
class _Writer:
    """Writer of the solver's program. `numbers`: the number of each predicate that the solver derives."""

    program: LarsProgram
    numbers: dict[str, int]
    types: Types
    lines: list[str] = field(default_factory=list)
    asking: list[LarsRule] = field(default_factory=list)
    widths: list[int] = field(default_factory=lambda: [0])
    windows: list[AskedWindow] = field(default_factory=list)
    calculations: list[Calculation] = field(default_factory=list)
    aside: int = 0
    clocked: bool = False
    keyed: list[KeyedRule] = field(default_factory=list)
    denied: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        mine = [rule for rule in self.program.rules if rule.head is not None and rule.head.predicate in self.numbers]
        heads = [(rule, rule.head) for rule in mine if rule.head is not None]
        self.timed = {head.predicate for rule, head in heads if rule.at is not None}
        self.given = {head.predicate for rule, head in heads if rule.is_fact}
        self.arities = {head.predicate: len(head.arguments) for _, head in heads}

    def written(self) -> AnswerSetRules:
        derived = tuple(DerivedPredicate(name, self.arities[name], name in self.timed) for name in sorted(self.numbers))
        for number, each in enumerate(derived):
            self.lines.append(f"#show d{number}/{each.arity + each.timed}.")
        text = "".join(f"{line}\n" for line in self.lines)
        asked = tuple(self.windows)
        keys = None if self.given else keys_of(self.keyed, sorted(self.numbers), len(self.widths))
        return AnswerSetRules(text, tuple(self.widths), derived, asked, tuple(self.calculations), self.clocked, keys)

    def rule(self, rule: LarsRule) -> None:
        if rule.is_fact and rule.head is not None:
            head = rule.head
            values = [symbol_text(each.value) for each in head.arguments if isinstance(each, Constant)]
            assert len(values) == len(head.arguments), "a fact is of constants"
            self.lines.append(f"{_call(f'g{self.numbers[head.predicate]}', values)}.")
            return
        first, text = len(self.widths), _RuleText(self, rule)
        text.write()
        inputs = {number: self._variables(number) for number in range(first, len(self.widths))}
        self.keyed.append(KeyedRule(rule.head, tuple(text.mine), inputs, frozenset(self.denied)))

    def _variables(self, number: int) -> tuple[str, ...]:
        """Return the variables of an input relation."""
        head = self.asking[number - 1].head
        assert head is not None, "it is derived"
        return tuple(each.name for each in head.arguments if isinstance(each, Variable))

    def asked(self, variables: Sequence[str], body: Sequence[BodyLiteral], rule: LarsRule) -> str:
        """Create an input relation for the values of `variables` that satisfy `body`. Return its name in the solver's
        text."""
        head = LarsAtom(f"{ASKED}{len(self.widths)}", tuple(Variable(name) for name in variables), rule.span)
        self.asking.append(LarsRule(head, None, tuple(body), rule.span))
        self.widths.append(len(variables))
        return f"i{len(self.widths) - 1}"

    def window(self, window: TimeWindow) -> int:
        asked = AskedWindow(window.ticks, window.step)
        if asked not in self.windows:
            self.windows.append(asked)
        return self.windows.index(asked)


class _RuleText:
    """Builder for the solver's text of one rule."""

    def __init__(self, writer: _Writer, rule: LarsRule) -> None:
        self.writer, self.rule = writer, rule
        self.body: list[str] = []
        self.places: dict[str, str] = {}
        self.made = 0
        self.types = writer.types(rule)
        self.mine = [each for each in rule.body if isinstance(each, LarsLiteral) and self._is_mine(each)]
        self.ticks = {
            each.at.name for each in rule.body if isinstance(each, LarsLiteral) and isinstance(each.at, Variable)
        }

    def _is_mine(self, literal: LarsLiteral) -> bool:
        return literal.atom.predicate in self.writer.numbers

    def write(self) -> None:
        others = [each for each in self.rule.body if each not in self.mine]
        positive: list[BodyLiteral] = [each for each in others if not isinstance(each, Comparison) and not each.negated]
        denied = [each for each in others if not isinstance(each, Comparison) and each.negated]
        compared = [each for each in others if isinstance(each, Comparison)]
        known = {name for each in positive for name in bound(each)}
        positive, calculated = self._calls_apart(positive, known)
        compared = assigned(compared, known)
        groups = connected(positive)
        left: list[Comparison] = list(calculated)
        for each in compared:
            home = self._home(groups, each)
            home.append(each) if home is not None else left.append(each)
        outside: list[LarsLiteral | Graph] = []
        for other in denied:
            home = self._home(groups, other)
            home.append(other) if home is not None else outside.append(other)
        wanted = self._wanted(left, outside) | shared(groups)
        for group in groups:
            names = sorted({name for each in group for name in variables_of(each)} & wanted)
            self.body.append(_call(self.writer.asked(names, group, self.rule), [self._place(name) for name in names]))
        for comparison in left:
            self._comparison(comparison)
        for other in outside:
            self._denied(other)
        for literal in self.mine:
            self._own(literal)
        head = self._head()
        begun = self.body or ["i0"]
        self.writer.lines.append(f"{head} :- {', '.join(begun)}.".lstrip())

    def _wanted(self, left: Iterable[Comparison], outside: Iterable[LarsLiteral | Graph]) -> set[str]:
        wanted = {name for each in (*left, *outside, *self.mine) for name in variables_of(each)}
        if self.rule.head is not None:
            wanted |= {name for each in self.rule.head.arguments for name in expression_variables(each)}
        return wanted | set([] if self.rule.at is None else expression_variables(self.rule.at))

    @staticmethod
    def _home(groups: list[list[BodyLiteral]], each: BodyLiteral) -> list[BodyLiteral] | None:
        """Return the group that binds all variables of `each`, or None.

        For an equation with a variable alone on one side, it suffices to bind the variables of the other side.
        """
        needed = [set(variables_of(each))]
        if isinstance(each, Comparison) and each.operator == "=":
            sides = ((each.left, each.right), (each.right, each.left))
            needed += [set(expression_variables(other)) for one, other in sides if isinstance(one, Variable)]
        for names in needed:
            for group in groups:
                if names <= {name for other in group for name in variables_of(other)}:
                    return group
        return None

    def _calls_apart(self, positive: list[BodyLiteral], known: set[str]) -> tuple[list[BodyLiteral], list[Comparison]]:
        """Replace calculations by fresh variables if the literals do not bind the variables in them.

        Return the literals, and the equations of the fresh variables.
        """
        made: list[BodyLiteral] = []
        equal: list[Comparison] = []
        for each in positive:
            if not isinstance(each, LarsLiteral):
                made.append(each)
                continue
            terms: list[Expression] = []
            for term in (*each.atom.arguments, *([] if each.at is None else [each.at])):
                if isinstance(term, Call) and not set(expression_variables(term)) <= known:
                    name = self._fresh()
                    if term is each.at:
                        self.ticks.add(name)
                    equal.append(Comparison("=", Variable(name), term, term.span))
                    term = Variable(name)
                terms.append(term)
            at = None if each.at is None else terms.pop()
            made.append(replace(each, atom=replace(each.atom, arguments=tuple(terms)), at=at))
        return made, equal

    def _fresh(self) -> str:
        self.made += 1
        return f"Calculated.{self.made}"

    def _place(self, name: str) -> str:
        return self.places.setdefault(name, f"V{len(self.places)}")

    def _term(self, expression: Expression) -> str:
        """Return the text of a value. A calculation becomes a variable with an equation in the body."""
        match expression:
            case Variable("_"):
                return "_"
            case Variable(name):
                return self._place(name)
            case Constant(value):
                return symbol_text(value)
            case call:
                place = self._place(self._fresh())
                self.body.append(f"{place} = {self._calculated(call)}")
                return place

    def _calculated(self, of: Expression | Comparison) -> str:
        names = sorted(set(variables_of(of) if isinstance(of, Comparison) else expression_variables(of)))
        types = tuple("int" if name in self.ticks else self.types.get(name, "any") for name in names)
        self.writer.calculations.append(Calculation(tuple(names), types, of, of.span))
        values = [str(len(self.writer.calculations) - 1), *map(self._place, names)]
        return f"@c({', '.join(values)})"

    def _comparison(self, each: Comparison) -> None:
        sides = (each.left, each.right)
        simple = all(isinstance(side, Variable | Constant) for side in sides)
        if simple and each.operator in ("=", "!="):
            self.body.append(f"{self._term(each.left)} {each.operator} {self._term(each.right)}")
            return
        if each.operator == "=":
            for variable, other in (sides, sides[::-1]):
                if isinstance(variable, Variable):
                    self.body.append(f"{self._place(variable.name)} = {self._calculated(other)}")
                    if set(expression_variables(other)) <= self.ticks:
                        self.ticks.add(variable.name)
                    return
        self.body.append(f"{self._calculated(each)} = 1")

    def _denied(self, each: LarsLiteral | Graph) -> None:
        """Add `not` of an input relation, for a negated literal or graph pattern whose variables the solver binds."""
        if isinstance(each, Graph):
            asked: BodyLiteral = replace(each, negated=False)
            names = list(dict.fromkeys(each.variables))
            terms = [self._place(name) for name in names]
        else:
            terms, plain = self._plain(each)
            asked, names = plain, list(dict.fromkeys(variables_of(plain)))
        self.body.append(f"not {_call(self.writer.asked(names, [asked], self.rule), terms)}")
        self.writer.denied.add(len(self.writer.widths) - 1)

    def _plain(self, each: LarsLiteral) -> tuple[list[str], LarsLiteral]:
        """Remove `not` and calculations from a literal. Return the solver's variables, and the literal."""
        arguments: list[Expression] = []
        values: dict[str, str] = {}
        for term in (*each.atom.arguments, *([] if each.at is None else [each.at])):
            if isinstance(term, Call):
                place = self._term(term)
                name = next(name for name, known in self.places.items() if known == place)
                term = Variable(name)
            if isinstance(term, Variable) and term.name != "_":
                values[term.name] = self._place(term.name)
            arguments.append(term)
        at = None if each.at is None else arguments.pop()
        plain = replace(each, atom=replace(each.atom, arguments=tuple(arguments)), at=at, negated=False)
        return list(values.values()), plain

    def _own(self, each: LarsLiteral) -> None:
        """Add a literal over a predicate that the solver derives. It becomes an atom, or an auxiliary atom with its own
        rule."""
        plainly = not each.negated and each.modality != EVERY
        if plainly and each.atom.predicate not in self.writer.given:
            terms = [self._term(term) for term in each.atom.arguments]
            at = None if each.at is None else self._term(each.at)
            self.body += self._true(each, terms, at, f"A{self.made}x{len(self.body)}")
            return
        values, plain = self._plain(each)
        inner = _RuleText(self.writer, self.rule)
        names = dict.fromkeys(name for name in variables_of(plain))
        places = [inner._place(name) for name in names]
        terms = [
            f"L{number}" if term == Variable("_") else inner._term(term)
            for number, term in enumerate(plain.atom.arguments)
        ]
        at = None if plain.at is None else inner._term(plain.at)
        own = _call(f"a{self.writer.aside}", places)
        self.writer.aside += 1
        self.writer.lines.append(f"{own} :- {', '.join(inner._true(plain, terms, at, 'A'))}.")
        if each.modality == NOW and each.atom.predicate in self.writer.given:
            self.writer.lines.append(f"{own} :- {_call(f'g{self.writer.numbers[each.atom.predicate]}', terms)}.")
        self.body.append(f"{'not ' if each.negated else ''}{_call(own.partition('(')[0], values)}")

    def _true(self, each: LarsLiteral, terms: list[str], at: str | None, fresh: str) -> list[str]:
        """Return the atoms that express a literal without its `not`. `fresh`: a variable name that is not in use."""
        writer, name = self.writer, f"d{self.writer.numbers[each.atom.predicate]}"
        window = each.window
        assert window is None or isinstance(window, TimeWindow), "windows of tuples are over what comes in"
        if each.atom.predicate not in writer.timed:
            found = [_call(name, terms)]
            if each.modality == AT:
                writer.clocked = True
                found.append(f"now({at})")
            if isinstance(window, TimeWindow) and window.step > 1:
                found.append(f"n{writer.window(window)}")
            if isinstance(window, TimeWindow) and each.modality == EVERY and window.ticks:
                found.append(f"o{writer.window(window)}")
            return found
        writer.clocked = True
        if each.modality == NOW:
            return [_call(name, [*terms, fresh]), f"now({fresh})"]
        if window is None:
            return [_call(name, [*terms, at or fresh])]
        first, last = f"{fresh}F", f"{fresh}L"
        asked = f"w{writer.window(window)}({first}, {last})"
        if each.modality == EVERY:
            whole = f"{_call(name, [*terms, fresh])} : {fresh} = {first}..{last}"
            return [asked, f"{first} <= {last}", _call(name, [*terms, last]), whole]
        tick = at if each.modality == AT and at is not None else fresh
        assert each.modality in (SOME, AT), "asked in a window"
        return [_call(name, [*terms, tick]), asked, f"{first} <= {tick}", f"{tick} <= {last}"]

    def _head(self) -> str:
        head, writer = self.rule.head, self.writer
        if head is None:
            return ""
        terms = [self._term(each) for each in head.arguments]
        number = writer.numbers[head.predicate]
        if self.rule.at is not None:
            tick = self._term(self.rule.at)
            self.body += ["first(First)", f"{tick} >= First"]
            writer.clocked = True
            return _call(f"d{number}", [*terms, tick])
        if head.predicate in writer.given:
            self.body.append(f"not {_call(f'g{number}', terms)}")
        if head.predicate in writer.timed:
            self.body.append("now(Now)")
            writer.clocked = True
            terms = [*terms, "Now"]
        return _call(f"d{number}", terms)


def _call(name: str, terms: Sequence[str]) -> str:
    return f"{name}({', '.join(terms)})" if terms else name
