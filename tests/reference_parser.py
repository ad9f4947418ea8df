"""The reference interpreter's parser of statements and patterns. It expects a valid program."""

from __future__ import annotations

from typing import Any

from tests.reference_expressions import ExpressionReader, seconds
from tests.reference_nodes import PREFIXED, Unless
from tests.reference_tree import (
    Atom,
    Choice,
    Declaration,
    EventRule,
    Pair,
    Point,
    Policy,
    Program,
    StaticRule,
    Ticks,
    Times,
    Where,
    Within,
)
from tests.reference_windows import Aggregate

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
                pattern = Aggregate.read(self, pattern)
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
        elif self.kind() == "variable":
            pattern = PREFIXED[self.take().lower()].read(self)
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
