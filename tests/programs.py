"""Random programs and streams: valid by the language reference, with small domains so that joins and ties hit.

Everything is drawn from one Hypothesis `Random`: it shrinks, and, unlike many small strategies, does not
come back with variations of what was drawn before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from cep.events import Event

SECOND = 1_000_000
LAST_SECOND = 12
NUMBERS = ("int", "float")
VALUES: dict[str, tuple[Any, ...]] = {"int": (0, 1, 2, 1), "float": (0.0, 1.0, 0.5, 1.0, 2.0), "string": ("u", "v")}
VARIABLES = {"int": ("X", "Y", "Z"), "float": ("X", "F"), "string": ("S", "T")}
TIES = ("", "", "(longest)", "(shortest)")

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


@dataclass(frozen=True)
class Program:
    text: str
    events: tuple[Event, ...]
    restricted: bool  # a policy but unrestricted governs some goal
    aggregates: bool
    negative: bool  # NOT, CNOT or UNLESS

    @property
    def any_order(self) -> bool:
        """Its result is a set fixed by the input alone, whatever the arrival order."""
        return not self.restricted and not self.aggregates

    def __repr__(self) -> str:
        lines = [f"    {event!r}," for event in self.events]
        return "\n".join(["Program:", self.text, "events = [", *lines, "]"])


@dataclass
class Rule:
    """What is known of a rule while it is made."""

    fresh: int = 0
    leaves: int = 4  # how many events it may still speak of
    absent: int = 0  # inside how many patterns that are to be absent
    allow: frozenset[str] = frozenset()  # unless, aggregate, point


@dataclass
class Maker:
    """Draws a program. Patterns are (text, variables it binds with their types), fit to stand after an operator."""

    random: Random
    kinds: list[Kind]
    statics: set[str] = field(default_factory=set)
    restricted: bool = False
    aggregates: bool = False
    negative: bool = False
    policies: bool = True
    several: bool = False  # conditions with several answers: which arrives first is not the language's to say
    rule: Rule = field(default_factory=Rule)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) >= 100 - percent

    def fresh(self, letter: str) -> str:
        self.rule.fresh += 1
        return f"{letter}{self.rule.fresh}"

    # --- patterns

    def pattern(self, depth: int, pool: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
        """Any pattern. With a `pool` (what is absent) variables come from it, or are the pattern's own."""
        if depth == 0 or self.rule.leaves <= 1 or self.chance(15):
            text, bound = self.atom(pool)
        else:
            make = self.pick((self.pair, self.pair, self.pair, self.either, self.absence, self.unless, self.repeat))
            text, bound = make(depth, pool)
        if depth and self.chance(30):
            text, bound = self.postfix(text, bound)
        return text, bound

    def atom(self, pool: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
        self.rule.leaves -= 1
        if "point" in self.rule.allow and self.chance(4):
            return str(self.pick((3, 6, 4.5))), {}
        kind = self.pick(self.kinds)
        arguments: list[str] = []
        bound: dict[str, str] = {}
        for wanted in kind.types:
            argument = self.argument(wanted, bound, pool)
            arguments.append(argument)
        if kind.declared and self.chance(20):
            named = [f"{kind.name}{i}: {a}" for i, a in enumerate(arguments) if a != "_"]
            return f"{kind.name}({', '.join(named)})" if named else f"{kind.name}{self.anonymous(kind)}", bound
        return f"{kind.name}({', '.join(arguments)})" if arguments else kind.name, bound

    def anonymous(self, kind: Kind) -> str:
        return f"({', '.join('_' for _ in kind.types)})" if kind.types else ""

    def argument(self, wanted: str, bound: dict[str, str], pool: dict[str, str] | None) -> str:
        if wanted not in VARIABLES:  # what may be off by a rounding is never looked at
            return "_"
        way = self.random.randint(0, 11)
        if way >= 10:
            return "_"
        if way == 9:
            return literal(self.pick(VALUES[wanted]))
        if pool is None:
            name = self.pick(VARIABLES[wanted])
        else:
            fitting = [v for v, t in pool.items() if t == wanted or (t in NUMBERS and wanted in NUMBERS)]
            name = self.pick([*fitting, *fitting, self.fresh("L")])
        bound.setdefault(name, wanted)
        return str(name)

    def pair(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        operator = self.pick(
            ("SEQ", "SEQ", "SEQ", "SEQ", "AND", "AND", "PAR", "EQUALS", "MEETS", "DURING", "STARTS", "FINISHES")
        )
        left, bound = self.pattern(depth - 1, pool)
        right, others = self.pattern(depth - 1, pool)
        return f"({left} {operator} {right})", others | bound

    def either(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        left, bound = self.pattern(depth - 1, pool)
        right = self.binding(bound)
        if right is None:
            return left, bound
        return f"({left} OR {right})", bound

    def binding(self, wanted: dict[str, str]) -> str | None:
        """A pattern that binds exactly these variables."""
        places = [(kind, i, t) for kind in self.kinds for i, t in enumerate(kind.types)]
        atoms = []
        for name, type in wanted.items():
            fitting = [(kind, i) for kind, i, t in places if t == type or (t in NUMBERS and type in NUMBERS)]
            if not fitting:
                return None
            kind, i = self.pick(fitting)
            arguments = [name if j == i else "_" for j in range(len(kind.types))]
            atoms.append(f"{kind.name}({', '.join(arguments)})")
        if not atoms:
            kind = self.pick(self.kinds)
            atoms.append(kind.name + self.anonymous(kind))
        self.rule.leaves -= len(atoms)
        return atoms[0] if len(atoms) == 1 else f"({self.pick((' AND ', ' SEQ ')).join(atoms)})"

    def absence(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        self.negative = True
        left, bound = self.pattern(depth - 1, pool)
        right, others = self.pattern(depth - 1, pool)
        bound = others | bound
        absent = self.absent(depth, bound)
        if self.chance(40):
            within = f" WITHIN {self.pick((3, 6))}" if self.chance(30) else ""
            return f"(({left} SEQ {right}{within}) CNOT {absent})", bound
        return f"NOT({absent}).[{left}, {right}]", bound

    def absent(self, depth: int, bound: dict[str, str]) -> str:
        """What is to be absent; it shares only variables of what stands around it."""
        self.rule.absent += 1
        text, _ = self.pattern(min(depth - 1, 1), bound)
        self.rule.absent -= 1
        return text

    def unless(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        if "unless" not in self.rule.allow:
            return self.pair(depth, pool)
        self.negative = True
        left, bound = self.pattern(depth - 1, pool)
        absent = self.absent(depth, bound)
        return f"({left} UNLESS {absent} WITHIN {self.pick((1, 2, 2.5, 4))})", bound

    def repeat(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        count = self.pick((2, 2, 3, 1))
        text, bound = self.pattern(min(depth - 1, 1), pool)
        self.rule.leaves -= count - 1
        return f"({text} TIMES {count})", bound

    # --- postfixes

    def postfix(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        ways: list[Callable[[str, dict[str, str]], tuple[str, dict[str, str]]]] = [self.within, self.where, self.where]
        if self.policies:
            ways.append(self.policy)
        if "aggregate" in self.rule.allow:
            ways.append(self.aggregate)
        return self.pick(ways)(text, bound)

    def within(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        if self.chance(20):
            return f"({text}).{self.pick((2, 3, 5))}", bound
        return f"({text} WITHIN {self.pick(('3', '1', '2', '4500 ms', '6 s'))})", bound

    def policy(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        return f"({text} POLICY {self.choice(bound)})", bound

    def choice(self, bound: dict[str, str]) -> str:
        name = self.pick(("recent", "chronological", "unrestricted"))
        if name == "unrestricted":
            return str(name)
        self.restricted = True
        numbers = [v for v, t in bound.items() if t in NUMBERS]
        ties = [*TIES, *(f"(by {v})" for v in numbers)]
        return f"{name}{self.pick(ties)}"

    def aggregate(
        self,
        text: str,
        bound: dict[str, str],
        windows: Sequence[str] = ("3 EVENTS", "2 EVENTS", "1 EVENTS", "4 s", "2500 ms"),
    ) -> tuple[str, dict[str, str]]:
        self.aggregates = True
        numbers = [v for v, t in bound.items() if t in NUMBERS]
        by = [v for v in bound if self.chance(40)]
        results: dict[str, str] = {}
        written = []
        for _ in range(self.random.randint(1, 2)):
            name = self.fresh("A")
            function = self.pick(("count", "sum", "max", "min", "first", "last", "avg", "distinct", "stddev"))
            if function == "count" or not bound:
                call, type = "count()", "int"
            elif function == "distinct":
                call, type = f"count(distinct {self.pick(list(bound))})", "int"
            elif function in ("first", "last"):
                argument = self.pick(list(bound))
                call, type = f"{function}({argument})", bound[argument]
            elif not numbers:
                call, type = "count()", "int"
            else:
                argument = self.pick(numbers)
                type = bound[argument]
                if self.chance(20):
                    argument, type = f"{argument} * 2 + 1", type
                call = f"{function}({argument})"
                if function == "stddev":
                    by, type = [], "rounded"  # one result an instant: no two that should be equal
                elif function == "avg":
                    type = "rounded"
            results[name] = type
            written.append(f"{name} = {call}")
        window = self.pick(windows)
        grouped = f" BY {', '.join(by)}" if by else ""
        kept = {v: bound[v] for v in by} | results
        return f"({text} AGGREGATE {', '.join(written)} OVER LAST {window}{grouped})", kept

    def where(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        bound = dict(bound)
        below = {v: t for v, t in bound.items() if t in VARIABLES}
        conditions: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            conditions.append(self.condition(below, bound))
        if self.chance(30):
            conditions.reverse()
        return f"({text} WHERE {', '.join(conditions)})", bound

    def condition(self, usable: dict[str, str], bound: dict[str, str]) -> str:
        """A condition over `usable`; what it binds is added to both."""
        numbers = [v for v, t in usable.items() if t in NUMBERS]
        strings = [v for v, t in usable.items() if t == "string"]
        ways: list[str] = ["interval"]
        if numbers:
            ways += ["compare", "compare", "calculate", "bind", "static", "static", "not", "called"]
        if strings:
            ways += ["string"]
        way = self.pick(ways)
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

    # --- rules

    def head(self, bound: dict[str, str], wanted: tuple[str, ...] | None, bounded: bool) -> tuple[str, tuple[str, ...]]:
        """Arguments of a head, of the `wanted` types if given. `bounded`: numbers stay few, for recursive rules."""
        if wanted is None:
            wanted = tuple(bound[v] for v in sorted(bound) if self.chance(60))[:2]
            if bounded:
                wanted = tuple("int" for _ in wanted)
        arguments = []
        for type in wanted:
            fitting = [v for v, t in bound.items() if t == type]
            if bounded:
                argument = f"({self.pick(fitting)} + {self.pick((1, 0))}) mod 3" if fitting else "1"
            elif type in NUMBERS:
                ways = [*fitting, *fitting, *(f"{v} + 1" for v in fitting), literal(self.pick(VALUES[type]))]
                argument = self.pick(ways)
            elif type == "string":
                argument = self.pick([*fitting, '"u"'])
            elif fitting:
                argument = self.pick(fitting)
            else:
                argument = {"duration": "2 s", "rounded": "0.5"}[type]
            arguments.append(argument)
        return f"({', '.join(arguments)})" if arguments else "", wanted

    def statement(self, name: str, depth: int, wanted: tuple[str, ...] | None, bounded: bool = False) -> Kind:
        """A rule for an event; its text is appended."""
        body, bound = self.pattern(depth)
        if body.startswith("(") and self.chance(50) and closes_at_end(body):
            body = body[1:-1]  # the same without parentheses
        head, types = self.head(bound, wanted, bounded)
        self.lines.append(f"{name}{head} <- {body}.")
        return Kind(name, types, tuple(False for _ in types), False, False)

    lines: list[str] = field(default_factory=list)


def closes_at_end(text: str) -> bool:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def event_kinds(random: Random) -> tuple[list[Kind], bool]:
    """Event types, and whether all events are points."""
    points = random.choice((False, True))
    kinds = []
    for name in "abcd"[: random.randint(2, 4)]:
        declared = random.randint(0, 2) == 2
        types = ["int"]
        for _ in range(random.randint(0, 1)):
            types.append(random.choice(("int", "int", "int", "float", "string")))
        optional = [declared and random.randint(0, 4) == 4 for _ in types]
        kinds.append(
            Kind(name, tuple(types), tuple(optional), declared, declared and points and random.choice((False, True)))
        )
    return kinds, points


def stream(random: Random, kinds: list[Kind], points: bool, most: int, lines: list[str]) -> tuple[Event, ...]:
    """Events of the kinds that the rules read, in a time short enough for ties."""
    names = set(re.findall(r"\w+", " ".join(lines)))
    kinds = [kind for kind in kinds if kind.name in names] or kinds
    last = random.choice((8, LAST_SECOND, 5, 3))
    events = []
    for _ in range(random.randint(0 if random.randrange(5) == 0 else most // 2, most)):
        kind = random.choice(kinds)
        args = tuple(
            None if optional and random.randrange(3) == 2 else random.choice(VALUES[type])
            for type, optional in zip(kind.types, kind.optional)
        )
        end = random.choice(range(last + 1))
        start = end if points or kind.point else max(0, end - random.choice((0, 1, 0, 2, 3, 5)))
        events.append(Event(kind.name, args, start * SECOND, end * SECOND))
    return tuple(events)


def finished(maker: Maker, inputs: list[Kind], events: tuple[Event, ...]) -> Program:
    # A policy goes by what is known to be a number.
    by = any("(by " in line for line in maker.lines)
    declarations = [kind.declaration() for kind in inputs if kind.declared or by]
    statics = [STATICS[name][1] for name in sorted(maker.statics)]
    text = "\n".join(declarations + maker.lines + statics)
    return Program(text, events, maker.restricted, maker.aggregates, maker.negative)


def program(random: Random, policies: bool = True, aggregates: bool = True, most: int = 14) -> Program:
    """Programs without recursion: 1 to 4 rules, the later ones on the earlier."""
    inputs, points = event_kinds(random)
    aggregates = aggregates and (policies or random.randrange(2) == 0)
    maker = Maker(random, list(inputs), policies=policies, several=not policies and not aggregates)
    heads: list[Kind] = []
    allow = frozenset({"unless", "point", "aggregate"} if aggregates else {"unless", "point"})
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        maker.rule = Rule(allow=allow)
        if policies and maker.chance(45):
            maker.lines.append(f"policy {maker.choice({})}.")
        if heads and maker.chance(20):  # another rule for an event
            again = maker.pick(heads)
            maker.kinds = [kind for kind in maker.kinds if kind not in heads]
            maker.statement(again.name, maker.pick((1, 2)), again.types)
            maker.kinds += heads
        else:
            head = maker.statement("efgh"[len(heads)], maker.pick((2, 1, 3)), None)
            heads.append(head)
            maker.kinds.append(head)
    return finished(maker, inputs, stream(random, inputs, points, most, maker.lines))


def iteration(random: Random, policies: bool = True) -> Program:
    """The common recursion, `x <- start. x <- x SEQ a`, with conditions, WITHIN, policies, and a rule that uses it."""
    inputs, points = event_kinds(random)
    maker = Maker(random, list(inputs), policies=policies)
    if policies and maker.chance(60):
        maker.lines.append(f"policy {maker.choice({})}.")
    types = ("int",) * random.randint(0, 2)
    for _ in range(random.choice((1, 1, 2))):
        maker.rule = Rule(leaves=2)
        maker.statement("x", random.randint(0, 1), types)
    for _ in range(random.choice((1, 1, 1, 2))):
        maker.rule = Rule()
        names = [maker.pick(("X", "Y", "_")) for _ in types]
        bound = {name: "int" for name in names if name != "_"}
        other, others = maker.atom()
        operator = maker.pick(("SEQ", "SEQ", "SEQ", "AND", "MEETS", "PAR", "DURING"))
        mine = f"x({', '.join(names)})" if names else "x"
        sides = (mine, other) if maker.chance(75) else (other, mine)
        body, bound = f"({sides[0]} {operator} {sides[1]})", others | bound
        if maker.chance(30):
            body, bound = maker.where(body, bound)
        if maker.chance(40):
            body, bound = maker.within(body, bound)
        head, _ = maker.head(bound, types, bounded=True)
        maker.lines.append(f"x{head} <- {body}.")
    maker.kinds.append(Kind("x", types, tuple(False for _ in types), False, False))
    if maker.chance(50):
        maker.rule = Rule(leaves=3, allow=frozenset({"unless", "aggregate"}))
        maker.statement("e", 1, None)
    return finished(maker, inputs, stream(random, inputs, points, 10, maker.lines))


def recursion(random: Random, policies: bool = True) -> Program:
    """General recursion: two events that any rule may use, and what is built on them."""
    inputs, points = event_kinds(random)
    maker = Maker(random, list(inputs), policies=policies)
    if policies and maker.chance(50):
        maker.lines.append(f"policy {maker.choice({})}.")
    names = ("x", "y")[: random.randint(1, 2)]
    kinds = [Kind(name, ("int",) * random.randint(0, 1), (False,), False, False) for name in names]
    for kind in kinds:
        maker.rule = Rule(leaves=2)
        maker.statement(kind.name, random.randint(0, 1), kind.types, bounded=True)
    maker.kinds = [*inputs, *kinds, *kinds]
    for _ in range(random.randint(1, 3)):
        maker.rule = Rule(leaves=3)
        kind = maker.pick(kinds)
        maker.statement(kind.name, maker.pick((1, 2)), kind.types, bounded=True)
    if maker.chance(40):
        maker.rule = Rule(leaves=2, allow=frozenset({"unless", "aggregate"}))
        maker.statement("e", 1, None)
    return finished(maker, inputs, stream(random, inputs, points, 7, maker.lines))


def contest(random: Random) -> Program:
    """One or two goals under a policy, and a stream full of ties; the head shows which partner was chosen."""
    points = random.randint(0, 3) == 3
    optional = random.randint(0, 4) == 4
    types = ("int", random.choice(("int", "float")))
    inputs = [Kind(name, types, (False, optional), True, False) for name in "abc"]
    maker = Maker(random, list(inputs))
    maker.rule = Rule(leaves=9)
    keys = {letter: maker.pick(("_", "_", "_", "K", "K", "1")) for letter in "abcx"}
    atom = {letter: f"{'b' if letter == 'x' else letter}({keys[letter]}, {letter.upper()})" for letter in "abcx"}
    bound = {"A": types[1], "B": types[1]}
    operators = 3 * ("SEQ", "AND") + ("PAR", "EQUALS", "MEETS", "DURING", "STARTS", "FINISHES")
    shape = maker.pick(("pair", "pair", "same", "chain", "right", "not", "unless", "times"))
    first = f"{atom['a']} {maker.pick(operators)} {atom['b']}"
    if shape == "same":
        body = f"a({keys['a']}, A) {maker.pick(operators)} a({keys['b']}, B)"
    elif shape == "chain":
        body, bound = f"({first}) {maker.pick(operators)} {atom['c']}", bound | {"C": types[1]}
    elif shape == "right":
        body, bound = f"{atom['c']} {maker.pick(operators)} ({first})", bound | {"C": types[1]}
    elif shape == "not":
        absent = f"c({maker.pick(('K', '_', 'L'))}, {maker.pick(('_', 'A', 'B', 'M'))})"
        if "K" not in (keys["a"], keys["b"]):
            absent = absent.replace("K", "L")
        body = f"NOT({absent}).[{atom['a']}, {atom['b']}]"
        maker.negative = True
    elif shape == "unless":
        body = f"({atom['a']} UNLESS c(_, 1) WITHIN 1) {maker.pick(operators)} {atom['b']}"
        maker.negative = True
    elif shape == "times":
        body, bound = f"a(_, A) {maker.pick(operators)} (b(_, _) TIMES 2)", {"A": types[1]}
    else:
        body = first
    if maker.chance(45):
        one, other = maker.pick(list(bound)), maker.pick(list(bound))
        condition = maker.pick(
            (
                f"{one} < {other} + 1",
                f"{one} != {other}",
                f"p({one}, W), p({other}, W)",
                "duration() <= 2",
                f"{one} > 0",
            )
        )
        if "p(" in condition:
            maker.statics.add("p")
        body = f"({body}) WHERE {condition}"
    if maker.chance(25):
        body += f" WITHIN {maker.pick((3, 2, 5))}"
    name = maker.pick(("recent", "chronological"))
    ties = ["", "(longest)", "(shortest)", *(f"(by {v})" for v in bound)]
    maker.restricted = True
    arguments = ", ".join(bound)
    maker.lines.append(f"policy {name}{maker.pick(ties)}.\ne({arguments}) <- {body}.")
    return finished(maker, inputs, stream(random, inputs, points, 16, maker.lines))


def window(random: Random) -> Program:
    """One aggregate over a dense stream, and perhaps a goal under a policy that takes its results."""
    points = random.randint(0, 2) == 2
    optional = random.randint(0, 3) == 3
    kinds = [Kind(name, ("int", random.choice(("int", "float"))), (False, optional), True, False) for name in "ab"]
    maker = Maker(random, list(kinds))
    maker.rule = Rule(leaves=3)
    value = kinds[0].types[1]
    atom = maker.pick(("a(G, X)", "a(G, X)", "a(_, X)", "a(G, X) SEQ b(_, _)", "(a(G, X) WHERE X >= 1)"))
    bound = {"X": value, "G": "int"} if "G" in atom else {"X": value}
    body, results = maker.aggregate(
        atom, bound, ("3 s", "1 s", "2 s", "5 s", "2500 ms", "3 EVENTS", "1 EVENTS", "2 EVENTS")
    )
    names = list(results)
    head = f"({', '.join(names)})" if names else ""
    maker.lines.append(f"e{head} <- {body}.")
    if maker.chance(40):
        choice = maker.choice({})
        arguments = ", ".join(chr(ord("P") + i) for i in range(len(names)))
        taken = f"e({arguments})" if names else "e"
        sides = maker.pick(((taken, "b(_, N)"), ("b(_, N)", taken)))
        arguments = f"({arguments}, N)" if names else "(N)"
        maker.lines.append(
            f"policy {choice}.\nf{arguments} <- {sides[0]} {maker.pick(('AND', 'SEQ', 'PAR'))} {sides[1]}."
        )
    return finished(maker, kinds, stream(random, kinds, points, 14, maker.lines))


def strategy(make: Callable[..., Program], **options: Any) -> st.SearchStrategy[Program]:
    return st.randoms(use_true_random=False).map(lambda random: make(random, **options))


def programs(**options: Any) -> st.SearchStrategy[Program]:
    """Programs without recursion. Options: `policies`, `aggregates` (may they be there), `most` (events)."""
    return strategy(program, **options)


def contests() -> st.SearchStrategy[Program]:
    """One or two goals that choose among many."""
    return strategy(contest)


def windows() -> st.SearchStrategy[Program]:
    """Aggregates."""
    return strategy(window)


def iterations() -> st.SearchStrategy[Program]:
    """The common recursion."""
    return strategy(iteration)


def recursions() -> st.SearchStrategy[Program]:
    """Recursion in general."""
    return strategy(recursion)
