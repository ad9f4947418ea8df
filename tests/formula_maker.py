"""Random rules of defined fluents with any nesting, and their text.

They use the events `a(k, x)` and `b(k, x)`, events with intervals `trip(k, x)`, the simple fluents f(k), h(k) and g(k)
= v, w(k) = v of `tests/test_fluents.py`, and each other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.reference_formulas import (
    Aggregate,
    And,
    Asked,
    Formula,
    Lasting,
    Or,
    Plain,
    Rule,
    Term,
    Timed,
    Var,
    Where,
    parts_of,
    variables,
)
from tests.reference_times import Reach

FEATURES = frozenset(
    """AND NOT OR ONCE HISTORICALLY SINCE EVENTUALLY ALWAYS UNTIL
    LASTING WHERE AGGREGATE WITHIN BOXES VALUES INF""".split()  # noqa: SIM905
)
"""What rules are made of."""
STRINGS, INTEGERS = ("K", "L"), ("X", "Y", "N")
EVENTS = ("a", "b")
SIMPLE, VALUED = ("f", "h"), ("g", "w")


class Maker:
    """Rules of some FEATURES. `known`: fluents by name with the types of their arguments, "s" or "i", and whether the
    last is a value."""

    def __init__(self, rng: random.Random, features: frozenset[str] = FEATURES) -> None:
        self.rng = rng
        self.features = features
        self.fresh = 0
        self.cycle: frozenset[str] = frozenset()
        self.outside: frozenset[str] = frozenset()
        self.known: dict[str, tuple[str, bool]] = dict.fromkeys(SIMPLE, ("s", False))
        self.known |= dict.fromkeys(VALUED, ("si", True))

    def rules(self, count: int, depth: int, first: int = 0) -> list[Rule]:
        """Of fluents d0, d1, .., or from another number on, of which each may be of those before."""
        made: list[Rule] = []
        for number in range(first, first + count):
            name = f"d{number}"
            types = self.rng.choice(("s", "s", "si", "si", "ss", "i"))
            valued = types == "si" and "VALUES" in self.features and self.rng.random() < 0.3
            for _ in range(self.rng.choice((1, 1, 2))):
                made.append(self.rule(name, types, valued, depth))
            self.known[name] = (types, valued)
        return made

    def recursion(self, count: int, depth: int, first: int = 0, outside: frozenset[str] = frozenset()) -> list[Rule]:
        """Make rules of fluents d0, d1, .., or from another number on, of which each may be of all of them.

        `outside`: the features of what asks none of them. If there are any, some formulas and parts of formulas are so.
        """
        names = [f"d{number}" for number in range(first, first + count)]
        for name in names:
            self.known[name] = (self.rng.choice(("s", "s", "si", "ss", "ss", "i")), False)
        self.cycle, self.outside = frozenset(names), outside
        made = []
        for name in names:
            for _ in range(self.rng.choice((1, 2, 2, 3))):
                made.append(self.rule(name, self.known[name][0], False, depth))
        self.cycle, self.outside = frozenset(), frozenset()
        return made

    def rule(self, name: str, types: str, valued: bool, depth: int) -> Rule:
        names = self.names(types)
        terms: list[Term] = [Var(each) for each in names]
        if self.rng.random() < 0.1:
            place = self.rng.randrange(len(terms))
            terms[place] = self.constant(types[place])
        wanted = {term.name for term in terms if isinstance(term, Var)} | ({"K"} if self.rng.random() < 0.2 else set())
        boxes = []
        if "BOXES" in self.features and self.rng.random() < 0.2:
            words = ("ALWAYS", "HISTORICALLY") if "EVENTUALLY" in self.features else ("ALWAYS",)
            boxes = [(self.rng.choice(words), self.reach(False)) for _ in range(self.rng.choice((1, 1, 2)))]
        return Rule(name, tuple(terms), valued, self.formula(wanted or {"K"}, depth), tuple(boxes))

    def names(self, types: str) -> list[str]:
        strings, integers = iter(STRINGS), iter(INTEGERS)
        return [next(strings) if type == "s" else next(integers) for type in types]

    def constant(self, type: str) -> Term:
        return self.rng.choice("pq") if type == "s" else self.rng.randint(0, 2)

    def reach(self, endless: bool = True) -> Reach:
        low = self.rng.choice((0, 0, 0, 1, 2, 3))
        high = low + self.rng.choice((0, 1, 2, 3, 5))
        if endless and "INF" in self.features and self.rng.random() < 0.15:
            return Reach(low, None, self.rng.choice(("[)", "()")))
        return Reach(low, high, "[]" if low == high else self.rng.choice(("[]", "[)", "(]", "()")))

    def own(self) -> str:
        self.fresh += 1
        return f"_{self.fresh}"

    def formula(self, wanted: set[str], depth: int) -> Formula:
        """One that binds just these variables, and `_` besides."""
        rng = self.rng
        if self.outside and rng.random() < 0.25:
            return self.apart(wanted, depth)
        if depth == 0:
            return self.leaf(wanted)
        kinds = ["AND", "AND", "NOT", "OR", "ONCE", "HISTORICALLY", "SINCE", "EVENTUALLY", "ALWAYS", "UNTIL", "LASTING"]
        kinds += ["WHERE", "AGGREGATE", "LEAF", "KNOWN", "KNOWN"]
        kind = rng.choice([each for each in kinds if each in self.features or each == "LEAF"])
        deeper = depth - 1
        match kind:
            case "AND" | "NOT":
                return self.conjunction(wanted, deeper, kind == "NOT")
            case "OR":
                return Or(tuple(self.formula(wanted, deeper) for _ in range(rng.choice((2, 2, 3)))))
            case "ONCE" | "HISTORICALLY" | "EVENTUALLY" | "ALWAYS":
                return Timed(kind, self.reach(), (self.formula(wanted, deeper),))
            case "SINCE" | "UNTIL":
                mine = set(rng.sample(sorted(wanted), rng.randint(1, len(wanted))))
                return Timed(kind, self.reach(), (self.without(mine, deeper), self.formula(wanted, deeper)))
            case "LASTING":
                return Lasting(self.formula(wanted, deeper), rng.randint(1, 6), rng.random() < 0.5)
            case "WHERE":
                return Where(
                    self.formula(wanted, deeper), tuple(self.condition(wanted) for _ in range(rng.choice((1, 2))))
                )
            case "KNOWN":
                return self.asked(wanted, deeper)
            case "AGGREGATE" if wanted & set(INTEGERS):
                return self.aggregate(wanted, deeper)
        return self.leaf(wanted)

    def apart(self, wanted: set[str], depth: int) -> Formula:
        """A formula that asks no fluent of the recursion."""
        before = self.features, self.outside, self.known
        self.features, self.outside = self.outside, frozenset()
        self.known = {name: of for name, of in self.known.items() if name not in self.cycle}
        made = self.formula(wanted, max(depth, 1))
        self.features, self.outside, self.known = before
        return made

    def without(self, wanted: set[str], depth: int) -> Formula:
        """A formula that has no `_` outside an OR or AGGREGATE: all its variables occur on the right of SINCE, too."""
        for _ in range(20):
            made = self.formula(wanted, depth)
            if not any(name.startswith("_") for name in variables(made)):
                return made
        return Or((self.leaf(wanted), self.leaf(wanted)))

    def conjunction(self, wanted: set[str], depth: int, negated: bool) -> Formula:
        rng = self.rng
        first = set(rng.sample(sorted(wanted), rng.randint(1, len(wanted))))
        parts = [self.formula(first, depth)]
        rest = wanted - first
        if rest or (not negated and rng.random() < 0.7):
            also = set(rng.sample(sorted(first), rng.randint(0, len(first))))
            parts.append(self.formula((rest | also) or first, depth))
        no = [False] * len(parts)
        if negated or rng.random() < 0.2:
            asked = set(rng.sample(sorted(wanted), rng.randint(1, len(wanted))))
            if rng.random() < 0.3:  # of anybody else
                self.fresh += 1
                asked.add(rng.choice(("S", "I")) + str(self.fresh))
            parts.append(self.formula(asked, depth))
            no.append(True)
        return And(tuple(parts), tuple(no))

    def condition(self, wanted: set[str]) -> tuple[Term, str, Term]:
        name = self.rng.choice(sorted(wanted))
        if is_string(name):
            return Var(name), self.rng.choice(("=", "!=")), self.rng.choice("pqr")
        others = [each for each in sorted(wanted) if each != name and not is_string(each)]
        right: Term = Var(self.rng.choice(others)) if others and self.rng.random() < 0.5 else self.rng.randint(0, 2)
        return Var(name), self.rng.choice(("=", "!=", "<", ">=")), right

    def asked(self, wanted: set[str], depth: int) -> Formula:
        """With what is known of a string and a number, `link`, which may bind one of each."""
        rng = self.rng
        names = sorted(wanted)
        mine = set(rng.sample(names, rng.randint(1, len(names))))
        terms: list[Term] = []
        for strings in (True, False):
            left = [each for each in names if each not in mine and is_string(each) == strings]
            mine |= set(left[1:])
            bound = left[:1] or [each for each in sorted(mine) if is_string(each) == strings and rng.random() < 0.7]
            terms.append(Var(rng.choice(bound)) if bound else self.constant("s" if strings else "i"))
        negated = mine == wanted and rng.random() < 0.4
        return Asked(self.formula(mine, depth), Plain(rng.choice(("link", "linked")), tuple(terms)), negated)

    def aggregate(self, wanted: set[str], depth: int) -> Formula:
        made = self.rng.choice(sorted(wanted & set(INTEGERS)))
        by = wanted - {made}
        self.fresh += 1
        other = self.rng.choice((f"I{self.fresh}", f"I{self.fresh}", f"S{self.fresh}"))
        part = self.formula(by | {other}, depth)
        functions = ["count"] if is_string(other) else ["count", "max", "min", "sum", "mode"]
        function = self.rng.choice(functions)
        return Aggregate(part, ((made, function, None if function == "count" else other),), tuple(sorted(by)))

    def leaf(self, wanted: set[str]) -> Formula:
        """A fluent or an event; more of them where none has all these."""
        rng = self.rng
        strings = [each for each in sorted(wanted) if is_string(each)]
        integers = [each for each in sorted(wanted) if not is_string(each)]
        if len(strings) <= 1 and len(integers) <= 1:
            return self.plain(strings, integers)
        fit = [n for n, (types, _) in self.known.items() if types == "s" * len(strings) + "i" * len(integers)]
        if fit and rng.random() < 0.5:
            return self.of(rng.choice(fit), strings, integers)
        first = {rng.choice(sorted(wanted))}
        parts = (self.leaf(first), self.leaf(wanted - first))
        return And(parts, (False, False))

    def plain(self, strings: list[str], integers: list[str]) -> Formula:
        rng = self.rng
        fit = [
            name
            for name, (types, _) in self.known.items()
            if types.count("s") >= len(strings) and types.count("i") >= len(integers)
        ]
        name = rng.choice([*EVENTS, *EVENTS, "trip", *fit, *fit])
        if name == "trip":
            if "WITHIN" not in self.features:
                name = "a"
            else:
                return Plain("trip", self.terms("si", strings, integers), within=rng.randint(0, 6))
        if name in EVENTS:
            return Plain(name, self.terms("si", strings, integers))
        return self.of(name, strings, integers)

    def of(self, name: str, strings: list[str], integers: list[str]) -> Formula:
        types, valued = self.known[name]
        return Plain(name, self.terms(types, strings, integers), valued)

    def terms(self, types: str, strings: Sequence[str], integers: Sequence[str]) -> tuple[Term, ...]:
        left = {"s": list(strings), "i": list(integers)}
        made: list[Term] = []
        for type in types:
            if left[type]:
                made.append(Var(left[type].pop(0)))
            elif self.rng.random() < 0.3:
                made.append(self.constant(type))
            else:
                made.append(Var(self.own()))
        return tuple(made)


def is_string(name: str) -> bool:
    return name in STRINGS or name.startswith("S")


def furthest(rules: Sequence[Rule]) -> int:
    """How far all reaches go together, in microseconds."""

    def of(formula: Formula) -> int:
        reach = formula.reach if isinstance(formula, Timed) else None
        own = 0 if reach is None else reach.low if reach.high is None else reach.high
        return own + sum(map(of, parts_of(formula)))

    return sum(of(rule.formula) + sum(box.high or 0 for _, box in rule.boxes) for rule in rules)


def text(rules: Sequence[Rule], types: dict[str, tuple[str, bool]]) -> str:
    """The declarations and the rules."""
    lines = ["event trip(k: string, x: int) START begun END done."]
    for name in dict.fromkeys(rule.name for rule in rules):
        kinds, valued = types[name]
        written = [
            f"{'k' if kind == 's' else 'x'}{n}: {'string' if kind == 's' else 'int'}" for n, kind in enumerate(kinds)
        ]
        value = f" = {written.pop()}" if valued else ""
        lines.append(f"fluent {name}({', '.join(written)}){value}.")
    for rule in rules:
        boxes = "".join(f"{operator}{_reach(reach)} " for operator, reach in rule.boxes)
        lines.append(f"{boxes}{_plain(rule.name, rule.terms, rule.valued)} WHILE {_text(rule.formula, False)}.")
    return "\n".join(lines)


def _text(formula: Formula, inside: bool = True) -> str:
    """In parentheses where it is inside of another and is more than one fluent."""
    match formula:
        case Plain(name, terms, valued, None):
            return _plain(name, terms, valued)
        case Plain(name, terms, valued, within):
            made = f"{_plain(name, terms, valued)} WITHIN {_duration(within or 0)}"
        case And(parts, negated):
            made = " AND ".join(f"{'NOT ' if no else ''}{_text(p)}" for p, no in zip(parts, negated, strict=True))
        case Or(parts):
            made = " OR ".join(map(_text, parts))
        case Timed(operator, reach, (part,)):
            return f"{operator}{_reach(reach)} {_text(part)}"
        case Timed(operator, reach, (left, right)):
            made = f"{_text(left)} {operator}{_reach(reach)} {_text(right)}"
        case Lasting(part, least, strictly):
            made = f"{_text(part)} LASTING {'>' if strictly else '>='} {_duration(least)}"
        case Where(part, conditions):
            made = f"{_text(part)} WHERE " + ", ".join(f"{_term(a)} {c} {_term(b)}" for a, c, b in conditions)
        case Asked(part, known, negated):
            string, number = map(_term, known.terms)
            if known.name == "link":  # asked as it is; `linked` through a static rule
                marked = [name if '"' in name or name.isdigit() else f"?{name}" for name in (string, number)]
                asks = f"{{ [] x:key {marked[0]} ; x:val {marked[1]} }}"
            else:
                asks = _plain(known.name, known.terms, False)
            made = f"{_text(part)} WHERE {'not ' if negated else ''}{asks}"
        case Aggregate(part, results, by):
            values = ", ".join(f"{name} = {function}({argument or ''})" for name, function, argument in results)
            made = f"{_text(part)} AGGREGATE {values}" + (f" BY {', '.join(by)}" if by else "")
    return f"({made})" if inside else made


def _plain(name: str, terms: Sequence[Term], valued: bool) -> str:
    shown = [_term(each) for each in terms]
    value = f" = {shown.pop()}" if valued else ""
    return f"{name}({', '.join(shown)}){value}"


def _term(term: Term) -> str:
    if isinstance(term, Var):
        return "_" if term.name.startswith("_") else term.name
    return f'"{term}"' if isinstance(term, str) else str(term)


def _reach(reach: Reach) -> str:
    high = "inf" if reach.high is None else _duration(reach.high)
    return f"{reach.bounds[0]}{_duration(reach.low)}, {high}{reach.bounds[1]}"


def _duration(microseconds: int) -> str:
    return f"{microseconds / 1_000_000:.6f} s"
