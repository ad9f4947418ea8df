"""Translation of LARS rules that depend on a cycle through negation into the text of an answer set program.

The parts of a body that do not depend on such a cycle become separate rules. The atoms that these rules derive, for
instance of the predicate `asks.3`, are the solver's input.

LARS uses the FLP reduct, but the solver uses another one. Both have the same result here, because every windowed
literal (◇, □, @) is monotone in the derived atoms, and `not` negates it as a whole (Faber, Leone, Pfeifer, 2004).
Therefore such a literal can become an auxiliary atom, for instance `w3`, that a rule defines.
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
"""The prefix of the names of predicates that contain the solver's input."""
BEGUN = f"{ASKED}begun"
"""The predicate that holds at every tick of the stream."""


@dataclass(frozen=True, slots=True)
class SplitProgram:
    """A program in two parts: the rules for the engine and the rules for the solver.

    - `rest`: the rules that do not depend on a cycle through negation, and for each predicate in `inputs` except
      `BEGUN` one rule that derives its atoms.
    - `rules`: the rules for the solver.
    - `inputs`: the predicates whose atoms the solver reads. The first is `BEGUN`.
    - `names`: the predicates that the solver derives.
    """

    rest: LarsProgram
    rules: AnswerSetRules
    inputs: tuple[str, ...]
    names: tuple[str, ...]


Types = Callable[[LarsRule], Mapping[str, str]]
"""A function that returns the types of a rule's variables, as far as they are known."""


def split(program: LarsProgram, types: Types = lambda _: {}) -> SplitProgram | None:
    """Separate the rules that depend on a cycle through negation from the other rules. Return None if no rule does."""
    names = beyond_cycles(program)
    if not names:
        return None
    writer = _Writer(program, {name: number for number, name in enumerate(sorted(names))}, types)
    mine = [rule for rule in program.rules if rule.head is None or rule.head.predicate in names]
    for rule in mine:
        writer.rule(rule)
    others = [rule for rule in program.rules if rule not in mine]
    rest = replace(program, rules=(*others, *writer.asking))
    return SplitProgram(rest, writer.written(), (BEGUN, *(rule.head.predicate for rule in writer.asking if rule.head)),
                        tuple(sorted(names)))  # fmt: skip


def beyond_cycles(program: LarsProgram) -> frozenset[str]:
    """Return the predicates that depend on a cycle in which `not` or `always` applies to a derived predicate."""
    derived = program.derived
    asks: dict[str, set[str]] = {name: set() for name in derived}
    crossing: set[tuple[str, str]] = set()
    for rule in program.rules:
        for element in rule.body if rule.head is not None else ():
            if isinstance(element, LarsLiteral) and element.atom.predicate in derived:
                assert rule.head is not None, "of a rule with a head"
                asks[rule.head.predicate].add(element.atom.predicate)
                if element.negated or element.modality == EVERY:
                    crossing.add((rule.head.predicate, element.atom.predicate))
    reached = {name: _reached(name, asks) for name in derived}
    cyclic = {name for name, other in crossing if name in reached[other] or name == other}
    return frozenset(name for name in derived if name in cyclic or reached[name] & cyclic)


