"""Random valid conditions over static predicates and triples, with small domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

NUMBERS = ("int", "float")
VARIABLES = {"int": ("X", "Y", "Z"), "float": ("X", "F"), "string": ("S", "T")}

# Static predicates of whole numbers: arity, text. Listed, with several answers, negated, recursive, and called.
STATICS = {
    "p": (2, "p(0, 1). p(0, 2). p(1, 1). p(2, 0)."),
    "q": (1, "q(1). q(2)."),
    "r": (1, "r(X) :- low(X), not odd(X). low(0). low(1). low(2). odd(1)."),
    "reach": (2, "reach(X, Y) :- hop(X, Y). reach(X, Z) :- hop(X, Y), reach(Y, Z). hop(0, 1). hop(1, 2). hop(2, 1)."),
    "above": (1, "above(X) :- X >= 1."),
    "next": (2, "next(X, Y) :- X < 2, Y = X + 1."),
}
LISTED = ("p", "q", "r", "reach")

# Static predicates over triples, by the same rules.
KNOWN = {
    "kp": (2, "kp(X, Y) :- { ?s k:n ?X ; k:p ?o . ?o k:n ?Y }."),
    "kq": (1, "kq(X) :- triple(S, k:n, X), not { ?S a k:D }."),
    "kr": (2, "kr(X, Y) :- { ?A k:n ?X }, kb(A, B), triple(B, k:n, Y)."),
    "ko": (1, "ko(X) :- ({ ?s k:n ?X ; a k:D } or kb(A, B), triple(B, k:n, X)), X != 3."),
    "kb": (2, "kb(A, B) :- triple(A, k:p, B). kb(A, C) :- kb(A, B), { ?B k:p ?C }."),
}
PREFIX = "PREFIX k: <http://example.org/k#>"


@dataclass(frozen=True)
class Kind:
    """An event type: the types of its attributes, which of them may be missing, how it is declared."""

    name: str
    types: tuple[str, ...]
    optional: tuple[bool, ...]
    declared: bool
    point: bool

    def declaration(self) -> str:
        attributes = [f"{self.name}{i}: {t}{'?' * o}" for i, (t, o) in enumerate(zip(self.types, self.optional))]
        return f"event {self.name}({', '.join(attributes)}){' TIME at' * self.point}."


@dataclass
class Rule:
    """What is known of a rule while it is made."""

    fresh: int = 0
    leaves: int = 4  # how many events it may still speak of
    absent: int = 0  # inside how many patterns that are to be absent
    allow: frozenset[str] = frozenset()  # unless, aggregate, point


@dataclass
class ConditionMaker:
    """Draws conditions, which may bind variables."""

    random: Random
    kinds: list[Kind]
    statics: set[str] = field(default_factory=set)
    restricted: bool = False
    aggregates: bool = False
    negative: bool = False
    policies: bool = True
    several: bool = False  # conditions with several answers: which arrives first is not the language's to say
    knowledge: bool = False  # graph patterns and triples
    rule: Rule = field(default_factory=Rule)
    lines: list[str] = field(default_factory=list)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) >= 100 - percent

    def fresh(self, letter: str) -> str:
        self.rule.fresh += 1
        return f"{letter}{self.rule.fresh}"

    def where(self, text: str, bound: dict[str, str], most: int = 3) -> tuple[str, dict[str, str]]:
        bound = dict(bound)
        below = {v: t for v, t in bound.items() if t in VARIABLES}
        conditions: list[str] = []
        for _ in range(self.random.randint(1, most)):
            make = self.alternatives if self.chance(25) else self.condition
            conditions.append(make(below, bound))
        if self.chance(30):
            conditions.reverse()
        return f"({text} WHERE {', '.join(conditions)})", bound

    def alternatives(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        """Conditions joined by `or` and `not`, `in` and `between`; what they bind is added to both."""
        numbers = [v for v, t in usable.items() if t in NUMBERS]
        way = self.pick(("or", "or", "not") + 2 * ("in", "between", "bind", "local", "if") * bool(numbers))
        if way in ("or", "not"):
            some = [self.binding_nothing(usable, bound) for _ in range(self.random.randint(2, 4))]
            text = "".join(each + self.pick((" or ", " or ", ", ")) for each in some[:-1]) + some[-1]
            return f"{'not ' * (way == 'not')}({text})"
        left, other = self.pick(numbers), self.pick([*numbers, "1"])
        denied = "not " * self.chance(30)
        if way == "in":
            return f"{left} {denied}in [{other}, 0, 2.5]"
        if way == "between":
            return f"{left} {denied}between {self.pick((0, 1, other))} and {self.pick((1, 2, other))}"
        if way == "if":
            test = self.pick((f"{left} > {other}", f"{left} = 0 or {other} < 2 and {left} != 1", "duration() > 1"))
            return f"if({test}, {left}, coalesce({other}, 0)) {self.pick(('<=', '!=', '>'))} {other}"
        if way == "local":
            self.statics.add("p")
            name = self.fresh("L")
            return f"(p({left}, {name}), {name} > {other} or {self.binding_nothing(usable, bound)})"
        name = self.another(usable)
        first = f"{left} > 0, {name} = {left} - 1"
        if self.several:
            self.statics.add("p")
            first = f"p({left}, {name})"
        if name not in usable:
            usable[name] = bound[name] = "float" if usable[left] == "float" else "int"
        return f"({first} or {name} = {left} + 1, {left} <= 1)"

    def binding_nothing(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        """A condition that only tests."""
        for _ in range(6):
            known, given = dict(usable), dict(bound)
            text = self.condition(known, given)
            if (known, given) == (usable, bound):
                return text
        return "duration() >= 1"

    def condition(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        """A condition over `usable`; what it binds is added to both."""
        numbers = [v for v, t in usable.items() if t in NUMBERS]
        strings = [v for v, t in usable.items() if t == "string"]
        ways: list[str] = ["interval"]
        if numbers:
            ways += ["compare", "compare", "calculate", "bind", "static", "static", "not", "called"]
        if strings:
            ways += ["string"]
        if self.knowledge and (numbers or strings):
            ways += 3 * ["graph"] * len(ways)
        way = self.pick(ways)
        if way == "graph":
            return self.graph(numbers, strings, usable, bound)
        comparison = self.pick(("<=", "=", "!=", "<", ">", ">="))
        if way == "interval":
            if self.chance(25):
                name = self.fresh("D")
                bound[name] = "duration"
                return f"{name} = {self.pick(('duration()', 'end() - start()'))}"
            limit, other = self.pick(((0, 5), (1, 6), (2.5, 4), (4, 7)))
            return self.pick(
                (f"duration() {comparison} {limit}", f"start() {comparison} {other}", f"end() {comparison} {other}")
            )
        if way == "string":
            left = self.pick(strings)
            tests = (f'{left} != "u"', f'starts_with({left}, "u")', f'not contains({left}, "v")')
            return str(self.pick((*tests, f'lower({left}) = "u"', f"{left} {comparison} {self.pick(strings)}")))
        left = self.pick(numbers)
        if way == "compare":
            return f"{left} {comparison} {self.pick([*numbers, '1', '0', '1.5'])}"
        if way == "calculate":
            right = self.pick(numbers)
            sums = (f"{left} + {right}", f"{left} * 2 - {right}", f"max({left}, {right})", f"{left} / {right}")
            return f"{self.pick((*sums, f'{left} mod 2', f'-{left}'))} {comparison} {self.pick((1, 2, 0))}"
        if way == "bind":
            name = self.another(usable)
            value = self.pick((f"{left} + 1", f"{left} mod 2", f"{left} * {self.pick(numbers)}"))
            if name not in usable:
                usable[name] = bound[name] = usable[left]
            return f"{name} = {value}"
        if way == "called":
            name = self.pick(("above", "next"))
            self.statics.add(name)
            if name == "above":
                return f"{self.pick(('', 'not '))}above({left})"
            return f"next({left}, {self.binding_one(usable, bound)})"
        name = self.pick(LISTED)
        self.statics.add(name)
        arity = STATICS[name][0]
        if way == "not":
            return f"not {name}({left})" if arity == 1 else f"not {name}({left}, {self.pick([*numbers, '_', '1'])})"
        if arity == 1:
            return f"{name}({left})"
        first, second = left, self.answer(usable, bound)
        return f"{name}({first}, {second})" if self.chance(70) else f"{name}({second}, {first})"

    def graph(self, numbers: list[str], strings: list[str], usable: dict[str, str], bound: dict[str, str]) -> str:
        """A condition on triples over usable variables; what it binds is added to both."""
        if strings and (not numbers or self.chance(30)):
            left = self.pick(strings)
            tests = (f"{{ ?s k:t ?{left} }}", f"not {{ ?s k:t ?{left} ; a k:D }}", f"triple(_, k:t, {left})")
            if not self.several or self.chance(40):
                return str(
                    self.pick((*tests, f"{{ ?s k:t ?{left} ; k:n ?{self.pick(numbers)} }}" if numbers else tests[0]))
                )
            return f"{{ ?s k:t ?{left} ; k:n ?{self.binding_one(usable, bound)} }}"
        left = self.pick(numbers)
        if self.chance(25):
            name = self.pick(("kp", "kq", "kr", "ko"))
            self.statics |= {name, "kb"} if name in ("kr", "ko") else {name}
            if name in ("kq", "ko"):
                return f"{self.pick(('', 'not '))}{name}({left})"
            return f"{name}({left}, {self.answer(usable, bound)})"
        other = self.pick(numbers)
        tests = (
            f"{{ ?s k:n ?{left} ; a k:C }}",
            f"{{ ?s k:m ?{left} }}",
            f"{{ ?s k:n ?{left} ; k:p ?o . ?o k:n ?{other} }}",
            f"not {{ ?s k:n ?{left} }}",
            f"not {{ ?s k:m ?{left} ; k:n ?{self.fresh('N')} }}",
            f"triple(_, k:n, {left})",
            f"not triple(_, k:m, {left})",
            f"{{ ?s k:n ?{left} }}, {{ ?s k:m ?{other} }}",
        )
        if not self.several or self.chance(40):
            return str(self.pick(tests))
        way = self.pick(("join", "optional", "node", "term"))
        if way == "join":
            return f"{{ ?s k:n ?{left} ; k:p ?o . ?o k:n ?{self.binding_one(usable, bound)} }}"
        if way == "optional":
            name = self.another(usable)
            usable[name] = bound[name] = "float"
            return f"{{ ?s k:n ?{left} OPTIONAL {{ ?s k:m ?{name} }} }}"
        node = self.fresh("I")
        bound[node] = "iri"
        if way == "node":
            return f"{{ ?{node} k:n ?{left} }}, triple({node}, k:p, {self.pick(('_', 'k:s1', 'k:s0'))})"
        return f'{node} = iri("http://example.org/k#s", int({left})), {{ ?{node} k:p ?x }}'

    def another(self, usable: dict[str, str]) -> str:
        """A variable that is not bound yet, perhaps one that is bound elsewhere in the rule."""
        others = [v for v in VARIABLES["int"] if v not in usable]
        if others and not self.rule.absent and self.chance(40):
            return str(self.pick(others))
        return self.fresh("W")

    def answer(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        """An argument of a static predicate: often a variable that it binds."""
        if not self.several or self.chance(40):
            numbers = [v for v, t in usable.items() if t in NUMBERS]
            return str(self.pick([*numbers, "_", "1"]))
        return self.binding_one(usable, bound)

    def binding_one(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        name = self.another(usable)
        usable[name] = bound[name] = "int"
        return name
