"""The reference interpreter's reading of a program: text to plain tuples of its own. It expects a valid program."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from cep.events import Iri

SECOND = 1_000_000
UNITS = {"ms": 1_000, "s": SECOND, "min": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
PAIRINGS = ("seq", "and", "par", "or", "equals", "meets", "overlaps", "during", "starts", "finishes")


@dataclass(frozen=True)
class Ticks:
    """A time or a duration as a value, in microseconds."""

    kind: str  # time | duration
    n: int


# Expressions.
@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Const:
    value: Any


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Any, ...]


# Conditions.
@dataclass(frozen=True)
class Comparison:
    operator: str  # = != < <= > >=
    left: Any
    right: Any


@dataclass(frozen=True)
class Predicate:
    name: str
    arguments: tuple[Any, ...]
    negated: bool = False
    graph: tuple[tuple[str, str], ...] | None = None  # the prefixes of a graph pattern, whose text is the name


@dataclass(frozen=True)
class Or:
    """Alternatives, each a conjunction; `local`: the variables that some alternatives alone speak of (put in later)."""

    alternatives: tuple[tuple[Any, ...], ...]
    local: tuple[str, ...] = ()


# Patterns. `filters` are the components of conditions decided there (put in later).
@dataclass
class Atom:
    name: str
    arguments: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    filters: list[Any] = field(default_factory=list)


@dataclass
class Point:
    ticks: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Pair:
    operator: str  # one of PAIRINGS, or cnot
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)
    gap: tuple[int, int] | None = None  # of SEQ[g, h]


@dataclass
class Not:
    absent: Any
    left: Any
    right: Any
    filters: list[Any] = field(default_factory=list)


@dataclass
class Unless:
    left: Any
    absent: Any
    duration: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Times:
    pattern: Any
    count: int
    filters: list[Any] = field(default_factory=list)


@dataclass
class Within:
    pattern: Any
    duration: int


@dataclass
class Where:
    pattern: Any
    conditions: tuple[Any, ...]
    filters: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    name: str = "unrestricted"
    tie: str | None = None  # longest | shortest | by
    by: str | None = None


@dataclass
class Policy:
    pattern: Any
    choice: Choice


@dataclass
class Aggregate:
    pattern: Any
    results: tuple[tuple[str, str, bool, Any, Any], ...]  # variable, function, distinct, argument, parameter
    events: int | None
    duration: int | None
    by: tuple[str, ...]
    form: str = ""  # each, session, every
    step: int = 0  # their length
    origin: int = 0
    zone: str = ""
    filters: list[Any] = field(default_factory=list)


# Statements.
@dataclass
class Declaration:
    name: str
    attributes: list[tuple[str, str]]  # name, type


@dataclass
class EventRule:
    name: str
    arguments: tuple[Any, ...]
    body: Any
    policy: Choice
    names: tuple[str, ...] | None = None


@dataclass
class StaticRule:
    name: str
    arguments: tuple[Any, ...]
    conditions: tuple[Any, ...]


@dataclass
class Program:
    declarations: dict[str, Declaration]
    event_rules: list[EventRule]
    static_rules: list[StaticRule]


TOKEN = re.compile(
    r"""(?P<space>\s+|[#%][^\n]*)
      | (?P<iri><[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>"]*>)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<time>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)
      | (?P<period>P(?=[\dT])(?:\d+D)?(?:T(?:\d+(?:\.\d+)?[HMS])+)?\b)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[a-z][A-Za-z0-9_]*)
      | (?P<variable>[A-Z_][A-Za-z0-9_]*)
      | (?P<symbol><-|:-|!=|<=|>=|==|\*\*|//|\.\.|[-+*/<>=().,:\[\]?])
    """,
    re.VERBOSE,
)
STRINGS = r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
SPARQL = re.compile(rf"{STRINGS}|<[^<>\s{{}}]*>|#[^\n]*|[{{}}]|.", re.DOTALL)


def braces(text: str, start: int) -> int:
    """Where the braces that open at `start` are closed."""
    depth = 0
    for match in SPARQL.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    raise AssertionError("braces are not closed")


def parse(text: str, policy: str | None = None) -> Program:
    """Read a program; `policy` is the default where no policy statement has been met."""
    default = Reader(policy).choice() if policy else Choice()
    return Reader(text).program(default)


class Reader:
    """Recursive descent over a list of (kind, text, position)."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.prefixes: dict[str, str] = {}
        self.waiting: list[Unless] = []  # UNLESS that have not met their WITHIN
        position = 0
        while position < len(text):
            if text[position] == "{":
                start, position = position, braces(text, position)
                self.tokens.append(("graph", text[start:position], start))
                continue
            match = TOKEN.match(text, position)
            assert match, f"the reference cannot read {text[position : position + 20]!r}"
            position = match.end()
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match.group(), match.start()))
        self.tokens.append(("end", "", position))

    # Tokens.
    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][1]

    def kind(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][0]

    def word(self) -> str:
        """The next token as a keyword (lower case), or the empty string."""
        return self.peek().lower() if self.kind() in ("name", "variable") else ""

    def take(self, expected: str | None = None) -> str:
        text = self.peek()
        assert expected is None or text.lower() == expected, f"expected {expected!r}, found {text!r}"
        self.at += 1
        return text

    def maybe(self, *texts: str) -> bool:
        if self.peek().lower() in texts and self.kind() != "string":
            self.at += 1
            return True
        return False

    # Statements.
    def program(self, policy: Choice) -> Program:
        result = Program({}, [], [])
        while self.kind() != "end":
            if self.word() == "prefix" and (self.kind(1) in ("name", "variable") or self.peek(1) == ":"):
                self.take()
                name = "" if self.peek() == ":" else self.take()
                self.take(":")
                self.prefixes[name] = self.take()[1:-1]
            elif self.word() == "event" and self.kind(1) == "name":
                self.take()
                declaration = self.declaration()
                result.declarations[declaration.name] = declaration
            elif self.word() == "fact" and self.kind(1) == "name":
                self.take()
                self.declaration()
            elif self.word() == "policy" and self.kind(1) in ("name", "variable"):
                self.take()
                policy = self.choice()
                self.take(".")
            else:
                if self.peek(1) == ":":
                    self.take()
                    self.take(":")
                name = self.take()
                names = None
                if self.peek() == "(" and self.kind(1) == "name" and self.peek(2) == ":" and not self.prefixed(1):
                    self.at -= 1
                    head = self.primary()
                    names, arguments = head.names, head.arguments
                else:
                    arguments = self.arguments()
                if self.maybe("<-"):
                    result.event_rules.append(EventRule(name, arguments, self.pattern(), policy, names))
                else:
                    conditions = self.conditions() if self.maybe(":-") else ()
                    result.static_rules.append(StaticRule(name, arguments, conditions))
                self.take(".")
        for rule in result.event_rules:
            if rule.names is not None:
                given = dict(zip(rule.names, rule.arguments))
                declared = result.declarations.get(rule.name)
                firsts = (other.names for other in result.event_rules if other.name == rule.name and other.names)
                order = next(firsts) if declared is None else tuple(name for name, _ in declared.attributes)
                rule.names, rule.arguments = order, tuple(given[name] for name in order)
        return result

    def declaration(self) -> Declaration:
        declaration = Declaration(self.take(), [])
        if self.maybe("("):
            while not self.maybe(")"):
                name = self.take()
                self.take(":")
                declaration.attributes.append((name, self.take()))
                self.maybe("?")
                if self.maybe("in"):
                    self.expression()
                    self.take("..")
                    self.expression()
                if self.maybe("from"):
                    self.take()
                self.maybe(",")
        while self.maybe("time", "start", "end"):
            self.take()
        self.take(".")
        return declaration

    def choice(self) -> Choice:
        name = self.take().lower()
        if not self.maybe("("):
            return Choice(name)
        tie = self.take().lower()
        by = self.take() if tie == "by" else None
        self.take(")")
        return Choice(name, tie, by)

    # Patterns.
    def pattern(self) -> Any:
        waiting, self.waiting = self.waiting, []
        pattern = self.primary()
        while True:
            word = self.word()
            if word in PAIRINGS or word == "cnot":
                self.take()
                gap = None
                if word == "seq" and self.maybe("["):
                    low = self.duration()
                    self.take(",")
                    gap = (low, self.duration())
                    self.take("]")
                pattern = Pair(word, pattern, self.primary(), gap=gap)
            elif word == "unless":
                self.take()
                pattern = Unless(pattern, self.primary(), -1)
                self.waiting.append(pattern)
            elif word == "within":
                self.take()
                duration = self.duration()
                if self.waiting:
                    self.waiting.pop(0).duration = duration
                else:
                    pattern = Within(pattern, duration)
            elif word == "where":
                self.take()
                pattern = Where(pattern, self.conditions())
            elif word == "policy":
                self.take()
                pattern = Policy(pattern, self.choice())
            elif word == "aggregate":
                self.take()
                pattern = self.aggregate(pattern)
            else:
                assert not self.waiting, "UNLESS without WITHIN"
                self.waiting = waiting
                return pattern

    def primary(self) -> Any:
        if self.maybe("("):
            pattern = self.pattern()
            self.take(")")
            if self.peek() == "." and self.kind(1) in ("number", "period"):
                self.take()
                pattern = Within(pattern, self.duration())
        elif self.word() == "not" and self.peek(1) == "(":
            self.take()
            self.take("(")
            absent = self.pattern()
            self.take(")")
            self.take(".")
            self.take("[")
            left = self.pattern()
            self.take(",")
            right = self.pattern()
            self.take("]")
            pattern = Not(absent, left, right)
        elif self.kind() in ("number", "time") or self.peek() == "-":
            sign = -1 if self.peek() == "-" and self.take() else 1
            value = self.constant()
            pattern = Point(value.n if isinstance(value, Ticks) else sign * seconds(value))
        else:
            name = self.take()
            names: list[str] = []
            if self.peek() == "(" and self.kind(1) == "name" and self.peek(2) == ":" and not self.prefixed(1):
                self.take()
                arguments = []
                while not self.maybe(")"):
                    names.append(self.take())
                    self.take(":")
                    arguments.append(self.expression())
                    self.maybe(",")
                pattern = Atom(name, tuple(arguments), tuple(names))
            else:
                pattern = Atom(name, self.arguments())
        while self.word() == "times":
            self.take()
            pattern = Times(pattern, int(self.take()))
        return pattern

    def aggregate(self, pattern: Any) -> Aggregate:
        results = []
        while True:
            variable = self.take()
            self.take("=")
            function = self.take().lower()
            self.take("(")
            distinct = self.maybe("distinct")
            argument = None if self.peek() == ")" else self.expression()
            parameter = None
            if self.maybe(","):
                parameter = self.duration() if function == "ewma" else self.constant()
            self.take(")")
            results.append((variable, function, distinct, argument, parameter))
            if not self.maybe(","):
                break
        self.take("over")
        events = duration = None
        form, step, origin, zone = "", 0, 0, ""
        if self.peek().lower() in ("each", "session"):
            form = self.take().lower()
            if self.peek(1).lower() in ("week", "weeks"):
                step, origin = int(self.take()) * 7 * UNITS["d"], -3 * UNITS["d"]
                self.take()
            else:
                step = self.duration()
            if self.maybe("zone"):
                zone = self.constant()
        elif self.maybe("last") and self.peek(1).lower() in ("events", "event"):
            events = int(self.take())
            self.take()
        else:
            duration = self.duration()
        if self.maybe("every"):
            form, step = "every", self.duration()
        by: list[str] = []
        if self.maybe("by"):
            by.append(self.take())
            while self.maybe(","):
                by.append(self.take())
        return Aggregate(pattern, tuple(results), events, duration, tuple(by), form, step, origin, zone)

    # Conditions and expressions.
    def conditions(self, separators: tuple[str, ...] = (",",)) -> tuple[Any, ...]:
        conditions = [*self.condition()]
        while self.maybe(*separators):
            conditions += self.condition()
        return tuple(conditions)

    def either(self, separators: tuple[str, ...]) -> tuple[Any, ...]:
        """Alternatives; those of an `or` in an `or` are its own."""
        alternatives = [self.conditions(separators)]
        while self.maybe("or"):
            alternatives.append(self.conditions(separators))
        return either(alternatives)

    def condition(self) -> tuple[Any, ...]:
        if self.word() == "not" and self.peek(1) == "(":
            self.take()
            (inside,) = [self.condition()]
            return either([opposite(each) for each in inside])
        if self.word() == "not" and self.kind(1) in ("name", "graph"):
            self.take()
            return tuple(replace(each, negated=True) for each in self.condition())
        if self.kind() == "graph":
            text = self.take()
            names = dict.fromkeys(re.findall(r"[?$]([A-Z]\w*)", text))
            return (Predicate(text, tuple(map(Var, names)), False, tuple(self.prefixes.items())),)
        if self.peek() == "(":  # a value, or conditions: whichever can be read
            start = self.at
            try:
                return self.compared()
            except AssertionError:
                self.at = start
            self.take("(")
            found = self.either((",", "and"))
            self.take(")")
            return found
        return self.compared()

    def compared(self) -> tuple[Any, ...]:
        left = self.expression()
        if self.peek() in ("=", "==", "is", "!=", "<", "<=", ">", ">="):
            operator = self.take()
            return (Comparison("=" if operator in ("==", "is") else operator, left, self.expression()),)
        denied = self.maybe("not")
        if self.maybe("in"):
            self.take("[")
            values = [self.expression()]
            while self.maybe(","):
                values.append(self.expression())
            self.take("]")
            if denied:
                return tuple(Comparison("!=", left, value) for value in values)
            return either([(Comparison("=", left, value),) for value in values])
        if self.maybe("between"):
            low = self.expression()
            self.take("and")
            high = self.expression()
            if denied:
                return either([(Comparison("<", left, low),), (Comparison(">", left, high),)])
            return (Comparison(">=", left, low), Comparison("<=", left, high))
        if isinstance(left, Call):
            assert left.function not in (*"+-*/", "//", "mod", "neg", "**"), "a value is no condition"
            return (Predicate(left.function, left.arguments),)
        assert isinstance(left, Const) and isinstance(left.value, str), "a value is no condition"
        return (Predicate(left.value, ()),)

    def arguments(self) -> tuple[Any, ...]:
        arguments = []
        if self.maybe("("):
            while not self.maybe(")"):
                arguments.append(self.expression())
                self.maybe(",")
        return tuple(arguments)

    def expression(self) -> Any:
        left = self.product()
        while self.peek() in ("+", "-"):
            left = Call(self.take(), (left, self.product()))
        return left

    def product(self) -> Any:
        left = self.unary()
        while self.peek() in ("*", "/", "//") or (self.word() == "mod" and self.peek(1) != "("):
            left = Call(self.take(), (left, self.unary()))
        return left

    def unary(self) -> Any:
        if self.maybe("-"):
            operand = self.unary()
            if isinstance(operand, Const) and isinstance(operand.value, Ticks):
                return Const(Ticks(operand.value.kind, -operand.value.n))
            return Const(-operand.value) if isinstance(operand, Const) else Call("neg", (operand,))
        return self.power()

    def power(self) -> Any:
        left = self.term()
        return Call(self.take(), (left, self.unary())) if self.peek() == "**" else left

    def term(self) -> Any:
        if self.maybe("("):
            inner = self.expression()
            self.take(")")
            return inner
        if self.kind() == "variable" and not self.prefixed():
            name = self.take()
            # Each `_` is its own.
            return Var(f"_#{self.at}" if name == "_" else name)
        assert self.word() not in ("not", "or", "and", "in", "between"), "a keyword is no value"
        if self.peek() == "if" and self.peek(1) == "(":
            self.take()
            self.take("(")
            condition = self.either(("and",))
            self.take(",")
            yes = self.expression()
            self.take(",")
            no = self.expression()
            self.take(")")
            return Call("if", (condition, yes, no))
        if self.kind() == "name" and self.peek(1) == "(":
            return Call(self.take(), self.arguments())
        return Const(self.constant())

    def prefixed(self, ahead: int = 0) -> bool:
        """Is this `wt:Diablo`: a declared prefix, a colon and a name without space between?"""
        (_, name, p), (_, colon, q), (kind, _, r) = (self.tokens + 3 * [("end", "", 0)])[self.at + ahead :][:3]
        joined = q == p + len(name) and r == q + 1
        return colon == ":" and name in self.prefixes and joined and kind in ("name", "variable")

    def joined(self, ahead: int) -> bool:
        """Does a token follow the one before it without space between?"""
        (_, text, p), (kind, _, q) = self.tokens[self.at + ahead : self.at + ahead + 2]
        return kind != "end" and q == p + len(text)

    def constant(self) -> Any:
        if self.prefixed():
            prefix = self.take()
            self.take(":")
            local = self.take()
            while self.peek() == "-" and self.joined(-1) and self.joined(0):  # `unit:MI-PER-HR`
                local += self.take() + self.take()
            return Iri(self.prefixes[prefix] + local)
        kind, text = self.kind(), self.take()
        if kind == "number":
            value = float(text) if re.search(r"[.eE]", text) else int(text)
            if self.kind() == "name" and self.peek() in UNITS:
                return Ticks("duration", int(Fraction(text) * UNITS[self.take()]))
            return value
        if kind == "period":
            return Ticks("duration", period(text))
        if kind == "time":
            return Ticks("time", instant(text))
        if kind == "string":
            return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
        if kind == "iri":
            return Iri(text[1:-1])
        assert kind == "name", f"expected a constant, found {text!r}"
        return {"true": True, "false": False}.get(text, text)

    def duration(self) -> int:
        value = self.constant()
        return value.n if isinstance(value, Ticks) else seconds(value)


OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def either(alternatives: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    flat: list[tuple[Any, ...]] = []
    for each in alternatives:
        flat += each[0].alternatives if len(each) == 1 and isinstance(each[0], Or) else (each,)
    return flat[0] if len(flat) == 1 else (Or(tuple(flat)),)


def opposite(condition: Any) -> tuple[Any, ...]:
    """What `not` makes of a condition: what is missing fulfils neither."""
    if isinstance(condition, Comparison):
        return (replace(condition, operator=OPPOSITE[condition.operator]),)
    if isinstance(condition, Predicate):
        return (replace(condition, negated=not condition.negated),)
    return tuple(c for each in condition.alternatives for c in either([opposite(one) for one in each]))


def seconds(number: int | float) -> int:
    """A number of seconds as microseconds, by its shortest decimal spelling."""
    return round(Fraction(repr(number)) * SECOND)


def period(text: str) -> int:
    days, _, clock = text[1:].partition("T")
    total = Fraction(days[:-1] or 0) * UNITS["d"]
    for number, unit in re.findall(r"([\d.]+)([HMS])", clock):
        total += Fraction(number) * UNITS[{"H": "h", "M": "min", "S": "s"}[unit]]
    return int(total)


def instant(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86400 + passed.seconds) * SECOND + passed.microseconds