def _reached(name: str, asks: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = asks[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


@dataclass
class _Writer:
    """Writer of the solver's program. `numbers`: for each predicate that the solver derives, its number."""

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
        self.timed = {head.predicate for rule, head in heads if rule.tick is not None}
        self.given = {head.predicate for rule, head in heads if rule.is_fact}
        self.arities = {head.predicate: len(head.arguments) for _, head in heads}

    def written(self) -> AnswerSetRules:
        derived = tuple(DerivedPredicate(name, self.arities[name], name in self.timed) for name in sorted(self.numbers))
        for number, predicate in enumerate(derived):
            self.lines.append(f"#show d{number}/{predicate.arity + predicate.timed}.")
        text = "".join(f"{line}\n" for line in self.lines)
        asked = tuple(self.windows)
        keys = None if self.given else keys_of(self.keyed, sorted(self.numbers), len(self.widths))
        return AnswerSetRules(text, tuple(self.widths), derived, asked, tuple(self.calculations), self.clocked, keys)

    def rule(self, rule: LarsRule) -> None:
        if rule.is_fact and rule.head is not None:
            head = rule.head
            values = [symbol_text(argument.value) for argument in head.arguments if isinstance(argument, Constant)]
            assert len(values) == len(head.arguments), "a fact is of constants"
            self.lines.append(f"{_call(f'g{self.numbers[head.predicate]}', values)}.")
            return
        first, text = len(self.widths), _RuleText(self, rule)
        text.write()
        inputs = {number: self._variables(number) for number in range(first, len(self.widths))}
        self.keyed.append(KeyedRule(rule.head, tuple(text.mine), inputs, frozenset(self.denied)))

    def _variables(self, number: int) -> tuple[str, ...]:
        head = self.asking[number - 1].head
        assert head is not None, "it is derived"
        return tuple(argument.name for argument in head.arguments if isinstance(argument, Variable))

    def asked(self, variables: Sequence[str], body: Sequence[BodyLiteral], rule: LarsRule) -> str:
        """Create an input relation that contains the values of `variables` for which `body` is true. Return the name of
        this relation in the solver's text."""
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
        self.mine = [element for element in rule.body if isinstance(element, LarsLiteral) and self._is_mine(element)]
        self.ticks = {
            element.tick.name
            for element in rule.body
            if isinstance(element, LarsLiteral) and isinstance(element.tick, Variable)
        }

    def _is_mine(self, literal: LarsLiteral) -> bool:
        return literal.atom.predicate in self.writer.numbers

    def write(self) -> None:
        others = [element for element in self.rule.body if element not in self.mine]
        positive: list[BodyLiteral] = [
            other for other in others if not isinstance(other, Comparison) and not other.negated
        ]
        denied = [other for other in others if not isinstance(other, Comparison) and other.negated]
        compared = [other for other in others if isinstance(other, Comparison)]
        known = {name for element in positive for name in bound(element)}
        positive, calculated = self._calls_apart(positive, known)
        compared = assigned(compared, known)
        groups = connected(positive)
        left: list[Comparison] = list(calculated)
        for equation in compared:
            home = self._home(groups, equation)
            home.append(equation) if home is not None else left.append(equation)
        outside: list[LarsLiteral | Graph] = []
        for other in denied:
            home = self._home(groups, other)
            home.append(other) if home is not None else outside.append(other)
        wanted = self._wanted(left, outside) | shared(groups)
        for group in groups:
            names = sorted({name for element in group for name in variables_of(element)} & wanted)
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
        wanted = {name for element in (*left, *outside, *self.mine) for name in variables_of(element)}
        if self.rule.head is not None:
            wanted |= {name for argument in self.rule.head.arguments for name in expression_variables(argument)}
        return wanted | set([] if self.rule.tick is None else expression_variables(self.rule.tick))

    @staticmethod
    def _home(groups: list[list[BodyLiteral]], element: BodyLiteral) -> list[BodyLiteral] | None:
        """Return the group of literals that binds all variables of `element`, or None if no group does.

        If `element` is an equation that has a single variable on one side, it is enough that the group binds the
        variables of the other side.
        """
        needed = [set(variables_of(element))]
        if isinstance(element, Comparison) and element.operator == "=":
            sides = ((element.left, element.right), (element.right, element.left))
            needed += [set(expression_variables(other)) for side, other in sides if isinstance(side, Variable)]
        for names in needed:
            for group in groups:
                if names <= {name for other in group for name in variables_of(other)}:
                    return group
        return None

    def _calls_apart(self, positive: list[BodyLiteral], known: set[str]) -> tuple[list[BodyLiteral], list[Comparison]]:
        """Replace each calculation in `positive` by a fresh variable, unless these literals bind all variables of the
        calculation.

        Return the literals, and the equations that define the fresh variables.
        """
        elements: list[BodyLiteral] = []
        equal: list[Comparison] = []
        for element in positive:
            if not isinstance(element, LarsLiteral):
                elements.append(element)
                continue
            terms: list[Expression] = []
            for term in (*element.atom.arguments, *([] if element.tick is None else [element.tick])):
                if isinstance(term, Call) and not set(expression_variables(term)) <= known:
                    name = self._fresh()
                    if term is element.tick:
                        self.ticks.add(name)
                    equal.append(Comparison("=", Variable(name), term, term.span))
                    term = Variable(name)
                terms.append(term)
            instant = None if element.tick is None else terms.pop()
            elements.append(replace(element, atom=replace(element.atom, arguments=tuple(terms)), tick=instant))
        return elements, equal

    def _fresh(self) -> str:
        self.made += 1
        return f"Calculated.{self.made}"

    def _place(self, name: str) -> str:
        return self.places.setdefault(name, f"V{len(self.places)}")

    def _term(self, expression: Expression) -> str:
        """Return the solver's text of a value. If the value is a calculation, return a variable, and add an equation
        for this variable to the body."""
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

    def _comparison(self, comparison: Comparison) -> None:
        sides = (comparison.left, comparison.right)
        simple = all(isinstance(side, Variable | Constant) for side in sides)
        if simple and comparison.operator in ("=", "!="):
            self.body.append(f"{self._term(comparison.left)} {comparison.operator} {self._term(comparison.right)}")
            return
        if comparison.operator == "=":
            for variable, other in (sides, sides[::-1]):
                if isinstance(variable, Variable):
                    self.body.append(f"{self._place(variable.name)} = {self._calculated(other)}")
                    if set(expression_variables(other)) <= self.ticks:
                        self.ticks.add(variable.name)
                    return
        self.body.append(f"{self._calculated(comparison)} = 1")

    def _denied(self, element: LarsLiteral | Graph) -> None:
        if isinstance(element, Graph):
            asked: BodyLiteral = replace(element, negated=False)
            names = list(dict.fromkeys(element.variables))
            terms = [self._place(name) for name in names]
        else:
            terms, plain = self._plain(element)
            asked, names = plain, list(dict.fromkeys(variables_of(plain)))
        self.body.append(f"not {_call(self.writer.asked(names, [asked], self.rule), terms)}")
        self.writer.denied.add(len(self.writer.widths) - 1)

    def _plain(self, literal: LarsLiteral) -> tuple[list[str], LarsLiteral]:
        """Remove `not` from a literal, and replace each calculation in it by a variable. Return the variables of the
        new literal, by their names in the solver's text, and the new literal."""
        arguments: list[Expression] = []
        values: dict[str, str] = {}
        for term in (*literal.atom.arguments, *([] if literal.tick is None else [literal.tick])):
            if isinstance(term, Call):
                place = self._term(term)
                name = next(name for name, known in self.places.items() if known == place)
                term = Variable(name)
            if isinstance(term, Variable) and term.name != "_":
                values[term.name] = self._place(term.name)
            arguments.append(term)
        instant = None if literal.tick is None else arguments.pop()
        plain = replace(literal, atom=replace(literal.atom, arguments=tuple(arguments)), tick=instant, negated=False)
        return list(values.values()), plain

    def _own(self, literal: LarsLiteral) -> None:
        """Add a literal over a predicate that the solver derives. It becomes an atom, or an auxiliary atom that a new
        rule defines."""
        plainly = not literal.negated and literal.modality != EVERY
        if plainly and literal.atom.predicate not in self.writer.given:
            terms = [self._term(term) for term in literal.atom.arguments]
            instant = None if literal.tick is None else self._term(literal.tick)
            self.body += self._true(literal, terms, instant, f"A{self.made}x{len(self.body)}")
            return
        values, plain = self._plain(literal)
        inner = _RuleText(self.writer, self.rule)
        names = dict.fromkeys(name for name in variables_of(plain))
        places = [inner._place(name) for name in names]
        terms = [
            f"L{number}" if term == Variable("_") else inner._term(term)
            for number, term in enumerate(plain.atom.arguments)
        ]
        instant = None if plain.tick is None else inner._term(plain.tick)
        own = _call(f"a{self.writer.aside}", places)
        self.writer.aside += 1
        self.writer.lines.append(f"{own} :- {', '.join(inner._true(plain, terms, instant, 'A'))}.")
        if literal.modality == NOW and literal.atom.predicate in self.writer.given:
            self.writer.lines.append(f"{own} :- {_call(f'g{self.writer.numbers[literal.atom.predicate]}', terms)}.")
        self.body.append(f"{'not ' if literal.negated else ''}{_call(own.partition('(')[0], values)}")

    def _true(self, literal: LarsLiteral, terms: list[str], instant: str | None, fresh: str) -> list[str]:
        """Return atoms that mean the same as a literal without its `not`. `fresh`: an unused variable name."""
        writer, name = self.writer, f"d{self.writer.numbers[literal.atom.predicate]}"
        window = literal.window
        assert window is None or isinstance(window, TimeWindow), "windows of tuples are over what comes in"
        if literal.atom.predicate not in writer.timed:
            atoms = [_call(name, terms)]
            if literal.modality == AT:
                writer.clocked = True
                atoms.append(f"now({instant})")
            if isinstance(window, TimeWindow) and window.step > 1:
                atoms.append(f"n{writer.window(window)}")
            if isinstance(window, TimeWindow) and literal.modality == EVERY and window.ticks:
                atoms.append(f"o{writer.window(window)}")
            return atoms
        writer.clocked = True
        if literal.modality == NOW:
            return [_call(name, [*terms, fresh]), f"now({fresh})"]
        if window is None:
            return [_call(name, [*terms, instant or fresh])]
        first, last = f"{fresh}F", f"{fresh}L"
        asked = f"w{writer.window(window)}({first}, {last})"
        if literal.modality == EVERY:
            whole = f"{_call(name, [*terms, fresh])} : {fresh} = {first}..{last}"
            return [asked, f"{first} <= {last}", _call(name, [*terms, last]), whole]
        tick = instant if literal.modality == AT and instant is not None else fresh
        assert literal.modality in (SOME, AT), "asked in a window"
        return [_call(name, [*terms, tick]), asked, f"{first} <= {tick}", f"{tick} <= {last}"]

    def _head(self) -> str:
        head, writer = self.rule.head, self.writer
        if head is None:
            return ""
        terms = [self._term(argument) for argument in head.arguments]
        number = writer.numbers[head.predicate]
        if self.rule.tick is not None:
            tick = self._term(self.rule.tick)
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
