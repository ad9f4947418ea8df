"""Random LARS programs as trees, their text, and streams for them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
    Window,
)
from cep.rules.terms import DIVIDED, Call, Comparison, Constant, Expression, Variable
from tests.reference_lars import Atom, Value, atom_text, value_text

INPUTS = {"a": 1, "b": 2, "c": 0, "d": 1}
FIXED = {"f": 1, "g": 2}
DERIVED = {"p": 0, "q": 1, "r": 1, "s": 2, "u": 0, "v": 1, "w": 1, "o": 1}
DOMAINS: list[list[Value]] = [[0, 1, 2], [0, 1], ["x", "y"], ["x", "A b", "x y"], [0.5, 1.5, 2.5]]
TICK = 1_000_000


@dataclass
class Maker:
    """`cyclic`: negation may go in circles; without, a predicate denies those of lower levels alone. `depth`: of rules
    how many literals they have at most."""

    random: Random
    cyclic: bool = False
    depth: int = 3
    windows: int = 3

    def __post_init__(self) -> None:
        self.values = self.random.choice(DOMAINS)
        names = list(DERIVED)
        self.random.shuffle(names)
        self.derived = names[: self.random.randint(1, 4)]
        self.chooses = self.cyclic and self.random.random() < 0.7
        if self.chooses:
            self.derived = ["w", "o", *(name for name in self.derived if name not in "wo")]

    @property
    def numbers(self) -> bool:
        return self.values[0] == 0

    def program(self) -> LarsProgram:
        names = self.derived[2:] if self.chooses else self.derived
        rules = [self.rule(name) for name in names for _ in range(self.random.choice((1, 1, 1, 2)))]
        rules += self.choice() if self.chooses else []
        if self.random.random() < 0.25:
            rules.append(self.rule(None))
        for name in self.random.sample(list(FIXED), self.random.choice((0, 0, 1, 2))):
            arguments = tuple(self.constant() for _ in range(FIXED[name]))
            rules.append(LarsRule(LarsAtom(name, arguments), None, ()))
        self.random.shuffle(rules)
        return LarsProgram(tuple(rules), (), TICK)

    def constant(self) -> Constant:
        return constant(self.random.choice(self.values))

    def rule(self, name: str | None) -> LarsRule:
        level = len(self.derived) if name is None else self.derived.index(name)
        bound: dict[str, str] = {}
        body: list[LarsLiteral | Comparison] = []
        for _ in range(self.random.choice((1, 1, 1, 2, 2, self.depth))):
            body.append(self.positive(level, bound))
        if self.random.random() < 0.3:
            body += self.comparison(bound)
        for _ in range(self.random.choice((0, 1, 1, 2) if self.cyclic else (0, 0, 0, 1, 1, 2))):
            body.append(self.negative(level, bound))
        self.random.shuffle(body)
        if name is None:
            return LarsRule(None, None, tuple(body))
        arguments = tuple(self.calculated(bound) for _ in range(DERIVED[name]))
        return LarsRule(LarsAtom(name, arguments), self.put(bound), tuple(body))

    def calculated(self, bound: dict[str, str]) -> Expression:
        """A value of a head."""
        found = self.term(bound)
        if self.numbers and isinstance(found, Variable) and self.random.random() < 0.1:
            return Call(self.random.choice("+-*"), (found, constant(1)))
        return found

    def choice(self) -> list[LarsRule]:
        """`w(X) :- .., not o(X). o(X) :- .., not w(X).`, where the denied may be asked in windows, too."""
        name = self.random.choice([name for name, arity in INPUTS.items() if arity == 1])
        tick = Variable("T")
        window = self.window(name, (Variable("X"),), False)
        at = self.random.random() < 0.4
        asked = LarsAtom(name, (Variable("X"),))
        body = LarsLiteral(asked, AT, tick, window) if at else LarsLiteral(asked, SOME, None, window)
        rules = []
        for one, other in (("w", "o"), ("o", "w")):
            denied = LarsAtom(other, (Variable("X"),))
            choice = self.random.random()
            if at and choice < 0.7:
                denial = LarsLiteral(denied, AT, tick, TimeWindow(9) if choice < 0.4 else None, True)
            else:
                modality = SOME if choice < 0.9 else EVERY
                denial = LarsLiteral(denied, modality, None, TimeWindow(self.random.randint(0, 2)), True)
                denial = LarsLiteral(denied, negated=True) if choice < 0.8 else denial
            head = LarsAtom(one, (Variable("X"),))
            rules.append(LarsRule(head, tick if at and self.random.random() < 0.8 else None, (body, denial)))
        return rules

    def put(self, bound: dict[str, str]) -> Expression | None:
        ticks = [Variable(each) for each, kind in bound.items() if kind == "tick"]
        chance = self.random.random()
        if chance < 0.05:
            return constant(self.random.randint(0, 9))
        if not ticks or chance < 0.45:
            return None
        tick = self.random.choice(ticks)
        if chance < 0.75:
            return tick
        return Call(self.random.choice("+-"), (tick, constant(self.random.randint(1, 2))))

    def term(self, bound: dict[str, str], fresh: bool = False) -> Expression:
        """A value; `fresh`: of a positive literal, which may bind a variable."""
        chance = self.random.random()
        known = [each for each, kind in bound.items() if kind == "value" or self.numbers]
        if fresh and chance < 0.5:
            name = self.random.choice("XYZ")
            bound[name] = "value"
            return Variable(name)
        if known and chance < 0.85:
            return Variable(self.random.choice(known))
        if fresh and chance < 0.9:
            return Variable("_")
        return self.constant()

    def window(self, name: str, arguments: tuple[Expression, ...], derived: bool) -> Window:
        chance = self.random.random()
        if derived or chance < 0.6:
            step = self.random.choice((1, 1, 1, 1, 2, 3))
            return TimeWindow(self.random.randint(0, self.windows + (step > 1)), step)
        names = [each.name for each in arguments if isinstance(each, Variable) and each.name != "_"]
        by = (self.random.choice(names),) if names and self.random.random() < 0.4 else None
        return TupleWindow(self.random.randint(1, 3), by)

    def positive(self, level: int, bound: dict[str, str]) -> LarsLiteral:
        chance = self.random.random()
        if chance < 0.1:
            name = self.random.choice(list(FIXED))
            atom = LarsAtom(name, tuple(self.term(bound, True) for _ in range(FIXED[name])))
            return LarsLiteral(atom)
        derived = chance < 0.4
        if derived:
            name = self.random.choice(self.derived[: level + 1 + self.random.randint(0, 1)])
            if self.derived.index(name) > level and not self.cyclic:
                name = self.random.choice(list(INPUTS))
                derived = False
        else:
            name = self.random.choice(list(INPUTS))
        arity = DERIVED[name] if derived else INPUTS[name]
        arguments = tuple(self.term(bound, True) for _ in range(arity))
        return self.literal(name, arguments, derived, bound, False)

    def negative(self, level: int, bound: dict[str, str]) -> LarsLiteral:
        below = self.derived if self.cyclic else self.derived[:level]
        derived = bool(below) and self.random.random() < (0.9 if self.cyclic else 0.6)
        name = self.random.choice(below) if derived else self.random.choice(list(INPUTS))
        arity = DERIVED[name] if derived else INPUTS[name]
        arguments = tuple(self.term(bound) for _ in range(arity))
        return self.literal(name, arguments, derived, bound, True)

    def literal(
        self, name: str, arguments: tuple[Expression, ...], derived: bool, bound: dict[str, str], negated: bool
    ) -> LarsLiteral:
        atom = LarsAtom(name, arguments)
        modality = self.random.choice((NOW, NOW, SOME, SOME, SOME, EVERY, AT, AT))
        if modality == NOW:
            return LarsLiteral(atom, negated=negated)
        if modality != AT:
            return LarsLiteral(atom, modality, None, self.window(name, arguments, derived), negated)
        window = None if self.random.random() < 0.15 else self.window(name, arguments, derived)
        return LarsLiteral(atom, AT, self.tick(bound, negated), window, negated)

    def tick(self, bound: dict[str, str], negated: bool) -> Expression:
        ticks = [each for each, kind in bound.items() if kind == "tick"]
        chance = self.random.random()
        if chance < 0.1 or (negated and not ticks):
            return constant(self.random.randint(0, 9))
        if not negated and (not ticks or chance < 0.6):
            names = [each for each in "TSU" if bound.get(each) != "value"]
            name = self.random.choice(names)
            bound[name] = "tick"
            return Variable(name)
        tick = Variable(self.random.choice(ticks))
        if chance < 0.8:
            return tick
        return Call(self.random.choice("+-"), (tick, constant(1)))

    def comparison(self, bound: dict[str, str]) -> list[Comparison]:
        ticks = [Variable(each) for each, kind in bound.items() if kind == "tick"]
        values = [Variable(each) for each, kind in bound.items() if kind == "value"]
        if ticks and self.random.random() < 0.6:
            one = self.random.choice(ticks)
            if self.random.random() < 0.4 and "V" not in bound:
                bound["V"] = "tick"
                moved = Call(self.random.choice("+-"), (one, constant(self.random.randint(1, 2))))
                return [Comparison("=", *self.random.choice([(Variable("V"), moved), (moved, Variable("V"))]))]
            other = self.random.choice(ticks)
            return [Comparison(self.random.choice(("<", "<=", "!=", ">", "=")), one, other)]
        if values:
            signs = ("<", "<=", "!=", "=", ">") if self.numbers else ("!=", "=")
            other = self.random.choice([*values, self.constant()])
            return [Comparison(self.random.choice(signs), self.random.choice(values), other)]
        return []

    def stream(self, ticks: int, many: int = 4) -> list[tuple[int, list[Atom]]]:
        """From some tick on; some ticks are idle."""
        start = self.random.choice((0, 0, 1, 4, 7))
        chosen = sorted(self.random.sample(range(start, start + ticks), self.random.randint(1, ticks)))
        return [(tick, [self.atom() for _ in range(self.random.randint(1, many))]) for tick in chosen]

    def atom(self) -> Atom:
        name = self.random.choice(list(INPUTS))
        return name, tuple(self.random.choice(self.values) for _ in range(INPUTS[name]))


def constant(value: Value) -> Constant:
    return Constant(value, {int: "int", float: "float", str: "string"}[type(value)])


def program_text(program: LarsProgram) -> str:
    """The program as a file."""
    return "".join(f"{rule_text(rule)}\n" for rule in program.rules)


def rule_text(rule: LarsRule) -> str:
    head = (
        ""
        if rule.head is None
        else atom_of(rule.head) + ("" if rule.tick is None else f" at {expression_text(rule.tick)}")
    )
    body = ", ".join(map(literal_text, rule.body))
    return f"{head} :- {body}.".lstrip() if body else f"{head}."


def literal_text(literal: object) -> str:
    if isinstance(literal, Comparison):
        return f"{expression_text(literal.left)} {literal.operator} {expression_text(literal.right)}"
    assert isinstance(literal, LarsLiteral)
    before = "not " if literal.negated else ""
    atom, window = (
        before + atom_of(literal.atom),
        "" if literal.window is None else f" in {window_text(literal.window)}",
    )
    match literal.modality:
        case "every":
            return f"{atom} always{window}"
        case "at":
            return f"{atom} at {expression_text(literal.tick)}{window}"
        case _:
            return f"{atom}{window}"


def window_text(window: Window) -> str:
    if isinstance(window, TimeWindow):
        return f"[{window.ticks}]" + (f" step {window.step}" if window.step > 1 else "")
    return f"[{window.atoms} #]" + (f" by {', '.join(window.by)}" if window.by else "")


def atom_of(atom: LarsAtom) -> str:
    return f"{atom.predicate}({', '.join(map(expression_text, atom.arguments))})" if atom.arguments else atom.predicate


def expression_text(expression: Expression) -> str:
    match expression:
        case Variable(name):
            return name
        case Constant(value):
            return value_text(value)
        case Call(function, (one, two)):
            sign = {"mod": "%", "**": "^", DIVIDED: "/"}.get(function, function)
            return f"{expression_text(one)} {sign} {expression_text(two)}"
    raise AssertionError(expression)


def stream_text(stream: list[tuple[int, list[Atom]]]) -> list[tuple[int, list[str]]]:
    """As `cep.lars.answers` takes it."""
    return [(tick, [atom_text(each) for each in atoms]) for tick, atoms in stream]
