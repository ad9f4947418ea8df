"""The reference interpreter's parser of statements and patterns. It expects a valid program."""

from __future__ import annotations

from typing import Any

from tests.reference_expressions import ExpressionReader, seconds
from tests.reference_tree import (
    UNITS,
    Aggregate,
    Atom,
    Choice,
    Declaration,
    EventRule,
    Not,
    Pair,
    Point,
    Policy,
    Program,
    StaticRule,
    Ticks,
    Times,
    Unless,
    Where,
    Within,
)

PAIRINGS = ("seq", "and", "par", "or", "equals", "meets", "overlaps", "during", "starts", "finishes")


def parse(text: str, policy: str | None = None) -> Program:
    """Read a program; `policy` is the default where no policy statement has been met."""
    default = Reader(policy).choice() if policy else Choice()
    return Reader(text).program(default)


class Reader(ExpressionReader):
    """Recursive descent over statements and patterns."""

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
        declaration.distinct = bool(self.maybe("distinct"))
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
